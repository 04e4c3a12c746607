//! The state of a guarded engine over all of its sessions: whether it is in service, and its
//! counts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use evener_core::{Account, EngineError, IgnorePoison};

/// Shared by the sessions of one guarded engine.
pub(super) struct Service {
    engine: String,
    /// True if `cause` is set. Kept outside the lock, because it is read twice per batch.
    ended: AtomicBool,
    cause: Mutex<Option<EngineError>>,
    /// True if a session has ever been opened and passed its test.
    has_served: AtomicBool,
    /// Jobs that were passed on without verification. A good sample does not clear them: an engine
    /// may be wrong from time to time.
    unverified: AtomicU64,
    /// Jobs that were passed on.
    jobs: AtomicU64,
    /// The number of passed-on jobs that were verified.
    verified: AtomicU64,
    /// Jobs that the reference engine processed.
    retreated: AtomicU64,
    /// Sessions that are open.
    sessions: AtomicUsize,
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
            sessions: AtomicUsize::new(0),
        }
    }

    /// The engine's name.
    pub(super) fn engine(&self) -> &str {
        &self.engine
    }

    /// `Err` with the cause if the engine is out of service.
    pub(super) fn check(&self) -> Result<(), EngineError> {
        if !self.ended.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.lock().clone().map_or(Ok(()), Err)
    }

    /// Takes the engine out of service. Returns the cause: the first fault, or the first wrong
    /// result, which tells more about earlier jobs.
    pub(super) fn end(&self, cause: EngineError) -> EngineError {
        let mut cause = cause.of(&self.engine);
        let mut known = self.lock();
        // Set before the jobs in doubt are counted, so that a session that adds jobs sees it.
        self.ended.store(true, Ordering::SeqCst);
        if let EngineError::WrongResult { unverified, .. } = &mut cause {
            *unverified = self.unverified();
        }
        match &*known {
            Some(known) if is_wrong(known) || !is_wrong(&cause) => known.clone(),
            _ => known.insert(cause).clone(),
        }
    }

    /// Records that a session has passed its test.
    pub(super) fn serves(&self) {
        self.has_served.store(true, Ordering::Release);
    }

    pub(super) fn has_served(&self) -> bool {
        self.has_served.load(Ordering::Acquire)
    }

    /// Counts jobs that a session passes on, and how many of them were verified, unless the engine
    /// is out of service.
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

    /// Counts a job that was verified after it was passed on.
    pub(super) fn verified_later(&self) {
        self.verified.fetch_add(1, Ordering::AcqRel);
        self.unverified.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts jobs that the reference engine processed.
    pub(super) fn retreated(&self, jobs: u64) {
        self.retreated.fetch_add(jobs, Ordering::AcqRel);
    }

    pub(super) fn session_begins(&self) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn session_ends(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of sessions that are open.
    pub(super) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Number of jobs passed on that may be wrong after a wrong result was found.
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
        self.cause.lock().ignore_poison()
    }
}

fn is_wrong(cause: &EngineError) -> bool {
    matches!(cause, EngineError::WrongResult { .. })
}
