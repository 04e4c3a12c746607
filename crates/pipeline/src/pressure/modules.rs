//! Decides when workers of modules pause.
//!
//! A module's worker needs a core for a moment at a time, which delays other programs little. But
//! a driver may compute on the CPU too, in kernel threads and interrupts, which the worker's CPU
//! clock does not show. So the waits of other programs are compared: while modules work, and while
//! they pause. If other programs have more threads than there are cores, they wait all the time
//! and the difference shows nothing; then the workers' own CPU time is a lower bound. A driver's
//! threads wait too, for the workers of its module; so the demand of other programs for cores in
//! the pause is an upper bound.
//!
//! If the wait is above the limit, modules alternate between work and pause, so that the mean is
//! below it.

use std::time::Duration;

use super::{LONGEST, SHORTEST, SPAN, Threads, Waited, Watch};

/// Decides when workers of modules pause.
#[derive(Debug)]
pub(super) struct Watcher {
    /// The start of this time span, with the kernel's figures.
    waited: Waited,
    /// CPU time of the workers in this span, together.
    used: Duration,
    /// The end of the pause of all workers.
    paused_until: Duration,
    /// True if the span is a pause.
    is_pause: bool,
    /// Other programs' figures of the last pause.
    without: Option<Pause>,
}

/// Figures of other programs while modules paused, in seconds of all cores per second.
#[derive(Clone, Copy, Debug)]
struct Pause {
    ended: Duration,
    waited: f64,
    wanted: f64,
}

impl Watcher {
    pub(super) fn new(waited: Waited) -> Watcher {
        Watcher {
            waited,
            used: Duration::ZERO,
            paused_until: Duration::ZERO,
            is_pause: false,
            without: None,
        }
    }

    /// Length of the pause after a span of work in which other programs waited for this long.
    fn pause(&self, now: Duration, others_waited: Duration) -> Option<Duration> {
        let span = now.saturating_sub(self.waited.at);
        let waited = part(others_waited, span);
        if waited <= TOLERABLE {
            return None;
        }
        let is_recent = |pause: &Pause| now.saturating_sub(pause.ended) < FORGOTTEN;
        let Some(without) = self.without.filter(is_recent) else { return Some(SHORTEST) };
        let used = part(self.used, span).min(waited);
        let harm = (waited - without.waited).max(used).min(without.wanted);
        (harm > TOLERABLE).then(|| span.mul_f64(harm / TOLERABLE - 1.0).clamp(SHORTEST, LONGEST))
    }
}

impl Watch for Watcher {
    fn begin(&mut self, _: Duration) {}

    fn end(&mut self, _: Duration, used: Duration) {
        self.used += used;
    }

    fn is_due(&self, now: Duration) -> bool {
        if self.is_pause { now >= self.paused_until } else { now >= self.waited.at + SPAN }
    }

    fn wants_threads(&self) -> bool {
        true
    }

    fn look(&mut self, now: Waited) {
        let Threads { ran, waited } = now.others_since(&self.waited);
        if self.is_pause {
            let of_pause = |time| part(time, now.at.saturating_sub(self.waited.at));
            self.without = Some(Pause {
                ended: now.at,
                waited: of_pause(waited),
                wanted: of_pause(ran + waited),
            });
            self.is_pause = false;
        } else if let Some(pause) = self.pause(now.at, waited) {
            self.paused_until = now.at + pause;
            self.is_pause = true;
        }
        self.waited = now;
        self.used = Duration::ZERO;
    }

    fn paused_until(&self) -> Duration {
        self.paused_until
    }
}

fn part(time: Duration, of: Duration) -> f64 {
    time.as_secs_f64() / of.as_secs_f64().max(1e-9)
}

/// Limit of the waits of other programs, as a part of one core's time.
const TOLERABLE: f64 = 0.05;

