//! A session whose every outcome is looked at.

use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Cipher, Direction, EngineError, InPlaceJob, Job, Outcome, Padding, Records, Rejection, Session,
    SessionRequest, Verification,
};
use zeroize::Zeroizing;

use super::Watch;
use super::last::LastJob;
use super::sampling::Sampling;
use super::service::Service;

pub(super) struct GuardedSession {
    /// `None` once the reference does all the work.
    inner: Option<Box<dyn Session>>,
    reference: Option<Box<dyn Session>>,
    cipher: Cipher,
    direction: Direction,
    /// Whether the inner session copies everything, so that nothing is gained by layouts.
    copies: bool,
    retreats: bool,
    sampling: Sampling,
    last: LastJob,
    service: Arc<Service>,
    /// Which jobs of the batch were pending when it came.
    pending: Vec<bool>,
    /// Where the reference writes.
    output: Zeroizing<Vec<u8>>,
}

/// What looking at a batch came to.
#[derive(Clone, Copy, Debug, Default)]
struct Examined {
    jobs: u64,
    verified: u64,
}

impl Examined {
    fn count(&mut self, is_verified: bool) {
        self.jobs += 1;
        self.verified += u64::from(is_verified);
    }
}

impl GuardedSession {
    /// `inner` is `None` where the engine has failed already.
    pub(super) fn new(
        inner: Option<Box<dyn Session>>,
        reference: Option<Box<dyn Session>>,
        request: &SessionRequest<'_>,
        watch: Watch,
        service: Arc<Service>,
    ) -> GuardedSession {
        GuardedSession {
            inner,
            reference,
            cipher: request.cipher,
            direction: request.direction,
            copies: watch.deadline.is_some(),
            retreats: watch.retreats,
            sampling: Sampling::new(watch.verify_every.unwrap_or(Watch::USUAL)),
            last: LastJob::default(),
            service,
            pending: Vec::new(),
            output: Zeroizing::default(),
        }
    }

    fn process_guarded(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.service.check()?;
        let Some(inner) = &mut self.inner else { return Err(gone(&self.service)) };
        inner.process(batch).map_err(|error| self.judge(error))?;
        let examined = self.examine(batch).map_err(|fault| self.end(fault))?;
        self.hand_on(examined)
    }

    fn process_records_guarded(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        self.service.check()?;
        let before = (records.done(), records.rejected().len());
        let Some(inner) = &mut self.inner else { return Err(gone(&self.service)) };
        inner.process_records(records).map_err(|error| self.judge(error))?;
        let examined = self.examine_records(records, before).map_err(|fault| self.end(fault))?;
        self.hand_on(examined)
    }

    /// The caller's mistakes are not the engine's; everything else is.
    fn judge(&self, error: EngineError) -> EngineError {
        if is_callers(&error) { error } else { self.service.end(error) }
    }

    fn end(&self, fault: Fault) -> EngineError {
        self.service.end(fault.in_engine(self.service.engine()))
    }

    fn hand_on(&mut self, examined: Examined) -> Result<(), EngineError> {
        // Another worker may have found in the meantime that the engine can't be trusted.
        let handed_on = self.service.hand_on(examined.jobs, examined.verified);
        if handed_on.is_err() {
            // It may be a job of this batch, which somebody else does.
            self.last.forget();
        }
        handed_on
    }

