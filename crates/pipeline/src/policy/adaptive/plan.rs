//! A claim that stays the same for a while.
//!
//! A worker's claim follows from the engines' costs, the chosen set and the waiting tasks. In a
//! long run of jobs of one class, none of these changes from one claim to the next, and on a slow
//! processor the calculation takes as long as a tenth of a module's job.

use std::time::Duration;

use crate::{Load, SizeClass, Waiting};

/// A claim, and the conditions under which it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// The only class that waits.
    pub(super) class: SizeClass,
    /// The length of the class's jobs, in bytes, if it is known.
    pub(super) bytes: Option<u64>,
    /// The number of tasks to claim.
    pub(super) tasks: usize,
    /// A worker's time for a job.
    pub(super) each: Duration,
    /// The least number of waiting tasks. With fewer, the claim may have to be smaller, or be left
    /// to other workers.
    pub(super) least_waiting: usize,
}

impl Plan {
    pub(super) fn holds(&self, waiting: &Waiting) -> bool {
        waiting.tasks >= self.least_waiting && waiting.of(self.class).tasks == waiting.tasks
    }

    /// A worker's time for a load; `None` if the plan is for other jobs.
    pub(super) fn time_of(&self, load: Load) -> Option<Duration> {
        let is_alike = load.class() == self.class && mean(load.bytes, load.jobs) == self.bytes;
        is_alike.then(|| self.each.saturating_mul(u32::try_from(load.jobs).unwrap_or(u32::MAX)))
    }
}

/// The mean length of these jobs, in whole bytes.
pub(super) fn mean(bytes: Option<u64>, jobs: u64) -> Option<u64> {
    Some(bytes? / jobs.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_while_nothing_else_waits_and_enough_does() {
        let plan = Plan {
            class: SizeClass::of(4096),
            bytes: Some(4096),
            tasks: 2,
            each: Duration::from_micros(100),
            least_waiting: 3,
        };
        let mut waiting = Waiting::default();
        (0..2).for_each(|_| waiting.add(Load::job(4096)));
        assert!(!plan.holds(&waiting));
        waiting.add(Load::job(4096));
        assert!(plan.holds(&waiting));
        waiting.add(Load::job(100));
        assert!(!plan.holds(&waiting));
        assert_eq!(plan.time_of(Load::jobs(3, 3 * 4096)), Some(Duration::from_micros(300)));
        assert_eq!(plan.time_of(Load::job(5000)), None);
        assert_eq!(plan.time_of(Load::unknown(1)), None);
    }
}
