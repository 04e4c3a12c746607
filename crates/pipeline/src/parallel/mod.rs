//! One message, or one batch, on all cores.
//!
//! The other modules keep workers busy with a sequence of tasks. This one is for the other case: a
//! caller has all data in memory and waits for the result. Its work is cut into portions of some
//! cache's size, which the threads of a [`Pool`] claim one by one, so that a slow core does not
//! hold up the rest. Nothing is copied: portions are parts of the caller's buffers.
//!
//! These functions use engines as they are. They are not methods of [`Pool`], so programs that get
//! a pool from the facade can only use it with guarded engines.
//!
//! | file | holds |
//! |---|---|
//! | `pool.rs` | [`Pool`]: its threads, and how calls share them |
//! | `portions.rs` | the cuts in messages and batches, and the IVs after them |
//! | `share.rs` | claiming portions, and the failure of an engine |
//! | `sys.rs` | lending a closure to a thread that outlives it |

mod pool;
mod portions;
mod share;
#[allow(unsafe_code, reason = "the borrow checker can't follow a closure into a sleeping thread")]
mod sys;

use evener_core::{
    Cipher, Engine, EngineError, InPlaceJob, Job, Kind, Outcome, Rejection, Session,
    SessionRequest, wipe,
};

pub use pool::Pool;
use portions::{can_be_cut, portions, portions_in_place, runs};
use share::share;

/// Processes one message, like a session that `engine` opens for the request, on as many
/// threads as are worth it.
///
/// Messages in ECB and CTR, and in CBC when they are decrypted, are cut at block boundaries; a CTR
/// counter is carried over all 128 bits. The calling thread processes all other messages, which
/// can't be cut, and those that take less time than waking another thread.
///
/// # Errors
/// As [`Session::process`], if the engine failed on every thread. The job is pending then, and its
/// input is unchanged.
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
        // Parts of the output are in doubt, and the input is unchanged. The engine is out of
        // service, so another engine opens now, if any does.
        Err(EngineError::WrongResult { .. }) => {
            job.outcome = Outcome::Pending;
            drop(session);
            return engine.open(request)?.process(std::slice::from_mut(job));
        }
        Err(error) => return Err(error),
    };
    let written = job.output_length(cipher, direction);
    if matches!(outcome, Outcome::Rejected(_)) {
        // The caller must not see the portions before the rejected one.
        wipe(&mut job.output[..written]);
    }
    job.outcome = outcome;
    Ok(())
}

/// Processes one message and puts the result in its place, as [`process`].
///
/// # Errors
/// As `process_in_place` of `dyn Session`. If the engine failed on every one of several threads, the rest
/// of the message is scattered between the finished parts, and the job is rejected.
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
/// many threads as are worth it. No message is cut. `is_stopped` is called before each portion;
/// after it has returned true, no more jobs are begun.
///
/// # Errors
/// As [`Session::process`], if the engine failed on every thread. Jobs that are still pending were
/// not done.
pub fn process_batch(
    pool: &Pool,
    engine: &dyn Engine,
    request: &SessionRequest<'_>,
    batch: &mut [Job<'_>],
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(), EngineError> {
    let bytes = batch.iter().map(|job| job.input.len()).sum();
    let plan = pool.plan(bytes, engine, request);
    let mut session = engine.open(request)?;
    let pending: Vec<_> = batch.iter().map(|job| job.outcome == Outcome::Pending).collect();
    let done = {
        let mut runs = runs(plan.length, batch).take_while(|_| !is_stopped());
        if plan.threads == 1 {
            session.expect_output(plan.bytes);
            runs.try_for_each(|run| session.process(run)).and_then(|()| session.finish())
        } else {
            share(pool, plan, engine, request, &mut *session, runs).map(|_| ())
        }
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
        // The caller may choose more threads than the engine recommends, but an engine that serves
        // a limited number of sessions would fail the excess ones.
        let most = offer.and_then(|offer| offer.holders).unwrap_or(usize::MAX);
        let liked = offer.map_or(0, |offer| offer.bytes);
        let least = least_share(request.cipher).max(liked);
        let threads = self.threads().get().min(most).min(bytes / least).max(1);
        let share = bytes / (threads * PORTIONS_A_THREAD);
        let length = share.clamp(LEAST_PORTION, MOST_PORTION).max(liked);
        let length = length.checked_next_multiple_of(LEAST_PORTION).unwrap_or(length);
        // A module that works alone gains by large batches.
        let is_module = engine.description().kind == Kind::Module;
        let length = if threads == 1 && is_module { length.max(bytes) } else { length };
        Plan { threads, length, bytes }
    }
}

/// Processes a batch in one session, and lets the session verify it if it verifies at all.
fn alone(session: &mut dyn Session, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
    session.process(batch)?;
    session.finish()
}

/// The division of work.
#[derive(Clone, Copy)]
struct Plan {
    /// The length of the whole work.
    bytes: usize,
    threads: usize,
    /// The length of a portion, in bytes.
    length: usize,
}

const IN_DOUBT: Rejection = Rejection::Malformed("what replaced the message may be wrong");

const SCATTERED: Rejection =
    Rejection::Malformed("the engine failed when parts of the message had been replaced");

/// The least work that is worth waking a thread, in bytes: some ten microseconds' work. A core with
/// AES instructions does ten bytes a nanosecond and more; the other block ciphers take several
/// nanoseconds a byte.
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

/// The number of portions for each thread; it makes the threads end at about the same time.
const PORTIONS_A_THREAD: usize = 8;

/// The least portion, in bytes: whole pages and whole blocks. All portions are multiples of it.
const LEAST_PORTION: usize = 16 << 10;

/// The largest portion, in bytes: claiming it costs almost nothing, and it does not displace a
/// cache.
const MOST_PORTION: usize = 256 << 10;
