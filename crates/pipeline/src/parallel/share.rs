//! Portions, claimed by the threads of a pool.

use std::sync::{Mutex, MutexGuard};

use evener_core::{Engine, EngineError, IgnorePoison, Outcome, Session, SessionRequest};

use super::portions::Portion;
use super::{Plan, Pool};

/// Lets the calling thread, with `session`, and other threads of the pool, with their own sessions,
/// claim portions until there are none. Returns the outcome of the whole: done, with the total that
/// the portions have written, or rejected.
///
/// If a session fails a portion, another thread's session gets it, and the first thread leaves.
///
/// # Errors
/// All sessions have failed, or results of one are in doubt.
pub(super) fn share<P: Portion>(
    pool: &Pool,
    Plan { threads, bytes, .. }: Plan,
    engine: &dyn Engine,
    request: &SessionRequest<'_>,
    session: &mut dyn Session,
    portions: impl Iterator<Item = P> + Send,
) -> Result<Outcome, EngineError> {
    let (returned, outcome) = (Vec::new(), Outcome::Done { written: 0 });
    let pile = Pile(Mutex::new(State { portions, returned, outcome, cause: None, doubt: None }));
    let work_off = |session: &mut dyn Session| {
        let worked = pile.work_off(session, engine).and_then(|()| session.finish());
        if let Err(cause) = worked {
            pile.state().fail(cause);
        }
    };
    // If a helper can't open a session, the other threads do its part.
    let help = || {
        if let Ok(mut session) = engine.open(request) {
            session.expect_output(bytes);
            work_off(&mut *session);
        }
    };
    session.expect_output(bytes);
    pool.run(threads, &help, || work_off(session));
    if !pile.state().returned.is_empty() {
        work_off(session);
    }
    let state = pile.0.into_inner().ignore_poison();
    match (state.doubt, state.cause) {
        (Some(doubt), _) => Err(doubt),
        (None, Some(cause)) if !state.returned.is_empty() => Err(cause),
        _ => Ok(state.outcome),
    }
}

/// The remaining portions, and the outcome of the finished ones.
struct Pile<P, I>(Mutex<State<P, I>>);

struct State<P, I> {
    portions: I,
    /// Portions that a session failed.
    returned: Vec<P>,
    outcome: Outcome,
    /// The most recent session failure.
    cause: Option<EngineError>,
    /// The failure of a session that computed wrong results after other results were passed on.
    doubt: Option<EngineError>,
}

impl<P, I> State<P, I> {
    fn fail(&mut self, cause: EngineError) {
        if let EngineError::WrongResult { unverified: 1.., .. } = cause {
            self.doubt = Some(cause.clone());
        }
        self.cause = Some(cause);
    }
}

impl<P: Portion, I: Iterator<Item = P>> Pile<P, I> {
    /// Claims and performs portions until none is left.
    fn work_off(&self, session: &mut dyn Session, engine: &dyn Engine) -> Result<(), EngineError> {
        while let Some(mut portion) = self.claim() {
            let performed = portion.perform(session);
            let outcome = portion.outcome();
            if performed.is_err() || outcome == Outcome::Pending {
                self.state().returned.push(portion);
            }
            performed?;
            self.record(outcome, engine)?;
        }
        Ok(())
    }

    fn claim(&self) -> Option<P> {
        let mut state = self.state();
        state.returned.pop().or_else(|| state.portions.next())
    }

    fn record(&self, outcome: Outcome, engine: &dyn Engine) -> Result<(), EngineError> {
        let mut state = self.state();
        match (outcome, &mut state.outcome) {
            (Outcome::Done { written }, Outcome::Done { written: sum }) => *sum += written,
            (Outcome::Rejected(_), whole) => *whole = outcome,
            (Outcome::Done { .. }, _) => {}
            (Outcome::Pending, _) => {
                return Err(EngineError::failed("it left a job undone and did not say why")
                    .of(&engine.description().name));
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State<P, I>> {
        // The portion of a thread that panicked is lost; the panic continues in the caller.
        self.0.lock().ignore_poison()
    }
}
