//! Engines that may fail, watched so that nothing is lost with them.
//!
//! [`guard`] puts a watch between an engine and its callers. The registry hands out no module
//! without one. It changes nothing about what the engine does; it sees to it that every fault
//! is met:
//!
//! | the engine | what is done about it |
//! |---|---|
//! | computes wrongly from the start | known answers are asked for when a session opens |
//! | begins to compute wrongly | jobs are computed again and compared (see `sampling`) |
//! | rejects a good message | every rejection is computed again |
//! | returns too few bytes, or leaves a job undone | every outcome is checked |
//! | hangs | it works on a thread of its own, which is left behind (see `deadline`) |
//! | fails, vanishes, panics | nothing of the batch is believed |
//!
//! After any of these the engine is out of service for all of its sessions. Where the watch
//! [retreats](Watch::retreats) the reference engine does the batch and all that follows;
//! otherwise the batch stays pending and the error goes to the caller, who has others to do it.
//! [`Engine::account`] tells what has happened.

mod deadline;
mod known_answers;
mod last;
mod parcel;
mod sampling;
mod service;
mod session;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Account, Cipher, Description, Direction, Engine, EngineError, Kind, Offer, Session,
    SessionRequest,
};

use deadline::HelperSession;
use service::Service;
use session::{Fault, GuardedSession};

/// How closely an engine is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// On the average one job in so many, drawn by lot, is computed again on the reference and
    /// compared, and so are the first and the last job of every session and those that
    /// [ask for it](evener_core::Verification::Wanted); 1 for every job, 0 for none. `None` is
    /// one in 1,000 of a module's jobs, and leaves engines that compute on the calling core
    /// alone.
    pub verify_every: Option<u64>,
    /// How long opening a session or one batch of a module may take. Costs two copies of the
    /// data and two wake-ups a batch; `None` for engines that can't hang.
    pub deadline: Option<Duration>,
    /// Whether the reference engine does what the engine fails to do. Otherwise sessions fail,
    /// for callers that have other engines.
    pub retreats: bool,
}

impl Watch {
    /// One job in so many when nothing else is asked for.
    pub const USUAL: u64 = 1_000;

    /// For benchmarks, which measure the engine alone: no job is computed again, and nothing is
    /// done elsewhere. Sessions are still tested with known answers.
    pub fn of_a_benchmark() -> Watch {
        Watch { verify_every: Some(0), deadline: None, retreats: false }
    }

    /// For runs whose other workers do what an engine fails to do.
    pub fn of_a_run(verify_every: Option<u64>) -> Watch {
        Watch { verify_every, retreats: false, ..Watch::default() }
    }
}

impl Default for Watch {
    /// What modules get: one job in 1,000, half a minute, and the reference engine after them.
    fn default() -> Watch {
        Watch { verify_every: None, deadline: Some(Duration::from_secs(30)), retreats: true }
    }
}

/// The engine, watched. `reference` computes what results should be: another engine, which is
/// trusted. Of an engine that [holds its key](Engine::holds_key) nobody else can compute the
/// results, so only their lengths are checked.
pub fn guard(engine: Arc<dyn Engine>, reference: Arc<dyn Engine>, watch: Watch) -> Arc<dyn Engine> {
    let service = Arc::new(Service::new(engine.description().name.clone()));
    Arc::new(Guarded { engine, reference, watch, service })
}

/// An engine that the registry found, watched in another way and as if it had done nothing yet;
/// a module that is out of service gets another chance, and another test. Engines that compute
/// on the calling core are watched where the watch says how often; `openssl` is what the others
/// are compared with.
///
/// # Errors
/// When the reference engine is not there.
pub fn watched(engine: &Arc<dyn Engine>, watch: Watch) -> Result<Arc<dyn Engine>, EngineError> {
    let any: &dyn Any = &**engine;
    if let Some(guarded) = any.downcast_ref::<Guarded>() {
        let (engine, reference) = (Arc::clone(&guarded.engine), Arc::clone(&guarded.reference));
        return Ok(match guarded.engine.description().kind {
            Kind::Cpu if watch.verify_every.is_none() => engine,
            kind => guard(engine, reference, watch.of_kind(kind)),
        });
    }
    let description = engine.description();
    let is_trusted = description.kind == Kind::Cpu
        && (watch.verify_every.is_none() || description.name == crate::openssl::NAME);
    if is_trusted {
        return Ok(Arc::clone(engine));
    }
    Ok(guard(Arc::clone(engine), crate::openssl::reference()?, watch.of_kind(description.kind)))
}

