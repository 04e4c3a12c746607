//! Models an engine of another machine from that machine's profile.
//!
//! `model:FILE#NAME` is the engine called NAME of the profile in FILE. It encrypts with another
//! engine and takes the profile's time for a message of that length: the calling thread is busy for
//! the profile's CPU time and asleep for the rest, while the modelled device works. It offers only
//! the profile's cipher and direction.
//!
//! A module is one device for all sessions of this process, with as many slots as its depth;
//! further jobs queue. The mean time over jobs is accurate to a few percent for costs of 20 µs and
//! more. A sleep that was too long or too short is corrected with the next job. If the real work
//! takes longer than the modelled time, the engine reports that once.
//!
//! Costs of whole runs ([`Includes::Queue`]) include a worker's time between two jobs. So the
//! thread's CPU time since its previous job counts as part of the next job's CPU time; otherwise
//! the queue would be counted twice.

pub(crate) mod clock;
mod device;
mod probe;
mod processor;
mod session;

use std::fmt::Display;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, EngineProfile, Includes, Kind, Offer,
    Session, SessionRequest,
};

use clock::Sleep;
use device::Device;
pub use processor::Processor;
use session::ModelSession;

/// The name by which `--engine` selects a model.
pub const NAME: &str = "model";

/// Finds the engine that the parameters `FILE#NAME` name. `inner` does the work; `complain` reports
/// that this takes longer than the modelled time.
///
/// # Errors
/// [`EngineError::Unavailable`] when the profile can't be read or has no such engine.
pub fn find(
    parameters: &str,
    inner: Arc<dyn Engine>,
    complain: fn(&dyn Display),
) -> Result<Arc<dyn Engine>, EngineError> {
    let name = format!("{NAME}:{parameters}");
    let model =
        probe::read(parameters).map_err(|reason| EngineError::unavailable(reason).of(&name))?;
    Ok(Arc::new(ModelEngine::new(name, model, inner, complain)))
}

struct ModelEngine {
    description: Description,
    cipher: Cipher,
    direction: Direction,
    inner: Arc<dyn Engine>,
    shared: Arc<Shared>,
}

/// The state that the sessions of an engine share.
struct Shared {
    /// The engine's name.
    name: String,
    direction: Direction,
    costs: EngineProfile,
    /// The scope of the costs.
    includes: Includes,
    /// Costs with all slots in use; `None` if they are the same.
    costs_when_full: Option<EngineProfile>,
    device: Device,
    sleep: Sleep,
    /// True once the engine has reported that the real work takes longer.
    is_known_late: AtomicBool,
    complain: fn(&dyn Display),
}

impl ModelEngine {
    fn new(
        name: String,
        model: probe::Model,
        inner: Arc<dyn Engine>,
        complain: fn(&dyn Display),
    ) -> ModelEngine {
        let probe::Model { machine, cipher, direction, includes, engine } = model;
        let detail = match engine.detail.as_str() {
            "" => format!("model of {}'s {}", machine, engine.name),
            detail => format!("model of {}'s {} ({detail})", machine, engine.name),
        };
        ModelEngine {
            description: Description::new(name.clone(), engine.kind).detail(detail),
            cipher,
            direction,
            inner,
            shared: Arc::new(Shared {
                name,
                direction,
                includes,
                costs_when_full: (!engine.points_at_depth.is_empty()).then(|| EngineProfile {
                    points: engine.points_at_depth.clone(),
                    ..engine.clone()
                }),
                device: Device::new(engine.depth),
                sleep: Sleep::calibrate(),
                costs: engine,
                is_known_late: AtomicBool::new(false),
                complain,
            }),
        }
    }
}

impl Engine for ModelEngine {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        let EngineProfile { depth, batch, bytes, .. } = self.shared.costs;
        // A modelled CPU engine keeps this machine's cores busy.
        let is_cpu = self.description.kind == Kind::Cpu;
        let depth = if is_cpu { cores() } else { depth };
        let is_modelled = cipher == self.cipher && direction == self.direction;
        is_modelled.then_some(Offer::new(depth).batch(batch).bytes(bytes))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let &SessionRequest { cipher, direction, .. } = request;
        if self.offer(cipher, direction).is_none() {
            return Err(EngineError::not_offered(cipher, direction).of(&self.description.name));
        }
        let inner = self.inner.open(request)?;
        Ok(Box::new(ModelSession::new(inner, Arc::clone(&self.shared))))
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}
