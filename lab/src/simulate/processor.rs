//! Simulates cores that threads share fairly, like Linux's scheduler.
//!
//! A thread's *virtual run time* is its CPU time. The threads with the least virtual run time run;
//! threads with equal virtual run times share the cores equally, as the Completely Fair Scheduler
//! would with very short time slices (Documentation/scheduler/sched-design-CFS.rst). A thread that
//! wakes keeps its virtual run time, but at least the minimum of the other threads minus a credit,
//! so that sleeping threads can't accumulate credit. *Idle* threads get the cores that no other
//! thread needs, like those of `SCHED_IDLE`.

/// A number of cores and the threads on them. Times are in microseconds.
pub(super) struct Processor {
    cores: f64,
    now: f64,
    threads: Vec<Thread>,
    /// The least virtual run time of the awake threads; it never falls.
    least: f64,
    /// The running threads, each with its share of a core; recomputed after a change.
    running: Vec<(usize, f64)>,
    is_stale: bool,
}

struct Thread {
    virtual_time: f64,
    used: f64,
    /// Its remaining work on a core; `None` while it sleeps.
    left: Option<f64>,
    is_idle: bool,
}

impl Processor {
    pub(super) fn new(cores: usize) -> Processor {
        let (threads, running) = (Vec::new(), Vec::new());
        Processor { cores: cores as f64, now: 0.0, threads, least: 0.0, running, is_stale: true }
    }

    pub(super) fn now(&self) -> f64 {
        self.now
    }

    /// Creates a sleeping thread.
    pub(super) fn add_thread(&mut self) -> usize {
        let virtual_time = self.least();
        self.threads.push(Thread { virtual_time, used: 0.0, left: None, is_idle: false });
        self.threads.len() - 1
    }

    /// Creates a thread that yields to all others.
    pub(super) fn add_idle_thread(&mut self) -> usize {
        let thread = self.add_thread();
        self.threads[thread].is_idle = true;
        thread
    }

    /// A thread's CPU time so far.
    pub(super) fn used(&self, thread: usize) -> f64 {
        self.threads[thread].used
    }

    /// Gives a thread work; wakes it if it sleeps.
    pub(super) fn work(&mut self, thread: usize, work: f64) {
        if self.threads[thread].left.is_none() {
            let least = self.least() - CREDIT;
            let woken = &mut self.threads[thread];
            woken.virtual_time = woken.virtual_time.max(least);
            self.is_stale = true;
        }
        self.threads[thread].left = Some(work);
    }

    /// Puts a thread to sleep.
    pub(super) fn sleep(&mut self, thread: usize) {
        self.least();
        self.is_stale |= self.threads[thread].left.take().is_some();
    }

    /// Advances the time until a thread has finished its work, or to `end`; returns the thread.
    pub(super) fn pass(&mut self, end: f64) -> Option<usize> {
        loop {
            if self.is_stale {
                self.share();
            }
            let mut step = (end - self.now).max(0.0);
            let mut done = None;
            for &(thread, rate) in &self.running {
                let needs = self.threads[thread].left.unwrap_or(f64::INFINITY) / rate;
                if needs <= step {
                    (step, done) = (needs, Some(thread));
                }
            }
            let until_shared = self.until_shared();
            let meets = until_shared < step;
            if meets {
                (step, done) = (until_shared, None);
            }
            self.now += step;
            for &(thread, rate) in &self.running {
                let thread = &mut self.threads[thread];
                thread.virtual_time += rate * step;
                thread.used += rate * step;
                thread.left = thread.left.map(|left| (left - rate * step).max(0.0));
            }
            if meets {
                self.is_stale = true;
                continue;
            }
            return done;
        }
    }

    /// Assigns the cores to the threads with the least virtual run time.
    fn share(&mut self) {
        self.is_stale = false;
        self.running.clear();
        let threads = &self.threads;
        let mut runnable: Vec<usize> =
            (0..threads.len()).filter(|&thread| threads[thread].left.is_some()).collect();
        let had = |thread: &usize| match &threads[*thread] {
            Thread { is_idle: true, .. } => f64::INFINITY,
            thread => thread.virtual_time,
        };
        runnable.sort_by(|one, other| had(one).total_cmp(&had(other)));
        let (mut cores, mut rest) = (self.cores, &runnable[..]);
        while cores > RESOLUTION && !rest.is_empty() {
            let least = had(&rest[0]);
            let equal = rest.iter().take_while(|thread| had(thread) <= least + RESOLUTION).count();
            let rate = (cores / equal as f64).min(1.0);
            self.running.extend(rest[..equal].iter().map(|&thread| (thread, rate)));
            cores -= rate * equal as f64;
            rest = &rest[equal..];
        }
        // Even idle threads get a little time.
        let idle = rest.iter().filter(|thread| threads[**thread].is_idle);
        self.running.extend(idle.map(|&thread| (thread, IDLE_SHARE)));
    }

