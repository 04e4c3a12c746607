//! One message, or one batch, on all cores.
//!
//! The other modules keep workers busy with tasks that come one after another. Here is the other
//! case: a caller has everything in memory and waits for it. Its work is cut into portions of
//! some cache's size, which the threads of a [`Pool`] claim one by one, so that a slow core does
//! not hold up the rest. Nothing is copied: portions are parts of the caller's buffers.
//!
//! Engines are used as they are: [`Pool`] has none of these functions as methods, so that programs which get
//! one from the facade can only use it with what guards engines.
//!
//! | file | holds |
//! |---|---|
//! | `pool.rs` | [`Pool`]: its threads, and how calls share them |
//! | `portions.rs` | where messages and batches are cut, and with which IVs they go on |
//! | `share.rs` | claiming portions, and what happens when an engine fails |
//! | `sys.rs` | lending a closure to a thread that outlives it |

mod pool;
mod portions;
mod share;
#[allow(unsafe_code, reason = "the borrow checker can't follow a closure into a sleeping thread")]
mod sys;

use evener_core::{
    Cipher, Engine, EngineError, InPlaceJob, Job, Outcome, Rejection, Session, SessionRequest, wipe,
};

pub use pool::Pool;
use portions::{can_be_cut, portions, portions_in_place, runs};
use share::share;

/// Processes one message, like a session that `engine` opens for the request, on as many
/// threads as are worth it.
///
/// Messages in ECB and CTR, and in CBC when they are decrypted, are cut at block boundaries;
/// a CTR counter is carried over all 128 bits. Other messages can't be cut and are processed
/// on the calling thread, and so are those that are shorter than it takes to wake another.
///
/// # Errors
/// As [`Session::process`], when the engine failed on every
/// thread. The job is pending then, and its input is as it was.
pub fn process(
    pool: &Pool,
    engine: &dyn Engine,
    request: &SessionRequest<'_>,
    job: &mut Job<'_>,
) -> Result<(), EngineError> {
    let &SessionRequest { cipher, direction, .. } = request;
    let plan = pool.plan(job.input.len(), engine, request);
    let is_sound = job.outcome == Outcome::Pending && job.check(cipher, direction).is_ok();
    let mut session = engine.open(request)?;
    let done = if plan.threads == 1 || !is_sound || !can_be_cut(cipher, direction) {
        session.expect_output(plan.bytes);
        alone(&mut *session, std::slice::from_mut(job)).map(|()| None)
    } else {
        let portions = portions(cipher, plan.length, job);
        share(pool, plan, engine, request, &mut *session, portions).map(Some)
    };
    let outcome = match done {
        Ok(None) => return Ok(()),
        Ok(Some(outcome)) => outcome,
        // Parts of it are in doubt, and their input is as it was: the engine is out of
        // service, and what opens now is another, if anything does.
        Err(EngineError::WrongResult { .. }) => {
            job.outcome = Outcome::Pending;
            drop(session);
            return engine.open(request)?.process(std::slice::from_mut(job));
        }
        Err(error) => return Err(error),
    };
    let written = job.output_length(cipher, direction);
    if matches!(outcome, Outcome::Rejected(_)) {
        // The portions before the one that was rejected are not the caller's to see.
        wipe(&mut job.output[..written]);
    }
    job.outcome = outcome;
    Ok(())
}

/// Processes one message and puts the result in its place, as [`process`].
///
/// # Errors
/// As [`Session::process_in_place`]. When the
/// engine failed on every one of several threads, what is left of the message lies
/// scattered between what was done, and the job is rejected.
pub fn process_in_place(
    pool: &Pool,
    engine: &dyn Engine,
    request: &SessionRequest<'_>,
    job: &mut InPlaceJob<'_>,
) -> Result<(), EngineError> {
    let &SessionRequest { cipher, direction, .. } = request;
    let plan = pool.plan(job.data.len(), engine, request);
    let is_sound = job.outcome == Outcome::Pending && job.check().is_ok();
    let mut session = engine.open(request)?;
    if plan.threads == 1 || !is_sound || !can_be_cut(cipher, direction) {
        session.process_in_place(job)?;
        return session.finish().inspect_err(|_| job.outcome = Outcome::Rejected(IN_DOUBT));
    }
    let portions = portions_in_place(plan.length, job);
    let shared = share(pool, plan, engine, request, &mut *session, portions);
    if let Err(error) = shared {
        let is_done = matches!(error, EngineError::WrongResult { .. });
        job.outcome = Outcome::Rejected(if is_done { IN_DOUBT } else { SCATTERED });
        return Err(error);
    }
    job.done = job.data.len();
    job.outcome = Outcome::Done { written: job.done };
    Ok(())
}

