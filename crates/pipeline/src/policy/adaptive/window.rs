//! The work that gets done in a period.
//!
//! A window is a period in which the same engines work and none of them lacks tasks. Each finished
//! claim counts by the part of its time that is within the window, so a window needs no clock but
//! the one that every claim has anyway.

use std::time::Duration;

use super::engines::{Engines, micros};
use super::{Group, MOST, Members};
use crate::{Load, SizeClass};

/// A period, and the work done in it so far.
pub(super) struct Window {
    since: Duration,
    /// The engines that have worked.
    worked: Members,
    done: Vec<Done>,
}

/// The work done on a class.
#[derive(Clone, Copy)]
struct Done {
    class: SizeClass,
    jobs: f64,
    bytes: f64,
    by_modules: f64,
}

/// The result of a window.
pub(super) struct Sample {
    pub(super) class: SizeClass,
    /// The engines that have worked.
    pub(super) engines: Members,
    /// The mean length of the class's jobs.
    pub(super) bytes: f64,
    /// The work per microsecond, in jobs of the class.
    pub(super) rate: f64,
}

impl Window {
    pub(super) fn new(since: Duration) -> Window {
        Window { since, worked: 0, done: Vec::new() }
    }

    /// Counts a load that an engine processes from `begun` to `ended`, up to `now`.
    pub(super) fn count(
        &mut self,
        engine: usize,
        load: Load,
        (begun, ended): (Duration, Duration),
        engines: &Engines,
        now: Duration,
    ) {
        let jobs = load.jobs as f64 * share_of(begun, ended, self.since, now);
        self.worked |= if engine < MOST { 1 << engine } else { 0 };
        let class = load.class();
        let index = self.done.iter().position(|done| done.class == class).unwrap_or_else(|| {
            self.done.push(Done { class, jobs: 0.0, bytes: 0.0, by_modules: 0.0 });
            self.done.len() - 1
        });
        let done = &mut self.done[index];
        done.jobs += jobs;
        done.bytes += jobs * engines.mean_bytes(load);
        if !engines.is_cpu(engine) {
            done.by_modules += jobs;
        }
    }

    pub(super) fn is_long_enough(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= LENGTH
    }

    /// The sample of a window that ends now, for the class that it shows most about.
    pub(super) fn sample(&self, engines: &Engines, now: Duration) -> Option<Sample> {
        let has_modules = self.done.iter().any(|done| done.by_modules > 0.0);
        let weight = |done: &Done| if has_modules { done.by_modules } else { done.jobs };
        let most = *self.done.iter().max_by(|one, other| weight(one).total_cmp(&weight(other)))?;
        // Jobs of other classes count as the jobs of this class that the cores could have done
        // instead.
        let value = |done: &Done| {
            let bytes = done.bytes / done.jobs.max(1e-9);
            let group = Group { class: done.class, tasks: 1, jobs: f64::INFINITY, bytes };
            engines.cheapest_on_cores(&group)
        };
        let mut jobs = most.jobs;
        for done in self.done.iter().filter(|done| done.class != most.class) {
            jobs += done.jobs * value(done)? / value(&most)?.max(1e-6);
        }
        // A rate of 0 would mean that the engines are absent.
        (jobs > 0.0).then(|| Sample {
            class: most.class,
            engines: self.worked,
            bytes: most.bytes / most.jobs.max(1e-9),
            rate: jobs / micros(now.saturating_sub(self.since)).max(1.0),
        })
    }
}

/// The part of the time from `begun` to `ended` that is between `from` and `to`.
fn share_of(begun: Duration, ended: Duration, from: Duration, to: Duration) -> f64 {
    if begun >= from && ended <= to {
        return 1.0;
    }
    let inside = ended.min(to).saturating_sub(begun.max(from)).as_secs_f64();
    (inside / ended.saturating_sub(begun).as_secs_f64().max(1e-9)).min(1.0)
}

/// The least length of a window: long compared with the scheduler's time slices.
pub(super) const LENGTH: Duration = Duration::from_millis(12);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_counts_by_the_part_of_its_time_that_is_within() {
        let ms = Duration::from_millis;
        assert_eq!(share_of(ms(10), ms(20), ms(0), ms(30)), 1.0);
        assert_eq!(share_of(ms(10), ms(20), ms(15), ms(30)), 0.5);
        assert_eq!(share_of(ms(10), ms(30), ms(15), ms(20)), 0.25);
        assert_eq!(share_of(ms(10), ms(20), ms(20), ms(30)), 0.0);
        assert_eq!(share_of(ms(10), ms(10), ms(0), ms(30)), 1.0);
        assert_eq!(share_of(ms(10), ms(10), ms(20), ms(30)), 0.0);
    }
}
