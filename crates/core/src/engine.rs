//! What performs ciphers.

use std::any::Any;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Cipher, Direction, EngineError, InPlaceJob, Job, Key, Records};

/// Something that performs ciphers: a library on the CPU, a kernel module, a token.
///
/// Probing reports facts; a policy elsewhere chooses. One engine serves many threads, each of
/// which opens sessions of its own.
pub trait Engine: Any + Send + Sync {
    /// What this engine is.
    fn description(&self) -> &Description;

    /// What the engine offers for a cipher and direction; `None` when it can't do it.
    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer>;

    /// Opens a session, for one thread at a time.
    ///
    /// # Errors
    /// When the engine does not offer the cipher, or can't serve another session now.
    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError>;

    /// Whether the engine has a key of its own, such as an object in a token, that never
    /// leaves it. Such an engine does only jobs that bring no key, in sessions without one,
    /// and fails those with a key with [`EngineError::HoldsKey`].
    fn holds_key(&self) -> bool {
        false
    }

    /// What has been seen of the engine's work so far; `None` when nobody watches it.
    fn account(&self) -> Option<Account> {
        None
    }
}

/// What has been seen of an engine's work, by the guard that watches it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Jobs (and records) that the engine did and that were handed on.
    pub jobs: u64,
    /// How many of them were computed again by the reference engine, with the same result.
    pub verified: u64,
    /// Jobs that the reference engine did instead, after the engine had failed.
    pub retreated: u64,
    /// Why the engine was taken out of service.
    pub fault: Option<EngineError>,
}

impl Account {
    /// Jobs whose results nobody has compared.
    pub fn unverified(&self) -> u64 {
        self.jobs.saturating_sub(self.verified)
    }
}

/// An engine opened for one cipher, direction and key. One thread at a time uses it; which one
/// may change, since garbage-collected callers close it where they happen to be.
///
/// A session allocates nothing per job: contexts, sockets and buffers are made when it opens.
pub trait Session: Send {
    /// Processes a batch of jobs and returns when they are done, sleeping while a device works.
    ///
    /// On return each job's [`outcome`](Job::outcome) is set. A job that can't be processed by
    /// anyone (a wrong tag, a malformed length) is rejected in its outcome and is no failure
    /// of the session. Jobs that come in with an outcome other than pending are left alone.
    ///
    /// # Errors
    /// The engine refused or failed. Jobs that are still [`Pending`](crate::Outcome::Pending)
    /// were not done, their input is as it was, and another engine can do them.
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError>;

    /// Processes one message and puts the result in its place.
    ///
    /// On return the job's [`outcome`](InPlaceJob::outcome) is set, as by
    /// [`Session::process`]. Engines that work in place by themselves do so; with the others
    /// the message goes through a small scratch, piece by piece.
    ///
    /// # Errors
    /// The engine refused or failed. The job says how much of the message had been
    /// [`done`](InPlaceJob::done); the rest is as it was, and another engine can do it.
    fn process_in_place(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        job.through_scratch(self)
    }

    /// Processes records, messages of one length that lie at equal distances, with the
    /// session's key.
    ///
    /// On return all records are [`done`](Records::done); those that can't be processed by
    /// anyone are among the [`rejected`](Records::rejected). Engines that gain from the layout
    /// use it; with the others the records travel as jobs.
    ///
    /// # Errors
    /// The engine refused or failed. The records after those that are done were not done, and
    /// another engine can do them.
    fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        records.through_jobs(self)
    }

    /// Has what is left to verify verified, now and not when the session closes. The session can
    /// go on.
    ///
    /// # Errors
    /// The engine was found to compute wrong results: what it did before is in doubt.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Says how many bytes of output this session, and others beside it, are going to write
    /// before any of it is read. An engine may write more than caches hold around them.
    fn expect_output(&mut self, _bytes: usize) {}

    /// CPU time that the session has used so far on other threads than the caller's, so that
    /// whoever reads the caller's CPU clock can add it.
    fn cpu_elsewhere(&self) -> Duration {
        Duration::ZERO
    }
}

/// What an engine is, in words and facts for people and for policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The name by which `--engine` selects it, such as `openssl` or `af_alg:DRIVER`.
    pub name: String,
    /// Where its work is done.
    pub kind: Kind,
    /// Version, driver or device, for people: `OpenSSL 3.6.3`.
    pub detail: String,
}

/// Where an engine's work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// It computes on the calling core.
    Cpu,
    /// Another device computes while the caller sleeps.
    Module,
}

/// How an engine likes to be used for one cipher and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// How many workers can use it at once with profit; for CPU engines the number of cores.
    pub depth: usize,
    /// How many jobs it likes in a batch; 1 for engines that gain nothing from more.
    pub batch: usize,
    /// How many processes' sessions it serves at once; `None` when it has no such limit.
    /// Every process finds the same, whatever the others do.
    pub holders: Option<usize>,
}

/// What a session is to be opened for.
#[derive(Clone, Copy, Debug)]
pub struct SessionRequest<'a> {
    /// The cipher.
    pub cipher: Cipher,
    /// Encrypt or decrypt.
    pub direction: Direction,
    /// The key of every job that brings none of its own; `None` when each brings its own, and
    /// for an engine that [holds its key](Engine::holds_key).
    pub key: Option<&'a Key>,
}

impl SessionRequest<'_> {
    /// Checks the length of the session's key, if it has one.
    ///
    /// # Errors
    /// [`EngineError::KeyLength`].
    pub fn check_key(&self) -> Result<(), EngineError> {
        let (cipher, expected) = (self.cipher, self.cipher.key_length());
        match self.key.map(Key::len).filter(|&actual| actual != expected) {
            Some(actual) => Err(EngineError::KeyLength { cipher, expected, actual }),
            None => Ok(()),
        }
    }
}
