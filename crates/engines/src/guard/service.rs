//! Whether an engine is in service, for all of its sessions, and what they have done.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use evener_core::{Account, EngineError};

/// Shared by the sessions of one guarded engine.
pub(super) struct Service {
    engine: String,
    /// Whether `cause` is set; asked twice a batch, so without the lock.
    ended: AtomicBool,
    cause: Mutex<Option<EngineError>>,
    /// Whether a session has ever been opened and passed its test.
    has_served: AtomicBool,
    /// Jobs done since their session last had one verified.
    unverified: AtomicU64,
    /// Jobs that were handed on.
    jobs: AtomicU64,
    /// How many of them were compared.
    verified: AtomicU64,
    /// Jobs that the reference did.
    retreated: AtomicU64,
}

impl Service {
    pub(super) fn new(engine: String) -> Service {
        Service {
            engine,
            ended: AtomicBool::new(false),
            cause: Mutex::new(None),
            has_served: AtomicBool::new(false),
            unverified: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            retreated: AtomicU64::new(0),
        }
    }

    /// The engine's name.
    pub(super) fn engine(&self) -> &str {
        &self.engine
    }

    /// Fine, or why the engine is out of service.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        if !self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        self.lock().clone().map_or(Ok(()), Err)
    }

    /// Takes the engine out of service. Returns the cause, which is the first that was met.
    pub(super) fn end(&self, cause: EngineError) -> EngineError {
        let first = self.lock().get_or_insert(cause).clone();
        self.ended.store(true, Ordering::Release);
        first
    }

    /// A session has passed its test.
    pub(super) fn serves(&self) {
        self.has_served.store(true, Ordering::Release);
    }

    pub(super) fn has_served(&self) -> bool {
        self.has_served.load(Ordering::Acquire)
    }

    /// A session handed jobs on, some of them compared. `before` and `now` are how many it had
    /// and has done since the last one that was verified.
    pub(super) fn handed_on(&self, jobs: u64, verified: u64, before: u64, now: u64) {
        self.jobs.fetch_add(jobs, Ordering::AcqRel);
        self.verified.fetch_add(verified, Ordering::AcqRel);
        self.unverified.fetch_add(now, Ordering::AcqRel);
        self.unverified.fetch_sub(before, Ordering::AcqRel);
    }

    /// The reference did jobs instead.
    pub(super) fn retreated(&self, jobs: u64) {
        self.retreated.fetch_add(jobs, Ordering::AcqRel);
    }

    /// How many jobs have been handed on that may be wrong, once a wrong one is found.
    pub(super) fn unverified(&self) -> u64 {
        self.unverified.load(Ordering::Acquire)
    }

    pub(super) fn account(&self) -> Account {
        Account {
            jobs: self.jobs.load(Ordering::Acquire),
            verified: self.verified.load(Ordering::Acquire),
            retreated: self.retreated.load(Ordering::Acquire),
            fault: self.lock().clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<EngineError>> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
