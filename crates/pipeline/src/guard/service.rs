//! Whether an engine is in service, for all of its sessions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use evener_core::EngineError;

/// Shared by the sessions of one guarded engine.
pub(super) struct Service {
    engine: String,
    /// Whether `cause` is set; asked twice a batch, so without the lock.
    ended: AtomicBool,
    cause: Mutex<Option<EngineError>>,
    /// Jobs done since their session last had one verified.
    unverified: AtomicU64,
}

impl Service {
    pub(super) fn new(engine: String) -> Service {
        Service {
            engine,
            ended: AtomicBool::new(false),
            cause: Mutex::new(None),
            unverified: AtomicU64::new(0),
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

    /// A session did jobs, of which none was verified.
    pub(super) fn add_unverified(&self, jobs: u64) {
        self.unverified.fetch_add(jobs, Ordering::AcqRel);
    }

    /// A session had a job verified after so many that were not.
    pub(super) fn verified(&self, jobs: u64) {
        self.unverified.fetch_sub(jobs, Ordering::AcqRel);
    }

    /// How many jobs have been handed on that may be wrong, once a wrong one is found.
    pub(super) fn unverified(&self) -> u64 {
        self.unverified.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Option<EngineError>> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