    /// The time until a thread catches up with one that gets a smaller share.
    fn until_shared(&self) -> f64 {
        let mut soonest = f64::INFINITY;
        for &(thread, rate) in &self.running {
            let had = self.threads[thread].virtual_time;
            for (other, ahead) in self.threads.iter().enumerate() {
                let gap = ahead.virtual_time - had;
                let is_apart = self.threads[thread].is_idle || ahead.is_idle;
                if ahead.left.is_none() || gap <= RESOLUTION || is_apart {
                    continue;
                }
                let running = self.running.iter().find(|(number, _)| *number == other);
                let gains = rate - running.map_or(0.0, |(_, rate)| *rate);
                if gains > 0.0 {
                    soonest = soonest.min(gap / gains);
                }
            }
        }
        soonest
    }

    /// The least virtual run time of the threads that are awake now.
    fn least(&mut self) -> f64 {
        let awake = self.threads.iter().filter(|thread| thread.left.is_some() && !thread.is_idle);
        let least = awake.map(|thread| thread.virtual_time).min_by(f64::total_cmp);
        self.least = least.unwrap_or(self.least).max(self.least);
        self.least
    }
}

/// The credit of a thread that slept, in microseconds: half of the scheduler's usual latency of 6
/// ms.
const CREDIT: f64 = 3000.0;

/// The share of a core that an idle thread gets if other threads leave none: weight 3 of the 1,027
/// of it and one other thread (kernel/sched/sched.h).
const IDLE_SHARE: f64 = 0.003;

/// Virtual run times that differ by less are equal.
const RESOLUTION: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    /// The times at which some pieces of work are done.
    fn ends(cores: usize, work: &[f64]) -> Vec<f64> {
        let mut processor = Processor::new(cores);
        for &work in work {
            let thread = processor.add_thread();
            processor.work(thread, work);
        }
        let mut ends = vec![0.0; work.len()];
        while let Some(thread) = processor.pass(f64::INFINITY) {
            ends[thread] = processor.now();
            processor.sleep(thread);
            if ends.iter().all(|end| *end > 0.0) {
                break;
            }
        }
        ends
    }

    #[test]
    fn threads_share_the_cores_equally() {
        assert_eq!(ends(1, &[10.0, 10.0]), [20.0, 20.0]);
        assert_eq!(ends(1, &[10.0, 30.0]), [20.0, 40.0]);
        assert_eq!(ends(2, &[10.0, 30.0]), [10.0, 30.0]);
        let thirds = ends(2, &[20.0, 20.0, 20.0]);
        assert!(thirds.iter().all(|end| (end - 30.0).abs() < 1e-6), "{thirds:?}");
    }

    #[test]
    fn idle_threads_get_what_others_leave() {
        let mut processor = Processor::new(1);
        let (busy, idle) = (processor.add_thread(), processor.add_idle_thread());
        processor.work(idle, 1500.0);
        assert_eq!(processor.pass(1000.0), None);
        processor.work(busy, 1000.0);
        assert_eq!(processor.pass(1e9), Some(busy));
        assert_eq!((processor.now(), processor.used(idle)), (2000.0, 1003.0));
        processor.sleep(busy);
        assert_eq!(processor.pass(1e9), Some(idle));
        assert_eq!(processor.now(), 2497.0);
    }

    #[test]
    fn who_has_slept_runs_first_but_not_for_ever() {
        let mut processor = Processor::new(1);
        let (busy, sleeper) = (processor.add_thread(), processor.add_thread());
        processor.work(busy, 1e9);
        assert_eq!(processor.pass(100_000.0), None);
        processor.work(sleeper, 2000.0);
        assert_eq!(processor.pass(1e9), Some(sleeper));
        assert_eq!(processor.now(), 102_000.0);
        processor.work(sleeper, 2000.0);
        assert_eq!(processor.pass(1e9), Some(sleeper));
        // A thousand at full speed, then a thousand at half speed.
        assert!((processor.now() - 105_000.0).abs() < 1.0, "{}", processor.now());
        assert!((processor.used(sleeper) - 4000.0).abs() < 1.0);
    }
}
