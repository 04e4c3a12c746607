//! Sessions of engines.

use std::time::Duration;

use crate::{Cipher, Direction, EngineError, InPlaceJob, Job, Key, Parcel, Records};

/// An engine opened for one cipher, direction and key. One thread at a time uses it, though not
/// always the same thread: a garbage collector may close a session on its own thread.
///
/// A session allocates nothing per job: it makes its contexts, sockets and buffers when it opens.
///
/// An engine needs to implement only [`Session::process`]. The methods of `dyn Session` below turn
/// other work into jobs, unless the session has [`Shortcuts`] or is [`Guarded`].
pub trait Session: Send {
    /// Processes a batch of any number of jobs and returns when all are done. The thread sleeps
    /// while a device works.
    ///
    /// On return each job's [`outcome`](Job::outcome) is set. The session rejects a job that no
    /// engine can process (wrong tag, malformed length) in that job's outcome, and does not itself
    /// fail. It skips jobs whose outcome is not pending at the call.
    ///
    /// # Errors
    /// The engine refused or failed. Jobs that are still [`Pending`](crate::Outcome::Pending) were
    /// not done; their input is unchanged, and another engine can process them.
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError>;

    /// The session, if it has faster ways for some work than jobs.
    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        None
    }

    /// The session, if it belongs to a guard.
    fn guarded(&mut self) -> Option<&mut dyn Guarded> {
        None
    }
}

/// Faster ways than jobs, for engines that compute on the calling core.
pub trait Shortcuts: Session {
    /// The session's own way for `process_in_place` of `dyn Session`.
    ///
    /// # Errors
    /// As there.
    fn process_in_place(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        job.through_scratch(self)
    }

    /// The session's own way for `process_records` of `dyn Session`.
    ///
    /// # Errors
    /// As there.
    fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        records.through_jobs(self)
    }

    /// The session's own way for `expect_output` of `dyn Session`.
    fn expect_output(&mut self, _bytes: usize) {}
}

/// The additional work of a guard's session, which checks another session or has it work on a
/// thread that it may abandon.
pub trait Guarded: Session {
    /// The session's own way for `process_parcel` of `dyn Session`, without copies of the data.
    ///
    /// # Errors
    /// As there.
    fn process_parcel(&mut self, parcel: &mut Parcel) -> Result<(), EngineError>;

    /// The session's own way for `finish` of `dyn Session`.
    ///
    /// # Errors
    /// As there.
    fn finish(&mut self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The session's own way for `cpu_elsewhere` of `dyn Session`.
    fn cpu_elsewhere(&mut self) -> Duration;
}

impl dyn Session + '_ {
    /// Processes one message and puts the result in its place.
    ///
    /// On return the job's [`outcome`](InPlaceJob::outcome) is set, as by [`Session::process`].
    /// If an engine can't work in place, the message goes through a small buffer, piece by piece.
    ///
    /// # Errors
    /// The engine refused or failed. [`InPlaceJob::done`] is the number of bytes replaced; the rest
    /// is unchanged, and another engine can process it.
    pub fn process_in_place(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        match self.shortcuts() {
            Some(shortcuts) => shortcuts.process_in_place(job),
            None => job.through_scratch(self),
        }
    }

    /// Processes records (messages of one length at equal distances) with the session's key.
    ///
    /// On return all records are [`done`](Records::done); the records that no engine can process
    /// are among the [`rejected`](Records::rejected). An engine without code for this layout gets
    /// the records as jobs.
    ///
    /// # Errors
    /// The engine refused or failed. Another engine can process the records after
    /// [`Records::done`].
    pub fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        match self.shortcuts() {
            Some(shortcuts) => shortcuts.process_records(records),
            None => records.through_jobs(self),
        }
    }

    /// Announces how many bytes of output this session and those of other threads will write before
    /// anyone reads them. If that is more than the caches hold, the engine may bypass them.
    pub fn expect_output(&mut self, bytes: usize) {
        if let Some(shortcuts) = self.shortcuts() {
            shortcuts.expect_output(bytes);
        }
    }

    /// Processes a batch that owns its data, as [`Session::process`] processes one that borrows its
    /// data. A session that works on another thread needs no copies of such a batch.
    ///
    /// # Errors
    /// As [`Session::process`]: the inputs are unchanged, and another engine can process the jobs
    /// that are still pending.
    pub fn process_parcel(&mut self, parcel: &mut Parcel) -> Result<(), EngineError> {
        match self.guarded() {
            Some(guarded) => guarded.process_parcel(parcel),
            None => parcel.through_jobs(self),
        }
    }

    /// Verifies now what a guard would otherwise verify when the session closes. The session stays
    /// usable.
    ///
    /// # Errors
    /// The engine computed a wrong result: its earlier jobs are in doubt.
    pub fn finish(&mut self) -> Result<(), EngineError> {
        self.guarded().map_or(Ok(()), |guarded| guarded.finish())
    }

    /// CPU time that the session has used so far on threads other than the caller's, which the
    /// caller adds to its own CPU clock.
    pub fn cpu_elsewhere(&mut self) -> Duration {
        self.guarded().map_or(Duration::ZERO, |guarded| guarded.cpu_elsewhere())
    }
}

/// Cipher, direction and key of a session to be opened.
#[derive(Clone, Copy, Debug)]
pub struct SessionRequest<'a> {
    /// The cipher.
    pub cipher: Cipher,
    /// Encrypt or decrypt.
    pub direction: Direction,
    /// The key of every job without a key of its own; `None` when each job has its own, and for an
    /// engine that [holds its key](crate::Engine::holds_key).
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
