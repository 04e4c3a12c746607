//! Decides when CPU workers pause.
//!
//! The kernel's figure includes the waits of the run's own threads. The kernel counts the wait of
//! a thread only after the thread has got a core, which may take long. But a worker with a batch
//! either runs or waits. So the own wait is the greater one of the counted wait and the time with
//! a batch that was not CPU time; only the rest is certain to be the wait of other programs
//! (`Watcher::harm`). If that is a large part of the workers' time, they pause, work for a moment,
//! and pause twice as long if it is still so.

use std::time::Duration;

use super::{LONGEST, SHORTEST, SPAN, Waited, Watch};

/// Decides when CPU workers pause.
#[derive(Debug)]
pub(super) struct Watcher {
    /// The start of this time span, with the kernel's figures.
    waited: Waited,
    /// Number of workers with a batch, and the time of the last change.
    busy: u32,
    busy_since: Duration,
    /// Time in this span with a batch, and on a core, summed over the workers.
    wanted: Duration,
    used: Duration,
    /// The end of the pause of all workers.
    paused_until: Duration,
    /// Length of the last pause, if other programs waited again after it.
    last_pause: Option<Duration>,
    /// True if the span is a pause.
    is_pause: bool,
}

impl Watcher {
    pub(super) fn new(waited: Waited) -> Watcher {
        Watcher {
            waited,
            busy: 0,
            busy_since: Duration::ZERO,
            wanted: Duration::ZERO,
            used: Duration::ZERO,
            paused_until: Duration::ZERO,
            last_pause: None,
            is_pause: false,
        }
    }

    /// The part of the workers' time in which other programs certainly waited for a core, from 0
    /// to 1.
    fn harm(&self, waited: Waited) -> f64 {
        let with_batches = self.wanted.saturating_sub(self.used);
        let own_waiting = with_batches.max((waited.own - self.waited.own).waited);
        let waiting = waited.anybody_since(&self.waited);
        // Workers that got almost no CPU time delayed no other program.
        if self.used <= self.wanted.mul_f64(STARVED) {
            return 0.0;
        }
        let harm = waiting.saturating_sub(own_waiting).as_secs_f64();
        (harm / self.used.as_secs_f64()).min(1.0)
    }

    fn count_busy(&mut self, now: Duration) {
        self.wanted += now.saturating_sub(self.busy_since) * self.busy;
        self.busy_since = now;
    }
}

impl Watch for Watcher {
    fn begin(&mut self, now: Duration) {
        self.count_busy(now);
        self.busy += 1;
    }

    fn end(&mut self, now: Duration, used: Duration) {
        self.count_busy(now);
        self.busy = self.busy.saturating_sub(1);
        self.used += used;
    }

    fn is_due(&self, now: Duration) -> bool {
        if self.is_pause { now >= self.paused_until } else { now >= self.waited.at + SPAN }
    }

    fn wants_threads(&self) -> bool {
        false
    }

    fn look(&mut self, waited: Waited) {
        let now = waited.at;
        self.count_busy(now);
        let is_harmful = !self.is_pause && self.harm(waited) > TOLERABLE;
        if is_harmful {
            let pause = self.last_pause.map_or(SHORTEST, |last| (last * 2).min(LONGEST));
            self.paused_until = now + pause;
            self.last_pause = Some(pause);
        } else if !self.is_pause {
            self.last_pause = None;
        }
        // Waits during a pause were not caused by the workers.
        self.is_pause = is_harmful;
        self.waited = waited;
        (self.wanted, self.used) = (Duration::ZERO, Duration::ZERO);
    }

    fn paused_until(&self) -> Duration {
        self.paused_until
    }
}

/// The part of the workers' time in which other programs may wait.
const TOLERABLE: f64 = 0.2;

