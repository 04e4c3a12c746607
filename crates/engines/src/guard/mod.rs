//! The guard: it checks the work of an engine that may fail, so that no data is lost.
//!
//! [`guard`] wraps an engine. The registry wraps every module. The guard passes jobs on unchanged
//! and handles every fault:
//!
//! | fault of the engine | action of the guard |
//! |---|---|
//! | computes wrongly from the start | tests every new session with known answers |
//! | begins to compute wrongly | recomputes samples and compares (see `sampling`) |
//! | rejects a good message | recomputes every rejected job |
//! | returns too few bytes, or leaves a job undone | checks every outcome |
//! | hangs | abandons the thread on which the engine works (see `deadline`) |
//! | fails, disappears, panics | discards the results of the whole batch |
//!
//! After any of these the engine is out of service for all of its sessions. If the guard
//! [retreats](Watch::retreats), the reference engine processes the batch and all later jobs. Otherwise
//! the batch stays pending, and the caller gets the error and passes the batch to another engine.
//! [`Engine::account`] reports the counts.

mod deadline;
mod expense;
mod helper;
mod known_answers;
mod last;
mod left;
mod lending;
mod opening;
mod packing;
pub(crate) mod reference;
mod sampling;
mod service;
mod session;
mod sys;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Account, Cipher, Description, Direction, Engine, EngineError, Kind, Offer, Session,
    SessionRequest, WipedBuffer,
};

use deadline::HelperSession;
use lending::{Late, buffer_within};
use opening::Brief;
use service::Service;
use session::{Fault, GuardedSession};

/// Settings of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// One job in this many, chosen at random, is recomputed on the reference engine and compared.
    /// The first and the last job of every session and jobs with
    /// [`Verification::Wanted`](evener_core::Verification::Wanted) are verified in addition. 1
    /// means every job, 0 none. `None` means none for CPU engines, and for modules every job as
    /// long as recomputing them takes at most 5 % of the time that the module takes; otherwise one
    /// in 1,000.
    pub verify_every: Option<u64>,
    /// The time limit for opening a session of a module and for a batch; each 64 KiB of messages adds
    /// a second. It costs two wake-ups per batch, and two copies of the data
    /// where the engine does not [lend memory](Engine::buffer). `None` is for engines that can't
    /// hang, and for benchmarks. Then only a module's first session is opened with a time limit,
    /// that of [`Watch::default`].
    pub deadline: Option<Duration>,
    /// True if the reference engine takes over after the engine failed. Otherwise the session
    /// fails, for callers with other engines.
    pub retreats: bool,
}

impl Watch {
    /// The default for modules whose jobs take the reference engine long: one in this many.
    pub const USUAL: u64 = 1_000;

    /// For benchmarks, which measure the engine alone: the guard recomputes no job, and the
    /// reference engine processes none. Sessions are still tested with known answers.
    pub fn of_a_benchmark() -> Watch {
        Watch { verify_every: Some(0), deadline: None, retreats: false }
    }

    /// For runs, in which other workers take over the jobs of an engine that failed.
    pub fn of_a_run(verify_every: Option<u64>) -> Watch {
        Watch { verify_every, retreats: false, ..Watch::default() }
    }
}

impl Default for Watch {
    /// The default for modules: the time limit is half a minute, and after a failure the reference
    /// engine processes the jobs.
    fn default() -> Watch {
        Watch { verify_every: None, deadline: Some(Duration::from_secs(30)), retreats: true }
    }
}

/// Wraps an engine in a guard. `reference` is the trusted engine that recomputes results. No other
/// engine can recompute the results of one that [holds its key](Engine::holds_key), so only their
/// lengths are checked.
pub fn guard(engine: Arc<dyn Engine>, reference: Arc<dyn Engine>, watch: Watch) -> Arc<dyn Engine> {
    let service = Arc::new(Service::new(engine.description().name.clone()));
    Arc::new(Guarded { engine, reference, watch, service, brief: Brief::default() })
}

/// Wraps an engine of the registry in a new guard with other settings and an empty account. A
/// module that is out of service is tested again and returns to service. A CPU engine is wrapped
/// only if `watch` sets `verify_every`; the reference, `openssl`, never. (In a build without OpenSSL
/// the reference is `lanes`.)
///
/// # Errors
/// When the reference engine is not available.
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
    let is_trusted =
        description.kind == Kind::Cpu && (watch.verify_every.is_none() || is_reference(engine));
    if is_trusted {
        return Ok(Arc::clone(engine));
    }
    Ok(guard(Arc::clone(engine), reference::engine()?, watch.of_kind(description.kind)))
}

/// Returns whether this is the registry's own reference engine, not another of the same name.
fn is_reference(engine: &Arc<dyn Engine>) -> bool {
    reference::engine().is_ok_and(|own| std::ptr::addr_eq(Arc::as_ptr(engine), Arc::as_ptr(&own)))
}

