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

mod clock;
mod device;
mod probe;
mod processor;
mod session;
mod troubled;

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
pub use troubled::{Troubled, Troubles};

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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn profile(engines: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let head = r#""machine": "board", "cores": 1, "cipher": "aes-128-cbc""#;
        write!(file, r#"{{{head}, "engines": [{engines}]}}"#).unwrap();
        file
    }

    fn find_here(parameters: &str) -> Result<Arc<dyn Engine>, EngineError> {
        find(parameters, evener_engines::find("openssl")?, |text| println!("{text}"))
    }

    const ENGINES: &str = r#"
        {"name": "cpu", "kind": "cpu", "depth": 1, "points": [
            {"bytes": 16, "wall_us": 20, "cpu_us": 20},
            {"bytes": 65536, "wall_us": 200, "cpu_us": 200}]},
        {"name": "module", "kind": "module", "depth": 2, "points": [
            {"bytes": 16, "wall_us": 60, "cpu_us": 25},
            {"bytes": 65536, "wall_us": 200, "cpu_us": 60}],
            "points_at_depth": [{"bytes": 16, "wall_us": 90, "cpu_us": 25}]}"#;

    #[test]
    fn modelled_engines_conform() {
        let file = profile(ENGINES);
        for name in ["cpu", "module"] {
            let selector = format!("model:{}#{name}", file.path().display());
            let engine = find_here(selector.strip_prefix("model:").unwrap()).unwrap();
            assert_eq!(engine.description().name, selector);
            assert_eq!(engine.description().detail, format!("model of board's {name}"));
            evener_engines::conformance::run(&*engine).assert_passed();
        }
    }

    #[test]
    fn what_is_not_in_the_profile_is_not_there() {
        let file = profile(ENGINES);
        let path = file.path().display();
        let reason = |parameters: String| match find_here(&parameters) {
            Ok(_) => panic!("found {parameters}"),
            Err(error) => error.to_string(),
        };
        assert!(reason(format!("{path}#gpu")).contains("cpu, module"));
        assert!(reason(path.to_string()).contains("FILE#NAME"));
        assert!(reason("/nowhere#cpu".to_owned()).contains("/nowhere"));
        let empty = profile("");
        assert!(reason(format!("{}#cpu", empty.path().display())).contains("malformed"));
    }
}
