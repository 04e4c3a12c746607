//! How long a process waits at a gate.

use std::time::Duration;

/// Decides how long a process waits.
pub(crate) trait Patience {
    /// Called before every sleep at a place, after its bell was read. Returns the time limit of the
    /// sleep; `None` ends the wait.
    fn stays(&mut self, queue: usize, position: u64) -> Option<Duration>;
}

/// Waits without limit, or not at all.
impl Patience for bool {
    fn stays(&mut self, _: usize, _: u64) -> Option<Duration> {
        self.then_some(Duration::MAX)
    }
}
