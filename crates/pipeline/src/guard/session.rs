//! A session whose every outcome is looked at.

use std::sync::Arc;
use std::time::Duration;

use evener_core::{Cipher, Direction, EngineError, Job, Outcome, Padding, Session, SessionRequest};
use zeroize::Zeroizing;

use super::service::Service;

pub(super) struct GuardedSession {
    inner: Box<dyn Session>,
    reference: Option<Box<dyn Session>>,
    cipher: Cipher,
    direction: Direction,
    verify_every: u64,
    /// Jobs until the next one is verified.
    until_verified: u64,
    /// Jobs done since the last one that was verified, which the service counts too.
    unverified: u64,
    service: Arc<Service>,
    /// Which jobs of the batch were pending when it came.
    pending: Vec<bool>,
    /// Where the reference writes.
    output: Zeroizing<Vec<u8>>,
}

impl GuardedSession {
    pub(super) fn new(
        inner: Box<dyn Session>,
        reference: Option<Box<dyn Session>>,
        request: &SessionRequest<'_>,
        verify_every: u64,
        service: Arc<Service>,
    ) -> GuardedSession {
        GuardedSession {
            inner,
            reference,
            cipher: request.cipher,
            direction: request.direction,
            verify_every,
            until_verified: 0,
            unverified: 0,
            service,
            pending: Vec::new(),
            output: Zeroizing::default(),
        }
    }

    fn process_guarded(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.service.check()?;
        match self.inner.process(batch) {
            Ok(()) => {}
            // The caller's mistakes are not the engine's.
            Err(error @ (EngineError::NoKey { .. } | EngineError::HoldsKey { .. })) => {
                return Err(error);
            }
            Err(error) => return Err(self.service.end(error)),
        }
        let unverified = self
            .examine(batch)
            .map_err(|fault| self.service.end(fault.in_engine(self.service.engine())))?;
        // Another worker may have found in the meantime that the engine can't be trusted.
        self.service.check()?;
        self.unverified += unverified;
        self.service.add_unverified(unverified);
        Ok(())
    }

    /// Looks at every outcome, and computes those jobs again whose turn it is. Returns how
    /// many are done and were not verified, nor followed by one that was.
    fn examine(&mut self, batch: &[Job<'_>]) -> Result<u64, Fault> {
        let mut unverified = 0;
        for (at, job) in batch.iter().enumerate() {
            match job.outcome {
                _ if !self.pending[at] => {}
                Outcome::Pending => return Err(Fault::Undone),
                // Nobody else will try a rejected message, so a second opinion is due.
                Outcome::Rejected(_) => self.verify(job)?,
                Outcome::Done { written } => {
                    self.check_length(job, written)?;
                    unverified += 1;
                    if self.is_turn() {
                        self.verify(job)?;
                        self.service.verified(std::mem::take(&mut self.unverified));
                        unverified = 0;
                    }
                }
            }
        }
        Ok(unverified)
    }

    /// Whether the next job is one of those to be verified.
    fn is_turn(&mut self) -> bool {
        let is_turn = self.verify_every > 0 && self.until_verified == 0;
        self.until_verified = match is_turn {
            true => self.verify_every - 1,
            false => self.until_verified.saturating_sub(1),
        };
        is_turn
    }

    fn check_length(&self, job: &Job<'_>, written: usize) -> Result<(), Fault> {
        let due = job.output_length(self.cipher, self.direction);
        let least = match (self.direction, job.padding) {
            (Direction::Decrypt, Padding::Pkcs7) => due.saturating_sub(self.cipher.block_length()),
            _ => due,
        };
        let most = if least < due { due - 1 } else { due };
        if (least..=most).contains(&written) { Ok(()) } else { Err(Fault::Length { written, due }) }
    }

    /// Computes a job again and compares.
    fn verify(&mut self, job: &Job<'_>) -> Result<(), Fault> {
        let Some(reference) = &mut self.reference else { return Ok(()) };
        let length = job.output_length(self.cipher, self.direction);
        if self.output.len() < length {
            self.output = Zeroizing::new(vec![0; length]);
        }
        let mut again = [Job {
            iv: job.iv,
            key: job.key,
            aad: job.aad,
            padding: job.padding,
            input: job.input,
            // A job may be malformed by having less room than that.
            output: &mut self.output[..length.min(job.output.len())],
            outcome: Outcome::Pending,
        }];
        // What the reference can't do says nothing about the engine.
        if reference.process(&mut again).is_err() {
            return Ok(());
        }
        let [again] = again;
        let same = match (job.outcome, again.outcome) {
            (Outcome::Done { written }, Outcome::Done { written: due }) => {
                written == due && job.output.get(..due) == again.output.get(..due)
            }
            (Outcome::Rejected(_), Outcome::Rejected(_)) => true,
            _ => false,
        };
        if same { Ok(()) } else { Err(Fault::Wrong { unverified: self.service.unverified() }) }
    }
}

impl Session for GuardedSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.pending.clear();
        self.pending.extend(batch.iter().map(|job| job.outcome == Outcome::Pending));
        let result = self.process_guarded(batch);
        if result.is_err() {
            // What a failing engine says it did is not believed.
            let jobs = batch.iter_mut().zip(&self.pending).filter(|(_, pending)| **pending);
            jobs.for_each(|(job, _)| job.outcome = Outcome::Pending);
        }
        result
    }

    fn cpu_elsewhere(&self) -> Duration {
        self.inner.cpu_elsewhere()
    }
}

/// What an engine did wrong, though it said that all was well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Undone,
    Length { written: usize, due: usize },
    Wrong { unverified: u64 },
    KnownAnswer,
}

impl Fault {
    pub(super) fn in_engine(self, engine: &str) -> EngineError {
        let engine = engine.to_owned();
        let reason = match self {
            Fault::Wrong { unverified } => return EngineError::WrongResult { engine, unverified },
            Fault::Undone => "it left a job undone".to_owned(),
            Fault::Length { written, due } => {
                format!("it returned {written} bytes where {due} were due")
            }
            Fault::KnownAnswer => {
                "it failed the test with known answers and was not used".to_owned()
            }
        };
        EngineError::Failed { engine, reason }
    }
}
