//! A kernel with a session's key.

use evener_core::{
    Cipher, Direction, EngineError, InPlaceJob, Job, Outcome, Records, Rejection, Session,
    SessionRequest, Shortcuts,
};

use evener_lanes::{Kernel, Prepared};

pub(super) struct LanesSession {
    engine: String,
    cipher: Cipher,
    direction: Direction,
    prepared: Prepared,
    has_key: bool,
}

impl LanesSession {
    pub(super) fn open(
        engine: &str,
        kernel: Kernel,
        request: &SessionRequest<'_>,
    ) -> Result<LanesSession, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        request.check_key()?;
        let not_offered = || EngineError::not_offered(cipher, direction).of(engine);
        let prepared = kernel.prepare(cipher, direction, key).ok_or_else(not_offered)?;
        let (engine, has_key) = (engine.to_owned(), key.is_some());
        Ok(LanesSession { engine, cipher, direction, prepared, has_key })
    }
}

impl Session for LanesSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.prepared.process(batch);
        // With a session key the kernel leaves no job undone, so no second pass is needed.
        if !self.has_key && batch.iter().any(|job| job.outcome == Outcome::Pending) {
            return Err(EngineError::no_key().of(&self.engine));
        }
        Ok(())
    }

    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        Some(self)
    }
}

impl Shortcuts for LanesSession {
    fn process_in_place(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        let is_pending = job.outcome == Outcome::Pending;
        if is_pending && (job.cipher, job.direction) != (self.cipher, self.direction) {
            job.outcome = Outcome::Rejected(ANOTHER_CIPHER);
            return Ok(());
        }
        let is_sound = is_pending && job.check().is_ok();
        let rest = job.data.get_mut(job.done..).filter(|_| is_sound);
        if rest.and_then(|data| self.prepared.transform_in_place(&job.iv, data)).is_none() {
            return job.through_scratch(self);
        }
        job.done = job.data.len();
        job.outcome = Outcome::Done { written: job.done };
        Ok(())
    }

    fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        match self.prepared.process_records(records) {
            Some(()) => Ok(()),
            None => records.through_jobs(self),
        }
    }

    fn expect_output(&mut self, bytes: usize) {
        self.prepared.expect_output(bytes);
    }
}

const ANOTHER_CIPHER: Rejection =
    Rejection::Malformed("the session is for another cipher or direction");
