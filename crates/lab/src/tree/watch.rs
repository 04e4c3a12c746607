//! Telling how far the benchmark is, and stopping it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::SIGINT;

use crate::LabError;

/// Tells someone what is being done, and remembers that Ctrl-C was pressed: the trees may
/// take gigabytes of memory on tmpfs, so they must be removed even then.
pub(crate) struct Watch<'a> {
    say: &'a mut dyn FnMut(&str),
    interrupted: Arc<AtomicBool>,
    handler: Option<SigId>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(say: &'a mut dyn FnMut(&str)) -> Watch<'a> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // Without the handler, Ctrl-C still stops the benchmark; it only leaves the trees.
        let handler = signal_hook::flag::register(SIGINT, Arc::clone(&interrupted)).ok();
        Watch { say, interrupted, handler }
    }

    /// Says what is done next, unless Ctrl-C was pressed.
    pub(crate) fn next(&mut self, what: &str) -> Result<(), LabError> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        (self.say)(what);
        Ok(())
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if let Some(handler) = self.handler {
            signal_hook::low_level::unregister(handler);
        }
    }
}
