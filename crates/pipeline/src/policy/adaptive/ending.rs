//! The end of a run: a worker declines a job that the other workers would finish sooner.

/// A worker that continues: the time until it is free, and its time for a job after that, in
/// microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Other {
    pub(super) free: f64,
    pub(super) each: f64,
}

/// Returns whether the other workers would finish `jobs` jobs before `deadline`, in microseconds
/// from now.
pub(super) fn would_drain(others: impl Iterator<Item = Other>, jobs: f64, deadline: f64) -> bool {
    let by_then = |it: Other| ((deadline - it.free) / it.each.max(1e-3)).floor().max(0.0);
    others.map(by_then).sum::<f64>() >= jobs
}

/// A claim that takes less, in microseconds, is never late: waking a thread takes as long.
pub(super) const NOT_LATE: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_whole() {
        let drained = |others: &[(f64, f64)], jobs, deadline| {
            would_drain(others.iter().map(|&(free, each)| Other { free, each }), jobs, deadline)
        };
        assert!(drained(&[(100.0, 10.0)], 3.0, 130.0));
        assert!(!drained(&[(100.0, 10.0)], 3.0, 129.0));
        assert!(drained(&[(0.0, 10.0), (5.0, 20.0)], 3.0, 25.0));
        assert!(!drained(&[(0.0, 10.0), (5.0, 20.0)], 3.0, 24.0));
        assert!(!drained(&[], 1.0, 1000.0));
    }
}
