//! The cost of recomputing every job of a session, compared with the time that its engine takes.
//!
//! On a processor with AES instructions `openssl` recomputes a job in a small part of the time that
//! a token or a slow device takes for it. There the guard verifies every job. Elsewhere it verifies
//! samples.

use std::time::Duration;

use evener_core::Job;

/// The jobs of one session so far.
#[derive(Default)]
pub(super) struct Expense {
    /// The jobs that the engine processed.
    done: Effort,
    /// The jobs that the reference engine recomputed.
    recomputed: Effort,
}

/// Jobs, and the time that they took.
#[derive(Clone, Copy, Default)]
struct Effort {
    /// In bytes.
    size: u64,
    time: Duration,
}

impl Effort {
    fn add(&mut self, size: u64, time: Duration) {
        self.size = self.size.saturating_add(size);
        self.time = self.time.saturating_add(time);
    }
}

impl Expense {
    /// Counts jobs of the engine.
    pub(super) fn done(&mut self, size: u64, time: Duration) {
        self.done.add(size, time);
    }

    /// Counts a job that was recomputed.
    pub(super) fn recomputed(&mut self, size: u64, time: Duration) {
        self.recomputed.add(size, time);
    }

    /// Returns whether recomputing all jobs would take at most [`MOST`] of the engine's time if
    /// this many sessions share a core. Sums over the whole session decide, so that an engine that
    /// begins to skip its work is not verified less for being fast.
    pub(super) fn is_small(&self, sessions: usize) -> bool {
        let Effort { size, time } = self.recomputed;
        if size == 0 {
            return false;
        }
        let all = time.as_secs_f64() * self.done.size as f64 / size as f64;
        all * sessions.max(1) as f64 <= MOST * self.done.time.as_secs_f64()
    }
}

/// The size of a job for this purpose, in bytes. A short job costs more than its bytes.
pub(super) fn size(job: &Job<'_>) -> u64 {
    ((job.aad.len() + job.input.len()) as u64).saturating_add(CALL)
}

/// The part of a core's time that recomputing every job may take.
const MOST: f64 = 0.05;

/// An empty job takes as long as this many bytes.
const CALL: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    /// A session whose engine takes this many times as long as the reference engine.
    fn session(times: u32) -> Expense {
        let mut expense = Expense::default();
        (0..100).for_each(|_| expense.done(4096, times * MICROSECOND));
        expense.recomputed(4096, MICROSECOND);
        expense
    }

    #[test]
    fn every_job_of_a_slow_engine_is_verified() {
        assert!(session(21).is_small(1));
        assert!(!session(19).is_small(1));
        // Each of four sessions may have a quarter.
        assert!(!session(21).is_small(4));
        assert!(session(81).is_small(4));
    }

    #[test]
    fn nothing_is_decided_before_a_job_was_recomputed() {
        let mut expense = Expense::default();
        expense.done(4096, MICROSECOND);
        assert!(!expense.is_small(1));
    }

    #[test]
    fn an_engine_that_skips_its_work_is_verified_as_before() {
        let mut expense = session(100);
        (0..50).for_each(|_| expense.done(4096, Duration::ZERO));
        assert!(expense.is_small(1));
    }
}
