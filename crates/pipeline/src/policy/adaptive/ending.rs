//! The end of a run: who would be late.

use std::time::Duration;

use super::{Adaptive, State};
use crate::Waiting;

impl Adaptive {
    /// Whether the others would have drained the queue before a worker is done with a claim
    /// that takes it `wall` microseconds; if so, when to look again.
    pub(super) fn would_be_late(
        &self,
        worker: usize,
        wall: f64,
        waiting: &Waiting,
        now: Duration,
    ) -> Option<Duration> {
        // What is done together is done by the end, whoever joins.
        if self.workers.len() == 1 || wall <= NOT_LATE || waiting.divisible > 0 {
            return None;
        }
        let groups: Vec<_> = waiting.classes().map(|class| self.group(class, waiting)).collect();
        let jobs: f64 = groups.iter().map(|group| group.jobs).sum();
        let mut others = Vec::with_capacity(self.workers.len());
        for (number, other) in self.workers.iter().enumerate() {
            // Whoever is idle has declined too, or waits for a core: who counts on them and is
            // counted on by them would leave the tasks to nobody.
            let free = match other.state {
                State::Left | State::Idle => continue,
                State::Working { until, .. } => until.saturating_sub(now).as_secs_f64() * 1e6,
                State::Called => 0.0,
            };
            if number == worker {
                continue;
            }
            // The mean time for a job of those that wait.
            let mut sum = 0.0;
            let knows = groups.iter().all(|group| {
                let cost =
                    self.price(other.engine, group).filter(|_| self.takes(other.engine, group));
                sum += cost.map_or(0.0, |cost| group.jobs * (cost.wall + self.around.wall));
                cost.is_some()
            });
            if !knows {
                continue;
            }
            others.push((free, sum / jobs));
        }
        let drained = drained_after(&mut others, jobs, wall)?;
        let again = (wall - drained).clamp(LOOK_AGAIN, 10.0 * LOOK_AGAIN);
        Some(Duration::from_nanos((again * 1000.0) as u64))
    }
}

/// When workers that are free after the first time and take the second for a job are done with
/// so many jobs, if that is before `deadline`; all in microseconds.
fn drained_after(workers: &mut [(f64, f64)], jobs: f64, deadline: f64) -> Option<f64> {
    let done_by = |(free, each): &(f64, f64)| ((deadline - free) / each.max(1e-3)).floor().max(0.0);
    let done: f64 = workers.iter().map(done_by).sum();
    if workers.is_empty() || done < jobs {
        return None;
    }
    if jobs > FEW {
        return Some(deadline * jobs / done);
    }
    let mut last = 0.0_f64;
    for _ in 0..jobs as usize {
        let ends = |worker: &&mut (f64, f64)| worker.0 + worker.1;
        let first = workers.iter_mut().min_by(|one, other| ends(one).total_cmp(&ends(other)))?;
        first.0 += first.1;
        last = last.max(first.0);
    }
    Some(last)
}

/// What nobody waits for, in microseconds: it takes a thread about as long to wake.
const NOT_LATE: f64 = 20.0;

/// How soon to look again, in microseconds.
const LOOK_AGAIN: f64 = 200.0;

/// How many jobs are worth being gone through one by one.
const FEW: f64 = 64.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_ends_first_gets_the_next_job() {
        let drained = |workers: &[(f64, f64)], jobs, deadline| {
            drained_after(&mut workers.to_vec(), jobs, deadline)
        };
        assert_eq!(drained(&[(100.0, 10.0)], 3.0, 1000.0), Some(130.0));
        assert_eq!(drained(&[(100.0, 10.0)], 3.0, 120.0), None);
        assert_eq!(drained(&[(0.0, 10.0), (5.0, 20.0)], 3.0, 1000.0), Some(25.0));
        assert_eq!(drained(&[], 1.0, 1000.0), None);
    }
}