    /// Looks at every outcome, and computes those jobs again that are drawn or asked for.
    fn examine(&mut self, batch: &mut [Job<'_>]) -> Result<Examined, Fault> {
        let mut examined = Examined::default();
        let mut last = None;
        for (at, job) in batch.iter_mut().enumerate() {
            match job.outcome {
                _ if !self.pending[at] => {}
                Outcome::Pending => return Err(Fault::Undone),
                // Nobody else will try a rejected message, so a second opinion is due.
                Outcome::Rejected(_) => {
                    let is_verified = self.verify(job)?;
                    examined.count(is_verified);
                }
                Outcome::Done { written } => {
                    self.check_length(job, written)?;
                    let is_drawn = self.sampling.draw();
                    let is_wanted = job.verification == Verification::Wanted;
                    let is_due = is_drawn || is_wanted && self.sampling.is_on();
                    let is_verified = is_due && self.verify(job)?;
                    if is_verified {
                        job.verification = Verification::Passed;
                    }
                    examined.count(is_verified);
                    last = Some((at, written)).filter(|_| !is_verified);
                    if is_verified {
                        self.last.forget();
                    }
                }
            }
        }
        if let Some((at, written)) = last.filter(|_| self.can_verify()) {
            self.last.keep(&batch[at], written);
        }
        Ok(examined)
    }

    /// As [`GuardedSession::examine`], of the records that are done and were not before.
    fn examine_records(
        &mut self,
        records: &Records<'_>,
        (done, rejected): (usize, usize),
    ) -> Result<Examined, Fault> {
        let layout = *records.layout();
        if records.done() < layout.count {
            return Err(Fault::Undone);
        }
        let mut examined = Examined::default();
        let mut refused = records.rejected().get(rejected..).unwrap_or_default().iter().peekable();
        let mut last = None;
        for record in done..layout.count {
            if let Some(&(_, rejection)) = refused.next_if(|&&(number, _)| number == record) {
                let outcome = Outcome::Rejected(rejection);
                examined.count(self.verify_record(records, record, outcome)?);
                continue;
            }
            let is_verified = self.sampling.draw() && {
                let written = result_length(records);
                self.verify_record(records, record, Outcome::Done { written })?
            };
            examined.count(is_verified);
            last = Some(record).filter(|_| !is_verified);
            if is_verified {
                self.last.forget();
            }
        }
        if let Some((iv, input, output)) = last.and_then(|record| records.record(record))
            && self.can_verify()
        {
            let result = output.get(..result_length(records)).unwrap_or_default();
            self.last.keep_parts((iv, None, layout.padding), &[], input, result);
        }
        Ok(examined)
    }

    /// Computes a record again and compares. Returns whether that could be done.
    fn verify_record(
        &mut self,
        records: &Records<'_>,
        record: usize,
        outcome: Outcome,
    ) -> Result<bool, Fault> {
        let Some((iv, input, output)) = records.record(record) else { return Ok(false) };
        let mut copy = Zeroizing::new(output.to_vec());
        let padding = records.layout().padding;
        // A message of another length than the records' is rejected by their rules alone.
        let is_of_length = |reference: &Outcome| match *reference {
            Outcome::Done { written } => written == result_length(records),
            _ => true,
        };
        let job = Job { padding, outcome, ..Job::new(iv, input, &mut copy) };
        let Some(due) = self.compute_again(&job) else { return Ok(false) };
        let due = if is_of_length(&due) { due } else { Outcome::Rejected(Rejection::Padding) };
        self.compare(&job, due).map(|()| true)
    }

    fn can_verify(&self) -> bool {
        self.sampling.is_on() && self.reference.is_some()
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

    /// Computes a job again and compares. Returns whether that could be done.
    fn verify(&mut self, job: &Job<'_>) -> Result<bool, Fault> {
        let Some(due) = self.compute_again(job) else { return Ok(false) };
        self.compare(job, due).map(|()| true)
    }

    /// What the reference makes of a job, whose result is in `output` then; `None` where it
    /// can't do it, which says nothing about the engine.
    fn compute_again(&mut self, job: &Job<'_>) -> Option<Outcome> {
        let reference = self.reference.as_mut()?;
        let length = job.output_length(self.cipher, self.direction);
        if self.output.len() < length {
            self.output = Zeroizing::new(vec![0; length]);
        }
        // A job may be malformed by having less room than that.
        let output = &mut self.output[..length.min(job.output.len())];
        let mut again = [Job {
            key: job.key,
            aad: job.aad,
            padding: job.padding,
            ..Job::new(job.iv, job.input, output)
        }];
        reference.process(&mut again).ok()?;
        Some(again[0].outcome)
    }

    fn compare(&self, job: &Job<'_>, due: Outcome) -> Result<(), Fault> {
        let same = match (job.outcome, due) {
            (Outcome::Done { written }, Outcome::Done { written: due }) => {
                written == due && job.output.get(..due) == self.output.get(..due)
            }
            (Outcome::Rejected(_), Outcome::Rejected(_)) => true,
            _ => false,
        };
        if same { Ok(()) } else { Err(Fault::Wrong { unverified: self.service.unverified() }) }
    }

    /// Goes on with the reference alone, where the watch says so and nothing that was handed on
    /// is in doubt; a doubt is told once.
    fn retreat(&mut self, cause: EngineError) -> Result<&mut dyn Session, EngineError> {
        if !self.retreats || is_callers(&cause) || self.reference.is_none() {
            return Err(cause);
        }
        let was_at_work = self.inner.take().is_some();
        // It may have been written by the engine that failed.
        self.last.forget();
        match (&mut self.reference, cause) {
            (_, cause @ EngineError::WrongResult { unverified: 1.., .. }) if was_at_work => {
                Err(cause)
            }
            (Some(reference), _) => Ok(&mut **reference),
            (None, cause) => Err(cause),
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
impl Session for GuardedSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        self.pending.clear();
        self.pending.extend(batch.iter().map(|job| job.outcome == Outcome::Pending));
        let Err(cause) = self.process_guarded(batch) else { return Ok(()) };
        // What a failing engine says it did is not believed.
        let jobs = batch.iter_mut().zip(&self.pending).filter(|(_, pending)| **pending);
        let mut undone = 0;
        for (job, _) in jobs {
            job.outcome = Outcome::Pending;
            undone += 1;
        }
        self.retreat(cause)?.process(batch)?;
        self.service.retreated(undone);
        Ok(())
    }

    /// Piece by piece, through a scratch: what is replaced can't be computed again.
    fn process_in_place(&mut self, job: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        job.through_scratch(self)
    }

    fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        if self.copies {
            return records.through_jobs(self);
        }
        let before = records.done();
        let Err(cause) = self.process_records_guarded(records) else { return Ok(()) };
        records.back_to(before);
        let undone = records.layout().count - before;
        self.retreat(cause)?.process_records(records)?;
        self.service.retreated(undone as u64);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        // So that the copy can be judged with the rest of the session.
        let mut last = std::mem::take(&mut self.last);
        let judged = last.judged(|job| self.verify(job));
        self.last = last;
        match judged {
            Some(Ok(true)) => {
                self.service.verified_later();
                Ok(())
            }
            Some(Err(fault)) => {
                let cause = self.end(fault);
                if self.retreats {
                    self.inner = None;
                }
                Err(cause)
            }
            Some(Ok(false)) | None => Ok(()),
        }
    }

    fn expect_output(&mut self, bytes: usize) {
        for session in self.inner.iter_mut().chain(&mut self.reference) {
            session.expect_output(bytes);
        }
    }

    fn cpu_elsewhere(&self) -> Duration {
        self.inner.as_ref().map_or(Duration::ZERO, |inner| inner.cpu_elsewhere())
    }
}

impl Drop for GuardedSession {
    fn drop(&mut self) {
        // What is found now is in the engine's account.
        let _ = self.finish();
    }
}

/// How long the result of a record is that is as it should be.
fn result_length(records: &Records<'_>) -> usize {
    let layout = records.layout();
    match records.direction() {
        Direction::Encrypt => layout.output_length(records.cipher(), Direction::Encrypt),
        Direction::Decrypt => layout.length,
    }
}

/// What the engine is not to blame for.
fn is_callers(error: &EngineError) -> bool {
    use EngineError::{HoldsKey, Interrupted, KeyLength, NoKey, NotOffered};
    matches!(
        error,
        NoKey { .. } | HoldsKey { .. } | KeyLength { .. } | NotOffered { .. } | Interrupted { .. }
    )
}

/// The engine failed when it had been asked for a session.
fn gone(service: &Service) -> EngineError {
    let reason = "it is out of service".to_owned();
    EngineError::Failed { engine: service.engine().to_owned(), reason }
}

/// What an engine did wrong, though it said that all was well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Undone,
    Length { written: usize, due: usize },
    Wrong { unverified: u64 },
    KnownAnswer { unverified: u64 },
}

impl Fault {
    pub(super) fn in_engine(self, engine: &str) -> EngineError {
        let engine = engine.to_owned();
        let reason = match self {
            Fault::Wrong { unverified } | Fault::KnownAnswer { unverified: unverified @ 1.. } => {
                return EngineError::WrongResult { engine, unverified };
            }
            Fault::Undone => "it left a job undone".to_owned(),
            Fault::Length { written, due } => {
                format!("it returned {written} bytes where {due} were due")
            }
            Fault::KnownAnswer { unverified: 0 } => {
                "it failed the test with known answers and was not used".to_owned()
            }
        };
        EngineError::Failed { engine, reason }
    }
}
