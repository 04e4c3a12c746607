//! What gets done in a while.
//!
//! A window is a while in which the same engines work, and none of them lacks tasks. What is
//! done in it is counted as each claim is performed, a claim that is only partly within it by
//! the part of its time that is; so it needs no clock but the one that every claim has anyway.

use std::time::Duration;

use evener_core::Kind;

use super::teams::{MOST, YIELDS};
use super::{Adaptive, Group, Members, State};
use crate::{Load, SizeClass, Waiting};

/// A while, and what was done in it so far.
pub(super) struct Window {
    since: Duration,
    /// Which engines have worked.
    worked: Members,
    done: Vec<Done>,
}

/// What was done of a class.
#[derive(Clone, Copy)]
struct Done {
    class: SizeClass,
    jobs: f64,
    bytes: f64,
    by_modules: f64,
}

/// What a window came to.
pub(super) struct Sample {
    pub(super) class: SizeClass,
    /// Which have worked, and whether those that compute have yielded.
    pub(super) engines: Members,
    /// The mean length of the class's jobs.
    pub(super) bytes: f64,
    /// How many jobs of the class all the work of a microsecond was worth.
    pub(super) rate: f64,
}

impl Window {
    pub(super) fn new(since: Duration) -> Window {
        Window { since, worked: 0, done: Vec::new() }
    }

    /// A worker has performed a claim or is at one, of which `part` was done in the window.
    pub(super) fn count(&mut self, engine: usize, kind: Kind, load: Load, bytes: f64, part: f64) {
        self.worked |= if engine < MOST { 1 << engine } else { 0 };
        let class = load.class();
        let index = self.done.iter().position(|done| done.class == class).unwrap_or_else(|| {
            self.done.push(Done { class, jobs: 0.0, bytes: 0.0, by_modules: 0.0 });
            self.done.len() - 1
        });
        let (done, jobs) = (&mut self.done[index], load.jobs as f64 * part);
        done.jobs += jobs;
        done.bytes += jobs * bytes;
        if kind != Kind::Cpu {
            done.by_modules += jobs;
        }
    }

    fn is_long_enough(&self, now: Duration) -> bool {
        let jobs: f64 = self.done.iter().map(|done| done.jobs).sum();
        let length = now.saturating_sub(self.since);
        length >= LENGTH && jobs >= JOBS || length >= LONGEST * LENGTH
    }
}

impl Adaptive {
    /// A worker has performed a claim that it began at `begun`. Returns what a window came to,
    /// when one has ended by that.
    pub(super) fn watch(
        &mut self,
        worker: usize,
        load: Load,
        begun: Duration,
        waiting: &Waiting,
        now: Duration,
    ) -> Option<Sample> {
        let number = self.workers[worker].engine;
        if waiting.tasks == 0 {
            self.window = None;
        }
        let Some(window) = &mut self.window else {
            if self.may_begin(waiting, now) {
                self.window = Some(Window::new(now));
            }
            return None;
        };
        let usual_bytes = self.usual_bytes;
        let mean = |load: Load| match load.bytes {
            Some(bytes) => bytes as f64 / load.jobs.max(1) as f64,
            None => usual_bytes,
        };
        let part = share_of(begun, now, window.since, now);
        window.count(number, self.engines[number].kind, load, mean(load), part);
        if !window.is_long_enough(now) {
            return None;
        }
        let mut window = self.window.replace(Window::new(now))?;
        // Those who are at something have done a part of it, as far as one can tell.
        for other in &self.workers {
            let State::Working { load, since, until, .. } = other.state else { continue };
            let part = share_of(since, until.max(now), window.since, now);
            let engine = &self.engines[other.engine];
            window.count(other.engine, engine.kind, load, mean(load), part);
        }
        self.sample(&window, now)
    }

    /// Whether those who should work do, and nobody else.
    fn may_begin(&self, waiting: &Waiting, now: Duration) -> bool {
        let is_foreign = |worker: &super::Worker| match worker.state {
            State::Working { load, yields, .. } => {
                let is_otherwise = yields != self.yielding.now || self.yielding.is_new;
                self.is_of_cpu(worker.engine) && is_otherwise
                    || !self.teams.admits(worker.engine, load.class())
            }
            _ => false,
        };
        waiting.tasks > self.workers.len()
            && !self.trials.is_on()
            && now >= self.teams.settled_at()
            && !self.workers.iter().any(is_foreign)
    }

    /// What a window that ends now says of the class that it says most of.
    fn sample(&self, window: &Window, now: Duration) -> Option<Sample> {
        let has_modules = window.done.iter().any(|done| done.by_modules > 0.0);
        let weight = |done: &Done| if has_modules { done.by_modules } else { done.jobs };
        let most =
            *window.done.iter().max_by(|one, other| weight(one).total_cmp(&weight(other)))?;
        let all: f64 = window.done.iter().map(weight).sum();
        if weight(&most) < CLEAR * all {
            return None;
        }
        // Jobs of other classes count as what the processor could have done of this one.
        let value = |done: &Done| {
            let bytes = done.bytes / done.jobs.max(1e-9);
            let group = Group { class: done.class, tasks: 1, jobs: f64::INFINITY, bytes };
            self.cheapest_cpu_engine(&group).map(|cost| cost + self.around.cpu)
        };
        let mut jobs = most.jobs;
        for done in window.done.iter().filter(|done| done.class != most.class) {
            jobs += done.jobs * value(done)? / value(&most)?.max(1e-6);
        }
        let micros = now.saturating_sub(window.since).as_secs_f64() * 1e6;
        let have_yielded = self.yielding.now && self.is_of_both_kinds(window.worked);
        // A rate of nothing would say that the engines are not there.
        (jobs > 0.0).then(|| Sample {
            class: most.class,
            engines: window.worked | if have_yielded { YIELDS } else { 0 },
            bytes: most.bytes / most.jobs.max(1e-9),
            rate: jobs / micros.max(1.0),
        })
    }
}

/// What part of the time from `begun` to `ended` lies between `from` and `to`.
fn share_of(begun: Duration, ended: Duration, from: Duration, to: Duration) -> f64 {
    let inside = ended.min(to).saturating_sub(begun.max(from)).as_secs_f64();
    (inside / ended.saturating_sub(begun).as_secs_f64().max(1e-9)).min(1.0)
}

/// How long a window is at least: long beside the scheduler's time slices.
pub(super) const LENGTH: Duration = Duration::from_millis(12);

/// How many jobs must be performed in it.
const JOBS: f64 = 16.0;

/// How many times as long it is where that takes longer: who does so little is not worth more.
const LONGEST: u32 = 3;

/// What part of the modules' jobs must be of one class, for a window to say something of it.
const CLEAR: f64 = 0.8;

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
        assert_eq!(share_of(ms(10), ms(10), ms(0), ms(30)), 0.0);
    }
}
