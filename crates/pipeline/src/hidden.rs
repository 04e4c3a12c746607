//! CPU time that no worker's clock shows: that of the threads of a module's driver.
//!
//! It is the process's time minus that of the run's own threads, so it is known only if the process
//! does nothing else: see [`claim_process`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evener_core::IgnorePoison;

use crate::clock::{process_cpu_time, thread_cpu_time};
use crate::sys::ThreadClock;

static PROCESS_IS_CLAIMED: AtomicBool = AtomicBool::new(false);

/// Declares that this process does nothing but runs, one after another. The CPU time of all threads
/// except the workers' then counts as the modules' time, and a run gives no work to a module that
/// takes more time from the cores than it saves. For programs; a library can't know its process.
pub fn claim_process() {
    PROCESS_IS_CLAIMED.store(true, Ordering::Relaxed);
}

/// The CPU time of a run's own threads, and of the whole process.
pub(crate) struct Meter {
    threads: Mutex<Threads>,
    /// The number of modules' workers that share the hidden time.
    modules: AtomicUsize,
    openings: Mutex<Openings>,
}

/// The hidden time while sessions were opened.
#[derive(Default)]
struct Openings {
    count: usize,
    /// The hidden time when the first of the openings in progress began.
    since: Duration,
    ended: Duration,
}

struct Threads {
    /// The clocks of the threads that have not ended, with their times when counting began.
    clocks: Vec<(ThreadClock, Duration)>,
    /// The time of the threads that have ended.
    ended: Duration,
    /// The process's time when the run began.
    before: Duration,
    /// The most hidden time so far: the clock of a process lags behind those of its threads.
    most: Duration,
}

impl Meter {
    /// A meter for a run that begins; `None` unless the process belongs to the run alone.
    pub(crate) fn begin() -> Option<Meter> {
        let threads = || Threads {
            clocks: Vec::new(),
            ended: Duration::ZERO,
            before: process_cpu_time(),
            most: Duration::ZERO,
        };
        let is_claimed = PROCESS_IS_CLAIMED.load(Ordering::Relaxed);
        is_claimed.then(|| Meter {
            threads: Mutex::new(threads()),
            modules: AtomicUsize::new(0),
            openings: Mutex::default(),
        })
    }

    /// Counts the calling thread as the run's own until the result is dropped.
    pub(crate) fn count(&self) -> Option<Counted<'_>> {
        let clock = ThreadClock::of_this_thread()?;
        let mut threads = self.threads.lock().ignore_poison();
        if threads.clocks.iter().any(|(counted, _)| *counted == clock) {
            return None;
        }
        threads.clocks.push((clock, thread_cpu_time()));
        Some(Counted { meter: self, clock })
    }

    /// Counts hidden time as that of openings until the result is dropped.
    pub(crate) fn begin_opening(&self) -> Opening<'_> {
        let mut openings = self.openings.lock().ignore_poison();
        if openings.count == 0 {
            openings.since = self.hidden();
        }
        openings.count += 1;
        Opening(self)
    }

    /// The CPU time of openings so far.
    pub(crate) fn of_openings(&self) -> Duration {
        let openings = self.openings.lock().ignore_poison();
        let goes_on = if openings.count > 0 { self.hidden() } else { openings.since };
        openings.ended + goes_on.saturating_sub(openings.since)
    }

    fn hidden(&self) -> Duration {
        let mut threads = self.threads.lock().ignore_poison();
        let own = threads.clocks.iter().map(|(clock, before)| clock.read().saturating_sub(*before));
        let own = threads.ended + own.sum::<Duration>();
        let all = process_cpu_time().saturating_sub(threads.before);
        threads.most = threads.most.max(all.saturating_sub(own));
        threads.most
    }
}

/// A thread whose time is counted.
pub(crate) struct Counted<'m> {
    meter: &'m Meter,
    clock: ThreadClock,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let mut threads = self.meter.threads.lock().ignore_poison();
        if let Some(at) = threads.clocks.iter().position(|(clock, _)| *clock == self.clock) {
            let (_, before) = threads.clocks.swap_remove(at);
            threads.ended += thread_cpu_time().saturating_sub(before);
        }
    }
}

/// A session that is being opened.
pub(crate) struct Opening<'m>(&'m Meter);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut openings = self.0.openings.lock().ignore_poison();
        openings.count = openings.count.saturating_sub(1);
        if openings.count == 0 {
            let hidden = self.0.hidden();
            let time = hidden.saturating_sub(openings.since);
            openings.ended += time;
            openings.since = hidden;
        }
    }
}

/// The hidden time while a module's worker works; its share, if there are several such workers.
pub(crate) struct Hidden<'m> {
    meter: &'m Meter,
    looked: Instant,
    seen: Duration,
    total: Duration,
}

impl<'m> Hidden<'m> {
    /// Begins at zero.
    pub(crate) fn begin(meter: &'m Meter) -> Hidden<'m> {
        meter.modules.fetch_add(1, Ordering::Relaxed);
        Hidden { meter, looked: Instant::now(), seen: meter.hidden(), total: Duration::ZERO }
    }

    /// The hidden time so far. It reads the clocks rarely enough to cost little.
    pub(crate) fn so_far(&mut self) -> Duration {
        if self.looked.elapsed() >= LOOK_EVERY {
            let hidden = self.meter.hidden();
            let modules = self.meter.modules.load(Ordering::Relaxed).max(1) as u32;
            self.total += hidden.saturating_sub(self.seen) / modules;
            (self.seen, self.looked) = (hidden, Instant::now());
        }
        self.total
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        self.meter.modules.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The least interval between readings: one takes a system call for each worker.
const LOOK_EVERY: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::thread;

    use super::*;

    fn compute(time: Duration) {
        let begun = thread_cpu_time();
        while thread_cpu_time() - begun < time {
            (0..1000).for_each(|number| _ = black_box(number));
        }
    }

    /// The tests of a process run at once, and this meter counts their threads as hidden.
    #[test]
    fn a_threads_time_is_hidden_unless_it_is_counted() {
        claim_process();
        let meter = Meter::begin().unwrap();
        let _caller = meter.count().unwrap();
        assert!(meter.count().is_none());
        let mut hidden = Hidden::begin(&meter);
        let time = Duration::from_millis(60);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _counted = meter.count().unwrap();
                compute(time);
                assert_eq!(meter.threads.lock().unwrap().clocks.len(), 2);
            });
        });
        assert!(meter.threads.lock().unwrap().ended >= time);
        assert_eq!(meter.threads.lock().unwrap().clocks.len(), 1);
        let before = hidden.so_far();
        thread::scope(|scope| {
            scope.spawn(|| compute(time));
        });
        // The clock of a process may lag by a tick.
        assert!(hidden.so_far() - before >= time / 2);
        let before = meter.of_openings();
        let opening = meter.begin_opening();
        thread::scope(|scope| {
            scope.spawn(|| compute(time));
        });
        assert!(meter.of_openings() - before >= time / 2);
        drop(opening);
        assert!(meter.of_openings() - before >= time / 2);
    }
}