/// Processes a batch of messages, like a session that `engine` opens for the request, on as
/// many threads as are worth it. No message is cut.
///
/// # Errors
/// As [`Session::process`], when the engine failed on every
/// thread. Jobs that are still pending were not done.
pub fn process_batch(
    pool: &Pool,
    engine: &dyn Engine,
    request: &SessionRequest<'_>,
    batch: &mut [Job<'_>],
) -> Result<(), EngineError> {
    let bytes = batch.iter().map(|job| job.input.len()).sum();
    let plan = pool.plan(bytes, engine, request);
    let mut session = engine.open(request)?;
    let pending: Vec<_> = batch.iter().map(|job| job.outcome == Outcome::Pending).collect();
    let done = if plan.threads == 1 {
        session.expect_output(plan.bytes);
        alone(&mut *session, batch)
    } else {
        let runs = runs(plan.length, batch);
        share(pool, plan, engine, request, &mut *session, runs).map(|_| ())
    };
    let Err(EngineError::WrongResult { .. }) = done else { return done };
    for (job, _) in batch.iter_mut().zip(pending).filter(|(_, pending)| *pending) {
        job.outcome = Outcome::Pending;
    }
    drop(session);
    engine.open(request)?.process(batch)
}

impl Pool {
    fn plan(&self, bytes: usize, engine: &dyn Engine, request: &SessionRequest<'_>) -> Plan {
        let offer = engine.offer(request.cipher, request.direction);
        // More threads than the engine likes are the caller's choice, except that an engine
        // which serves only so many sessions would fail the others.
        let most = offer.and_then(|offer| offer.holders).unwrap_or(usize::MAX);
        let liked = offer.map_or(0, |offer| offer.bytes);
        let least = least_share(request.cipher).max(liked);
        let threads = self.threads().get().min(most).min(bytes / least).max(1);
        let share = bytes / (threads * PORTIONS_A_THREAD);
        let length = share.clamp(LEAST_PORTION, MOST_PORTION).max(liked);
        let length = length.checked_next_multiple_of(LEAST_PORTION).unwrap_or(length);
        Plan { threads, length, bytes }
    }
}

/// Has one session do a batch, and have it verified as far as it is at all.
fn alone(session: &mut dyn Session, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
    session.process(batch)?;
    session.finish()
}

/// How work is divided.
#[derive(Clone, Copy)]
struct Plan {
    /// Of the whole work.
    bytes: usize,
    threads: usize,
    /// Of a portion, in bytes.
    length: usize,
}

const IN_DOUBT: Rejection = Rejection::Malformed("what replaced the message may be wrong");

const SCATTERED: Rejection =
    Rejection::Malformed("the engine failed when parts of the message had been replaced");

/// What a thread must have to do to be worth waking, in bytes: some ten microseconds' work,
/// which a core with AES instructions does at ten bytes a nanosecond and more, while the other
/// block ciphers take several nanoseconds a byte.
fn least_share(cipher: Cipher) -> usize {
    match cipher {
        Cipher::DesEde3Cbc
        | Cipher::BfCbc
        | Cipher::Camellia128Cbc
        | Cipher::Camellia192Cbc
        | Cipher::Camellia256Cbc => 16 << 10,
        _ => 256 << 10,
    }
}

/// So many portions make the threads end at about the same time.
const PORTIONS_A_THREAD: usize = 8;

/// Whole pages and whole blocks, in bytes. All portions are multiples of this.
const LEAST_PORTION: usize = 16 << 10;

/// In bytes: claiming it costs nothing any more, and it does not displace a cache.
const MOST_PORTION: usize = 256 << 10;