/// Returns whether an engine has a guard.
pub fn is_watched(engine: &Arc<dyn Engine>) -> bool {
    let any: &dyn Any = &**engine;
    any.is::<Guarded>()
}

/// The engine with a guard that never retreats, for the engine's own tests; `None` if it has no
/// guard that retreats. `most` limits the guard's time limit, if it has one.
pub(crate) fn alone(engine: &dyn Engine, most: Duration) -> Option<Arc<dyn Engine>> {
    let any: &dyn Any = engine;
    let guarded = any.downcast_ref::<Guarded>().filter(|guarded| guarded.watch.retreats)?;
    let deadline = guarded.watch.deadline.map(|deadline| deadline.min(most));
    let watch = Watch { retreats: false, verify_every: Some(0), deadline };
    Some(guard(Arc::clone(&guarded.engine), Arc::clone(&guarded.reference), watch))
}

impl Watch {
    /// A CPU engine has no driver that can hang, so it needs no deadline.
    fn of_kind(self, kind: Kind) -> Watch {
        Watch { deadline: self.deadline.filter(|_| kind == Kind::Module), ..self }
    }
}

struct Guarded {
    engine: Arc<dyn Engine>,
    reference: Arc<dyn Engine>,
    watch: Watch,
    service: Arc<Service>,
    brief: Brief,
}

impl Guarded {
    /// Opens a session and tests it, if it can be tested; `None` if it gave a wrong answer.
    fn open_unguarded(
        &self,
        request: &SessionRequest<'_>,
        reference: Option<&Arc<dyn Engine>>,
    ) -> Result<Option<Box<dyn Session>>, EngineError> {
        if let Some(deadline) = self.watch.deadline {
            let session = self.open_on_thread(request, reference, deadline)?;
            return Ok(session.map(|session| Box::new(session) as Box<dyn Session>));
        }
        let mut session = self.engine.open(request)?;
        let Some(reference) = reference else { return Ok(Some(session)) };
        match known_answers::are_right(&mut *session, &**reference, request) {
            Ok(are_right) => Ok(are_right.then_some(session)),
            Err(error @ EngineError::Unavailable { .. }) => Err(error),
            Err(error) => Err(self.service.end(error)),
        }
    }

    /// A session on a thread of its own, where it works and is closed.
    fn open_on_thread(
        &self,
        request: &SessionRequest<'_>,
        reference: Option<&Arc<dyn Engine>>,
        deadline: Duration,
    ) -> Result<Option<HelperSession>, EngineError> {
        let opened = opening::open(&self.engine, reference, request, deadline, &self.brief)?;
        opened
            .map(|session| HelperSession::start(&self.engine, session, request, deadline))
            .transpose()
    }

    /// The engine that recomputes results, if any can.
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
        self.check_that_it_answers(request)?;
        let reference = has_reference.then_some(&self.reference);
        let opened = self.open_unguarded(request, reference).map_err(|error| match error {
            EngineError::Failed { .. } => self.service.end(error),
            error => error,
        })?;
        let Some(session) = opened else {
            let fault = Fault::KnownAnswer { unverified: self.service.unverified() };
            return Err(self.service.end(fault.into()));
        };
        self.service.serves();
        Ok(session)
    }

    /// Opens and closes a session with the usual time limit, if sessions have none and none was opened
    /// yet.
    fn check_that_it_answers(&self, request: &SessionRequest<'_>) -> Result<(), EngineError> {
        let is_module = self.engine.description().kind == Kind::Module;
        if !is_module || self.watch.deadline.is_some() || self.service.has_served() {
            return Ok(());
        }
        let Some(usual) = Watch::default().deadline else { return Ok(()) };
        let opened = self.open_on_thread(request, None, usual);
        opened.map(drop).map_err(|error| match error {
            EngineError::Failed { .. } => self.service.end(error),
            error => error,
        })
    }

    /// Returns whether to use the reference engine instead when opening fails with `error`.
    fn retreats_from(&self, error: &EngineError) -> bool {
        let is_fault = match error {
            EngineError::Failed { .. } | EngineError::WrongResult { .. } => true,
            // The caller must learn that it was never available.
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
            Err(error) => return Err(error.of(self.service.engine())),
        };
        let service = Arc::clone(&self.service);
        let guarded = GuardedSession::new(session, reference, request, self.watch, service);
        Ok(Box::new(guarded))
    }

    fn holds_key(&self) -> bool {
        self.engine.holds_key()
    }

    fn buffer(&self, bytes: usize) -> Option<WipedBuffer> {
        self.service.check().ok()?;
        match self.watch.deadline {
            None => self.engine.buffer(bytes),
            Some(deadline) => match buffer_within(&self.engine, bytes, deadline) {
                Ok(buffer) => buffer,
                Err(Late) => {
                    let seconds = deadline.as_secs_f64();
                    let reason = format!("it gave no memory within {seconds} s");
                    self.service.end(EngineError::failed(reason));
                    None
                }
            },
        }
    }

    fn account(&self) -> Option<Account> {
        Some(self.service.account())
    }
}