/// The time after which the figures of the last pause are out of date.
const FORGOTTEN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// A core, a module and other programs, on a simulated clock.
    struct Machine {
        watcher: Watcher,
        now: Waited,
        worked: Duration,
    }

    /// The load of the core, in parts of the time.
    #[derive(Clone, Copy)]
    struct Life {
        /// Threads of other processes that wait while the module works.
        others_wait: f64,
        /// The same while the module pauses.
        others_wait_in_pauses: f64,
        /// Threads of other processes that run while the module pauses.
        others_run_in_pauses: f64,
        /// The module's worker runs while the module works.
        worker_runs: f64,
    }

    /// A program that always wants the core beside a module that takes none of it.
    const LIFE: Life = Life {
        others_wait: 0.0,
        others_wait_in_pauses: 0.0,
        others_run_in_pauses: 1.0,
        worker_runs: 0.0,
    };

    impl Machine {
        fn new() -> Machine {
            let now = Waited { threads: Some(Threads::default()), ..Waited::at_first(1) };
            Machine { watcher: Watcher::new(now), now, worked: Duration::ZERO }
        }

        /// Runs two seconds. Returns the part of them in which the module worked.
        fn run(&mut self, life: Life) -> f64 {
            let (began, worked) = (self.now.at, self.worked);
            while self.now.at < began + Duration::from_secs(2) {
                let pause = self.watcher.paused_until.saturating_sub(self.now.at);
                let threads = self.now.threads.as_mut().unwrap();
                let span = if pause.is_zero() {
                    self.worked += SPAN;
                    threads.waited += SPAN.mul_f64(life.others_wait);
                    let own = SPAN.mul_f64(life.worker_runs);
                    threads.ran += SPAN;
                    self.now.own.ran += own;
                    self.watcher.begin(self.now.at);
                    self.watcher.end(self.now.at + SPAN, own);
                    SPAN
                } else {
                    threads.waited += pause.mul_f64(life.others_wait_in_pauses);
                    threads.ran += pause.mul_f64(life.others_run_in_pauses);
                    self.now.idle += pause.mul_f64(1.0 - life.others_run_in_pauses);
                    pause
                };
                self.now.at += span;
                assert!(self.watcher.is_due(self.now.at));
                self.watcher.look(self.now);
            }
            part(self.worked - worked, self.now.at - began)
        }
    }

    #[test]
    fn a_module_that_leaves_the_core_to_others_never_pauses() {
        assert_eq!(Machine::new().run(LIFE), 1.0);
        assert_eq!(Machine::new().run(Life { others_wait: 0.04, worker_runs: 0.04, ..LIFE }), 1.0);
    }

    #[test]
    fn a_driver_that_takes_the_core_works_for_a_part_of_the_time() {
        let part = Machine::new().run(Life { others_wait: 0.5, ..LIFE });
        assert!((0.08..0.15).contains(&part), "{part}");
        let part = Machine::new().run(Life { others_wait: 1.0, worker_runs: 0.2, ..LIFE });
        assert!((0.04..0.08).contains(&part), "{part}");
    }

    #[test]
    fn a_driver_that_waits_for_its_own_worker_harms_nobody() {
        let life = Life { others_wait: 0.6, worker_runs: 0.5, others_run_in_pauses: 0.02, ..LIFE };
        // One pause in a second, to check again.
        let part = Machine::new().run(life);
        assert!((0.95..1.0).contains(&part), "{part}");
    }

    #[test]
    fn others_that_wait_for_each_other_are_not_harmed() {
        let life = Life { others_wait: 0.78, others_wait_in_pauses: 0.75, ..LIFE };
        let part = Machine::new().run(Life { worker_runs: 0.04, ..life });
        assert!((0.95..1.0).contains(&part), "{part}");
    }

    #[test]
    fn who_is_on_a_core_that_others_always_want_harms_them() {
        let life = Life { others_wait: 1.0, others_wait_in_pauses: 1.0, ..LIFE };
        let part = Machine::new().run(Life { worker_runs: 0.4, ..life });
        assert!((0.1..0.15).contains(&part), "{part}");
    }

    #[test]
    fn when_the_others_are_gone_work_goes_on() {
        let mut machine = Machine::new();
        assert!(machine.run(Life { others_wait: 1.0, ..LIFE }) < 0.15);
        // The driver still waits for its worker.
        let part = machine.run(Life { others_wait: 0.6, others_run_in_pauses: 0.0, ..LIFE });
        assert!(part > 0.85, "{part}");
    }
}
