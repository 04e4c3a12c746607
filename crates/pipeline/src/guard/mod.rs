//! Engines that may fail, watched so that nothing is lost with them.
//!
//! [`guard`] puts a watch between an engine and its workers. It changes nothing about what
//! the engine does; it sees to it that every fault ends as an [`EngineError`] with the jobs
//! still pending, which is what the other workers need to do them:
//!
//! | the engine | what is done about it |
//! |---|---|
//! | computes wrongly from the start | known answers are asked for when a session opens |
//! | begins to compute wrongly | one job in [`Watch::verify_every`] is computed again and compared |
//! | rejects a good message | every rejection is computed again |
//! | returns too few bytes, or leaves a job undone | every outcome is checked |
//! | hangs | it works on a thread of its own, which is left behind (see [`deadline`]) |
//! | fails, vanishes, panics | the whole batch stays pending |
//!
//! After any of these the engine is out of service for all of its workers.

mod deadline;
mod known_answers;
mod parcel;
mod service;
mod session;

use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Offer, Session, SessionRequest,
};

use deadline::HelperSession;
use service::Service;
use session::{Fault, GuardedSession};

/// How closely an engine is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The first job of every session, and one job in so many, is computed again on the
    /// reference and compared; 0 for none.
    pub verify_every: u64,
    /// How long opening a session or one batch may take. Costs two copies of the data and two
    /// wake-ups a batch; `None` for engines that can't hang.
    pub deadline: Option<Duration>,
}

impl Default for Watch {
    /// What modules get: one job in 1,000, and half a minute.
    fn default() -> Watch {
        Watch { verify_every: 1_000, deadline: Some(Duration::from_secs(30)) }
    }
}

/// The engine, watched. `reference` computes what results should be: another engine, which is
/// trusted. Of an engine that [holds its key](Engine::holds_key) nobody else can compute the
/// results, so only their lengths are checked.
pub fn guard(engine: Arc<dyn Engine>, reference: Arc<dyn Engine>, watch: Watch) -> Arc<dyn Engine> {
    let service = Arc::new(Service::new(engine.description().name.clone()));
    Arc::new(Guarded { engine, reference, watch, service })
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
}

impl Engine for Guarded {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        self.service.check()?;
        let mut session = self.open_unguarded(request)?;
        let reference = self.open_reference(request)?;
        if reference.is_some() {
            let tested = known_answers::are_right(&mut *session, &*self.reference, request);
            match tested {
                Ok(true) => {}
                Ok(false) => {
                    let failed = Fault::KnownAnswer.in_engine(self.service.engine());
                    return Err(self.service.end(failed));
                }
                Err(error) => return Err(self.service.end(error)),
            }
        }
        Ok(Box::new(GuardedSession::new(
            session,
            reference,
            request,
            self.watch.verify_every,
            Arc::clone(&self.service),
        )))
    }

    fn holds_key(&self) -> bool {
        self.engine.holds_key()
    }
}
