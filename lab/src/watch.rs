//! Reports the benchmark's progress, and interrupts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::LabError;

/// Reports each step and records Ctrl-C or `kill`, so that even then a benchmark removes its files
/// and ends its programs; files on tmpfs may take gigabytes of memory.
pub(crate) struct Watch<'a> {
    say: &'a mut dyn FnMut(&str),
    interrupted: Arc<AtomicBool>,
    handlers: Vec<SigId>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(say: &'a mut dyn FnMut(&str)) -> Watch<'a> {
        let interrupted = Arc::new(AtomicBool::new(false));
        // Without a handler, the signal still stops the benchmark, but its files remain.
        let register = |signal| signal_hook::flag::register(signal, Arc::clone(&interrupted)).ok();
        let handlers = [SIGINT, SIGTERM, SIGHUP].into_iter().filter_map(register).collect();
        Watch { say, interrupted, handlers }
    }

    /// Reports the next step; fails if the benchmark was interrupted.
    pub(crate) fn next(&mut self, what: &str) -> Result<(), LabError> {
        self.go_on()?;
        (self.say)(what);
        Ok(())
    }

    /// Fails if the benchmark was interrupted.
    pub(crate) fn go_on(&self) -> Result<(), LabError> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(LabError::Interrupted),
            false => Ok(()),
        }
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}
