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
    /// Jobs that were handed on and not compared. No good sample clears them: an engine may be
    /// wrong now and then.
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
        if !self.ended.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.lock().clone().map_or(Ok(()), Err)
    }

    /// Takes the engine out of service. Returns the cause: the first that was met, or the first
    /// wrong result, which says more of what was done before.
    pub(super) fn end(&self, mut cause: EngineError) -> EngineError {
        let mut known = self.lock();
        // Before the jobs in doubt are counted: whoever counts more sees it.
        self.ended.store(true, Ordering::SeqCst);
        if let EngineError::WrongResult { unverified, .. } = &mut cause {
            *unverified = self.unverified();
        }
        match &*known {
            Some(known) if is_wrong(known) || !is_wrong(&cause) => known.clone(),
            _ => known.insert(cause).clone(),
        }
    }

    /// A session has passed its test.
    pub(super) fn serves(&self) {
        self.has_served.store(true, Ordering::Release);
    }

    pub(super) fn has_served(&self) -> bool {
        self.has_served.load(Ordering::Acquire)
    }

    /// A session hands jobs on, some of them compared, unless the engine is out of service.
    pub(super) fn hand_on(&self, jobs: u64, verified: u64) -> Result<(), EngineError> {
        self.unverified.fetch_add(jobs - verified, Ordering::SeqCst);
        if let Err(cause) = self.check() {
            self.unverified.fetch_sub(jobs - verified, Ordering::SeqCst);
            return Err(cause);
        }
        self.jobs.fetch_add(jobs, Ordering::AcqRel);
        self.verified.fetch_add(verified, Ordering::AcqRel);
        Ok(())
    }

    /// A job that was handed on was compared later.
    pub(super) fn verified_later(&self) {
        self.verified.fetch_add(1, Ordering::AcqRel);
        self.unverified.fetch_sub(1, Ordering::SeqCst);
    }

    /// The reference did jobs instead.
    pub(super) fn retreated(&self, jobs: u64) {
        self.retreated.fetch_add(jobs, Ordering::AcqRel);
    }

    /// How many jobs have been handed on that may be wrong, once a wrong one is found.
    pub(super) fn unverified(&self) -> u64 {
        self.unverified.load(Ordering::SeqCst)
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

fn is_wrong(cause: &EngineError) -> bool {
    matches!(cause, EngineError::WrongResult { .. })
}