/// The engine as its own tests should see it, whose failures are not made good elsewhere; `None`
/// where nobody would.
pub(crate) fn alone(engine: &dyn Engine) -> Option<Arc<dyn Engine>> {
    let any: &dyn Any = engine;
    let guarded = any.downcast_ref::<Guarded>().filter(|guarded| guarded.watch.retreats)?;
    let watch = Watch { retreats: false, verify_every: Some(0), ..guarded.watch };
    Some(guard(Arc::clone(&guarded.engine), Arc::clone(&guarded.reference), watch))
}

impl Watch {
    /// Whoever computes on the calling core has no driver that hangs.
    fn of_kind(self, kind: Kind) -> Watch {
        Watch { deadline: self.deadline.filter(|_| kind == Kind::Module), ..self }
    }
}

struct Guarded {
    engine: Arc<dyn Engine>,
    reference: Arc<dyn Engine>,
    watch: Watch,
    service: Arc<Service>,
}

impl Guarded {
    fn open_unguarded(
        &self,
        request: &SessionRequest<'_>,
    ) -> Result<Box<dyn Session>, EngineError> {
        match self.watch.deadline {
            None => self.engine.open(request),
            Some(deadline) => Ok(Box::new(HelperSession::open(&self.engine, request, deadline)?)),
        }
    }

    /// What computes results again, where that can be done.
    fn open_reference(
        &self,
        request: &SessionRequest<'_>,
    ) -> Result<Option<Box<dyn Session>>, EngineError> {
        let offered = self.reference.offer(request.cipher, request.direction).is_some();
        if self.engine.holds_key() || !offered {
            return Ok(None);
        }
        self.reference.open(request).map(Some)
    }

    /// Opens a session of the engine and tests it.
    fn open_tested(
        &self,
        request: &SessionRequest<'_>,
        has_reference: bool,
    ) -> Result<Box<dyn Session>, EngineError> {
        self.service.check()?;
        let mut session = self.open_unguarded(request).map_err(|error| match error {
            EngineError::Failed { .. } => self.service.end(error),
            error => error,
        })?;
        if has_reference {
            match known_answers::are_right(&mut *session, &*self.reference, request) {
                Ok(true) => {}
                Ok(false) => {
                    let fault = Fault::KnownAnswer { unverified: self.service.unverified() };
                    return Err(self.service.end(fault.in_engine(self.service.engine())));
                }
                Err(error) => return Err(self.service.end(error)),
            }
        }
        self.service.serves();
        Ok(session)
    }

    /// Whether the reference engine is to be used instead, when opening fails with `error`.
    fn retreats_from(&self, error: &EngineError) -> bool {
        let is_fault = match error {
            EngineError::Failed { .. } | EngineError::WrongResult { .. } => true,
            // Whether it was ever there is for the caller to know.
            EngineError::Unavailable { .. } => self.service.has_served(),
            _ => false,
        };
        self.watch.retreats && is_fault
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
impl Engine for Guarded {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let reference = self.open_reference(request)?;
        let session = match self.open_tested(request, reference.is_some()) {
            Ok(session) => Some(session),
            Err(error) if reference.is_some() && self.retreats_from(&error) => {
                self.service.end(error);
                None
            }
            Err(error) => return Err(error),
        };
        let service = Arc::clone(&self.service);
        let guarded = GuardedSession::new(session, reference, request, self.watch, service);
        Ok(Box::new(guarded))
    }

    fn holds_key(&self) -> bool {
        self.engine.holds_key()
    }

    fn account(&self) -> Option<Account> {
        Some(self.service.account())
    }
}