/// Workers that run for less than this part of the time with batches delay no other program.
const STARVED: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A machine with two cores and a worker on each, on a simulated clock.
    struct Machine {
        watcher: Watcher,
        waited: Waited,
    }

    impl Machine {
        fn new() -> Machine {
            let waited = Waited::at_first(2);
            Machine { watcher: Watcher::new(waited), waited }
        }

        /// Passes a pause, if there is one, and then a span, in which each worker has its core
        /// for a part of the time, and on each core a thread waits for a part. Returns the
        /// pause that follows.
        fn span(&mut self, works: f64, somebody_waits: f64) -> Duration {
            let pause = self.pause();
            if !pause.is_zero() {
                // The other programs have too few cores even for themselves.
                self.waited.average += pause;
                self.waited.at += pause;
                self.watcher.look(self.waited);
                assert_eq!(self.pause(), Duration::ZERO);
            }
            (0..2).for_each(|_| self.watcher.begin(self.waited.at));
            self.waited.at += SPAN;
            self.waited.average += SPAN.mul_f64(somebody_waits);
            (0..2).for_each(|_| self.watcher.end(self.waited.at, SPAN.mul_f64(works)));
            assert!(self.watcher.is_due(self.waited.at));
            self.watcher.look(self.waited);
            self.pause()
        }

        fn pause(&self) -> Duration {
            self.watcher.paused_until.saturating_sub(self.waited.at)
        }
    }

    #[test]
    fn nobody_pauses_for_nobody() {
        let mut machine = Machine::new();
        for _ in 0..100 {
            assert_eq!(machine.span(1.0, 0.0), Duration::ZERO);
            // A short wake-up now and then.
            assert_eq!(machine.span(0.9, 0.1), Duration::ZERO);
        }
    }

    #[test]
    fn the_workers_own_waiting_is_no_harm() {
        let mut machine = Machine::new();
        // Other programs have the cores, and the workers wait for them.
        for _ in 0..100 {
            assert_eq!(machine.span(0.02, 1.0), Duration::ZERO);
        }
        // The programs have half of the time, and the workers wait meanwhile.
        assert_eq!(machine.span(0.5, 0.5), Duration::ZERO);
    }

    #[test]
    fn the_other_threads_own_waiting_is_no_harm() {
        let mut machine = Machine::new();
        for _ in 0..20 {
            // A feed wants a core that a worker has, or a worker wants one between two batches.
            machine.waited.own.waited += 2 * SPAN;
            assert_eq!(machine.span(1.0, 1.0), Duration::ZERO);
        }
    }

    #[test]
    fn who_takes_others_cores_pauses_ever_longer() {
        let mut machine = Machine::new();
        // Each has half of each core, and waits the rest of the time.
        let pauses: Vec<_> = (0..7).map(|_| machine.span(0.5, 1.0) / 20).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32].map(|times| MS * times));
    }

    #[test]
    fn when_the_others_are_gone_work_goes_on_at_once() {
        let mut machine = Machine::new();
        for _ in 0..4 {
            assert!(machine.span(0.5, 1.0) > Duration::ZERO);
        }
        assert_eq!(machine.span(1.0, 0.0), Duration::ZERO);
        // The next time begins with a short pause again.
        assert_eq!(machine.span(0.5, 1.0), SHORTEST);
    }

    #[test]
    fn a_worker_that_waits_in_the_middle_of_a_batch_is_not_forgotten() {
        let mut machine = Machine::new();
        machine.watcher.begin(machine.waited.at);
        machine.waited.at += SPAN;
        machine.watcher.look(machine.waited);
        // One worker waits behind another program, and the other has a core that no program wants.
        for _ in 0..20 {
            machine.watcher.begin(machine.waited.at);
            machine.waited.at += SPAN;
            machine.waited.average += SPAN / 2;
            machine.watcher.end(machine.waited.at, SPAN);
            machine.watcher.look(machine.waited);
            assert_eq!(machine.pause(), Duration::ZERO);
        }
    }
}
