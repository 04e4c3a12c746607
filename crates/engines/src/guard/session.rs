//! A session that checks every outcome of an engine's session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, EngineError, Guarded, Job, Outcome, Padding, Parcel, Recall, Records,
    Session, SessionRequest, Shortcuts, Verification, WipedBuffer, wipe,
};

use super::Watch;
use super::expense::{self, Expense};
use super::last::LastJob;
use super::sampling::Sampling;
use super::service::Service;

pub(super) struct GuardedSession {
    /// `None` after the reference engine took over.
    inner: Option<Box<dyn Session>>,
    reference: Option<Box<dyn Session>>,
    cipher: Cipher,
    direction: Direction,
    /// True if there is a key for all jobs.
    has_key: bool,
    /// True if the inner session works on a thread of its own, so that layouts gain nothing.
    is_apart: bool,
    retreats: bool,
    sampling: Sampling,
    /// `None` if the caller has set how many jobs to verify.
    expense: Option<Expense>,
    last: LastJob,
    service: Arc<Service>,
    /// The jobs' outcomes and verifications at the call. An engine may change those of its jobs.
    before: Vec<(Outcome, Verification)>,
    /// The output of the reference engine.
    output: WipedBuffer,
}

/// The result of checking a batch.
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
        service.session_begins();
        GuardedSession {
            inner,
            reference,
            cipher: request.cipher,
            direction: request.direction,
            has_key: request.key.is_some(),
            is_apart: watch.deadline.is_some(),
            retreats: watch.retreats,
            sampling: Sampling::new(watch.verify_every.unwrap_or(Watch::USUAL)),
            expense: watch.verify_every.is_none().then(Expense::default),
            last: LastJob::default(),
            service,
            before: Vec::new(),
            output: WipedBuffer::default(),
        }
    }

    /// Processes a batch and checks it. If the engine fails, the reference engine
    /// processes the batch, or the batch stays as it was.
    fn process_checked<B: Batch + ?Sized>(&mut self, batch: &mut B) -> Result<(), EngineError> {
        self.before.clear();
        self.before.extend(batch.marks().map(|(outcome, verification)| (*outcome, *verification)));
        let Err(cause) = self.process_guarded(batch) else { return Ok(()) };
        // The outcomes of a failed engine are discarded.
        let mut undone = 0;
        for ((outcome, verification), &before) in batch.marks().zip(&self.before) {
            (*outcome, *verification) = before;
            undone += u64::from(before.0 == Outcome::Pending);
        }
        batch.process(self.retreat(cause)?, false)?;
        self.service.retreated(undone);
        Ok(())
    }

    fn process_guarded<B: Batch + ?Sized>(&mut self, batch: &mut B) -> Result<(), EngineError> {
        self.service.check()?;
        let Some(inner) = &mut self.inner else { return Err(gone(&self.service)) };
        let begun = Instant::now();
        let processed = batch.process(&mut **inner, self.is_apart);
        let time = begun.elapsed();
        // No engine decides which jobs are verified, or changes the outcomes of settled jobs.
        for ((outcome, verification), &before) in batch.marks().zip(&self.before) {
            *verification = before.1;
            if before.0 != Outcome::Pending {
                *outcome = before.0;
            }
        }
        if let Err(error) = processed {
            let is_keyed = |job: &Job<'_>| {
                job.key.map_or(self.has_key, |key| key.len() == self.cipher.key_length())
            };
            let are_keyed = batch.with_jobs(|jobs| jobs.iter().all(is_keyed));
            return Err(self.judge(error, are_keyed));
        }
        let examined = batch.with_jobs(|jobs| {
            if let Some(expense) = &mut self.expense {
                let pending = jobs.iter().zip(&self.before);
                let pending = pending.filter(|(_, before)| before.0 == Outcome::Pending);
                expense.done(pending.map(|(job, _)| expense::size(job)).sum(), time);
            }
            self.examine(jobs)
        });
        self.hand_on(examined.map_err(|fault| self.end(fault))?)
    }

    /// Errors of the caller are not faults of the engine; all others are. If every job has its key,
    /// only a recall counts as the caller's.
    fn judge(&self, error: EngineError, are_keyed: bool) -> EngineError {
        let error = error.of(self.service.engine());
        match is_callers(&error) {
            _ if is_recalled(&error) => error,
            true if are_keyed => self.service.end(EngineError::failed(error.to_string())),
            true => error,
            false => self.service.end(error),
        }
    }

    fn end(&self, fault: Fault) -> EngineError {
        self.service.end(fault.into())
    }

    fn hand_on(&mut self, examined: Examined) -> Result<(), EngineError> {
        // Another worker may have found a fault of the engine meanwhile.
        let handed_on = self.service.hand_on(examined.jobs, examined.verified);
        if handed_on.is_err() {
            // The copy may be of a job in this batch, which another engine will process.
            self.last.forget();
        }
        handed_on
    }

    /// Checks every outcome, and recomputes the jobs that were sampled or have
    /// `Verification::Wanted`.
    fn examine(&mut self, batch: &mut [Job<'_>]) -> Result<Examined, Fault> {
        let mut examined = Examined::default();
        let mut last = None;
        for (at, job) in batch.iter_mut().enumerate() {
            match job.outcome {
                _ if self.before[at].0 != Outcome::Pending => {}
                Outcome::Pending => return Err(Fault::Undone),
                // No other engine tries a rejected message, so the reference engine must.
                Outcome::Rejected(_) => {
                    let is_verified = self.verify(job)?;
                    examined.count(is_verified);
                    let length = job.output_length(self.cipher, self.direction);
                    let length = length.min(job.output.len());
                    wipe(&mut job.output[..length]);
                }
                Outcome::Done { written } => {
                    self.check_length(job, written)?;
                    let is_drawn = self.sampling.draw();
                    let is_wanted = job.verification == Verification::Wanted;
                    let is_due =
                        is_drawn || is_wanted && self.sampling.is_on() || self.is_every_job_due();
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

    /// Returns whether recomputing every job costs next to nothing. Verifying the first job of a
    /// session shows it, so this is asked for each job, not once for a batch.
    fn is_every_job_due(&self) -> bool {
        let sessions = self.service.sessions();
        self.expense.as_ref().is_some_and(|expense| expense.is_small(sessions))
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

    /// Recomputes a job and compares the results. Returns whether that was possible.
    fn verify(&mut self, job: &Job<'_>) -> Result<bool, Fault> {
        let Some(due) = self.compute_again(job) else { return Ok(false) };
        self.compare(job, due).map(|()| true)
    }

    /// The outcome of a job on the reference engine, with the result in `output`; `None` if that
    /// engine can't process it, which is no fault of the guarded one.
    fn compute_again(&mut self, job: &Job<'_>) -> Option<Outcome> {
        let reference = self.reference.as_mut()?;
        let begun = Instant::now();
        let length = job.output_length(self.cipher, self.direction);
        self.output.ensure(length);
        // A job with a shorter output is malformed.
        let output = &mut self.output[..length.min(job.output.len())];
        let mut again = [Job {
            key: job.key,
            aad: job.aad,
            padding: job.padding,
            ..Job::new(job.iv, job.input, output)
        }];
        reference.process(&mut again).ok()?;
        if let Some(expense) = &mut self.expense {
            expense.recomputed(expense::size(job), begun.elapsed());
        }
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

    /// Continues with the reference engine alone, if the guard retreats and no job that was passed
    /// on is in doubt. A doubt is reported once.
    fn retreat(&mut self, cause: EngineError) -> Result<&mut dyn Session, EngineError> {
        if !self.retreats || is_callers(&cause) || self.reference.is_none() {
            return Err(cause);
        }
        let was_at_work = self.inner.take().is_some();
        // The failed engine may have written to it.
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
        self.process_checked(batch)
    }

    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        Some(self)
    }

    fn guarded(&mut self) -> Option<&mut dyn Guarded> {
        Some(self)
    }
}

/// A message in place goes through a buffer, because replaced bytes can't be recomputed.
impl Shortcuts for GuardedSession {
    /// Records are checked as jobs, unless the caller wants nothing recomputed on this core.
    fn process_records(&mut self, records: &mut Records<'_>) -> Result<(), EngineError> {
        let is_checked = self.sampling.is_on() || self.is_apart || self.service.check().is_err();
        let Some(inner) = self.inner.as_mut().filter(|_| !is_checked) else {
            return records.through_jobs(self);
        };
        let before = records.done();
        inner.process_records(records).map_err(|error| self.judge(error, self.has_key))?;
        let jobs = records.done().saturating_sub(before) as u64;
        self.hand_on(Examined { jobs, verified: 0 })
    }

    fn expect_output(&mut self, bytes: usize) {
        for session in self.inner.iter_mut().chain(&mut self.reference) {
            session.expect_output(bytes);
        }
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
impl Guarded for GuardedSession {
    fn process_parcel(&mut self, parcel: &mut Parcel) -> Result<(), EngineError> {
        self.process_checked(parcel)
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        // The copy is verified like the other jobs of the session.
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

    fn cpu_elsewhere(&mut self) -> Duration {
        self.inner.as_mut().map_or(Duration::ZERO, |inner| inner.cpu_elsewhere())
    }
}

impl Drop for GuardedSession {
    fn drop(&mut self) {
        // A fault found now is in the engine's account.
        let _ = self.finish();
        self.service.session_ends();
    }
}

/// Jobs, wherever their data is.
trait Batch {
    /// Processes the jobs in a session, which works on a thread of its own if it `is_apart`.
    fn process(&mut self, session: &mut dyn Session, is_apart: bool) -> Result<(), EngineError>;

    /// Each job's outcome and verification.
    fn marks(&mut self) -> impl Iterator<Item = (&mut Outcome, &mut Verification)>;

    fn with_jobs<R>(&mut self, act: impl FnOnce(&mut [Job<'_>]) -> R) -> R;
}

impl Batch for [Job<'_>] {
    fn process(&mut self, session: &mut dyn Session, _: bool) -> Result<(), EngineError> {
        session.process(self)
    }

    fn marks(&mut self) -> impl Iterator<Item = (&mut Outcome, &mut Verification)> {
        self.iter_mut().map(|job| (&mut job.outcome, &mut job.verification))
    }

    fn with_jobs<R>(&mut self, act: impl FnOnce(&mut [Job<'_>]) -> R) -> R {
        act(self)
    }
}

impl Batch for Parcel {
    fn process(&mut self, session: &mut dyn Session, is_apart: bool) -> Result<(), EngineError> {
        match is_apart {
            true => session.process_parcel(self),
            // An engine's own session gets no access to a parcel, because it might change it.
            false => self.through_jobs(session),
        }
    }

    fn marks(&mut self) -> impl Iterator<Item = (&mut Outcome, &mut Verification)> {
        self.marks_mut()
    }

    fn with_jobs<R>(&mut self, act: impl FnOnce(&mut [Job<'_>]) -> R) -> R {
        self.with_jobs(act)
    }
}

/// Errors that are no fault of the engine.
fn is_callers(error: &EngineError) -> bool {
    use EngineError::{HoldsKey, Interrupted, KeyLength, NoKey, NotOffered};
    matches!(
        error,
        NoKey { .. } | HoldsKey { .. } | KeyLength { .. } | NotOffered { .. } | Interrupted { .. }
    )
}

/// Returns whether the caller recalled the work, and the engine only reports that.
fn is_recalled(error: &EngineError) -> bool {
    matches!(error, EngineError::Interrupted { .. })
        && Recall::heeded().is_some_and(|recall| recall.is_called())
}

/// The error of an engine that failed when it opened a session.
fn gone(service: &Service) -> EngineError {
    EngineError::failed("it is out of service").of(service.engine())
}

/// A fault of an engine that reported success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Undone,
    Length { written: usize, due: usize },
    Wrong { unverified: u64 },
    KnownAnswer { unverified: u64 },
}

impl From<Fault> for EngineError {
    fn from(fault: Fault) -> EngineError {
        let reason = match fault {
            Fault::Wrong { unverified } | Fault::KnownAnswer { unverified: unverified @ 1.. } => {
                return EngineError::WrongResult { engine: String::new(), unverified };
            }
            Fault::Undone => "it left a job undone".to_owned(),
            Fault::Length { written, due } => {
                format!("it returned {written} bytes where {due} were due")
            }
            Fault::KnownAnswer { unverified: 0 } => {
                "it failed the test with known answers and was not used".to_owned()
            }
        };
        EngineError::failed(reason)
    }
}
