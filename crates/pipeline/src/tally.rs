//! The counts of a run that other threads read while it goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use evener_core::IgnorePoison;

/// Counts the work of engines and the waits between the feed and the workers, of one run or of
/// several in a row. Every count only grows.
#[derive(Debug, Default)]
pub struct Tally {
    engines: Mutex<BTreeMap<String, Arc<EngineTally>>>,
    feed: Waits,
    workers: Waits,
}

/// The work of an engine so far, over all its workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineWork {
    /// Jobs that it processed.
    pub jobs: u64,
    /// Bytes that went into those jobs.
    pub bytes: u64,
    /// Workers that ended because the engine failed.
    pub failures: u64,
}

impl Tally {
    /// The work of each engine with a worker, by the engine's name.
    pub fn engines(&self) -> BTreeMap<String, EngineWork> {
        let engines = self.engines.lock().ignore_poison();
        engines.iter().map(|(name, engine)| (name.clone(), engine.read())).collect()
    }

    /// The feed's waits for a place in the queue or for a buffer: the workers are slower.
    pub fn feed(&self) -> &Waits {
        &self.feed
    }

    /// The workers' waits for a task: the feed is slower. Waits at the same time add up.
    pub fn workers(&self) -> &Waits {
        &self.workers
    }

    /// The counts of an engine, for its workers.
    pub(crate) fn engine(&self, name: &str) -> Arc<EngineTally> {
        self.engines.lock().ignore_poison().entry(name.to_owned()).or_default().clone()
    }
}

/// The counts of an engine. Its workers add to them once for each batch, without a lock.
#[derive(Debug, Default)]
pub(crate) struct EngineTally {
    jobs: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
}

impl EngineTally {
    pub(crate) fn did(&self, jobs: u64, bytes: u64) {
        self.jobs.fetch_add(jobs, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> EngineWork {
        EngineWork {
            jobs: self.jobs.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }
}

/// How often threads waited, and how long.
#[derive(Debug, Default)]
pub struct Waits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    number: u64,
    /// The time of the waits that have ended.
    ended: Duration,
    /// When the waits that go on began. There are as many as threads that wait.
    begun: Vec<Instant>,
}

impl Waits {
    /// The number of waits, with those that go on.
    pub fn number(&self) -> u64 {
        self.lock().number
    }

    /// The time of all waits so far, with those that go on.
    pub fn time(&self) -> Duration {
        let state = self.lock();
        state.ended + state.begun.iter().map(Instant::elapsed).sum::<Duration>()
    }

    /// Counts a wait.
    pub fn during<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        {
            let mut state = self.lock();
            state.number += 1;
            state.begun.push(begun);
        }
        let result = wait();
        let mut state = self.lock();
        if let Some(place) = state.begun.iter().position(|other| *other == begun) {
            state.begun.swap_remove(place);
        }
        state.ended += begun.elapsed();
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().ignore_poison()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_wait_counts_while_it_goes_on_and_once_it_has_ended() {
        let waits = Waits::default();
        let pause = Duration::from_millis(5);
        let within = waits.during(|| {
            thread::sleep(pause);
            waits.time()
        });
        assert!(within >= pause && waits.time() >= within);
        assert_eq!(waits.number(), 1);
        let ended = waits.time();
        thread::sleep(pause);
        assert_eq!(waits.time(), ended);
    }

    #[test]
    fn workers_of_one_engine_share_its_counts() {
        let tally = Tally::default();
        tally.engine("cpu").did(2, 30);
        tally.engine("cpu").did(1, 12);
        tally.engine("module").failed();
        let engines = tally.engines();
        assert_eq!(engines["cpu"], EngineWork { jobs: 3, bytes: 42, failures: 0 });
        assert_eq!(engines["module"].failures, 1);
    }
}
