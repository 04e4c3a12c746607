//! A waiter that takes a core at once when its turn comes.
//!
//! Since Linux 6.6 a thread that wakes up does not push aside one that has not yet had the
//! least turn on its core. The permit would be idle for that long, and with it the device, or
//! the core that was vacated for the waiter ([`cores`](crate::cores)). Since 6.12 a thread may
//! ask for shorter turns, and who has shorter turns need not wait. So a waiter asks for short
//! ones before it sleeps, and for those that it had when its wait is over.

use std::sync::Arc;
use std::time::Duration;

use crate::file::GateFile;
use crate::patience::Patience;
use crate::sys::Turns;

/// A visitor's patience, and what its thread was like before it slept.
pub(crate) struct Eager<'a> {
    patience: &'a mut dyn Patience,
    /// Whether the thread has slept, and then its turns before, if they were changed.
    before: Option<Option<Turns>>,
}

impl<'a> Eager<'a> {
    pub(crate) fn new(patience: &'a mut dyn Patience) -> Eager<'a> {
        Eager { patience, before: None }
    }
}

impl Patience for Eager<'_> {
    fn stays(&mut self, queue: usize, position: u64) -> Option<Duration> {
        let limit = self.patience.stays(queue, position)?;
        self.before.get_or_insert_with(|| Turns::of_this_thread()?.shorten());
        Some(limit)
    }

    fn comes_to(&mut self, file: &Arc<GateFile>) {
        self.patience.comes_to(file);
    }
}

impl Drop for Eager<'_> {
    fn drop(&mut self) {
        if let Some(Some(before)) = self.before.take() {
            before.restore();
        }
    }
}
