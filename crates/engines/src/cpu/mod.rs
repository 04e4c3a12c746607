//! The processor's cores as one engine: each batch goes to `openssl` or to `lanes`, whichever
//! is faster at it.
//!
//! | file | holds |
//! |---|---|
//! | `crossover.rs` | which batches go to `lanes` |
//! | `calibrate.rs` | the measurement of that on this machine |
//! | `session.rs` | a session of each, and the choice between them |

mod calibrate;
mod crossover;
mod session;

use std::sync::Arc;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Kind, Offer, Session, SessionRequest,
};

use crate::registry::Found;
use crate::{lanes, openssl};
pub use calibrate::calibrate;
pub use crossover::{Calibration, Crossover};
use session::CpuSession;

/// Finds the engine with the crossovers that are built in.
pub(crate) fn probe(parameters: &str) -> Found {
    if parameters.is_empty() {
        return Ok(vec![find(None)?]);
    }
    let reason = format!("it takes no parameters, such as `{parameters}`");
    Err(EngineError::Unavailable { engine: NAME.to_owned(), reason })
}

/// The engine of the processor's cores. Without a calibration, or with one of another processor
/// or build, it uses the crossovers that are built in for the kernel of `lanes`.
///
/// # Errors
/// [`EngineError::Unavailable`] when OpenSSL can't be loaded.
pub fn find(calibration: Option<&Calibration>) -> Result<Arc<dyn Engine>, EngineError> {
    let openssl = only(openssl::probe("")?)?;
    let lanes = lanes::probe("").and_then(only).ok();
    let calibration = calibration.filter(|known| known.is_of(&*openssl, lanes.as_deref()));
    let calibration =
        calibration.cloned().unwrap_or_else(|| Calibration::built_in(&*openssl, lanes.as_deref()));
    Ok(Arc::new(CpuEngine::new(openssl, lanes, calibration)))
}

fn only(found: Vec<Arc<dyn Engine>>) -> Result<Arc<dyn Engine>, EngineError> {
    let nothing = "nothing was found".to_owned();
    let unavailable = EngineError::Unavailable { engine: NAME.to_owned(), reason: nothing };
    found.into_iter().next().ok_or(unavailable)
}

struct CpuEngine {
    description: Description,
    openssl: Arc<dyn Engine>,
    lanes: Option<Arc<dyn Engine>>,
    calibration: Calibration,
}

impl CpuEngine {
    fn new(
        openssl: Arc<dyn Engine>,
        lanes: Option<Arc<dyn Engine>>,
        calibration: Calibration,
    ) -> CpuEngine {
        let mut detail = openssl.description().detail.clone();
        if let Some(lanes) = &lanes {
            detail = format!("{detail}; lanes: {}", lanes.description().detail);
        }
        let description = Description { name: NAME.to_owned(), kind: Kind::Cpu, detail };
        CpuEngine { description, openssl, lanes, calibration }
    }

    /// `lanes` and the batches that it is faster at, where there are such batches.
    fn lanes_for(&self, cipher: Cipher, direction: Direction) -> Option<(&dyn Engine, Crossover)> {
        let lanes = self.lanes.as_deref()?;
        let crossover = self.calibration.crossover(cipher, direction);
        let offers = lanes.offer(cipher, direction).is_some() && crossover != Crossover::NEVER;
        offers.then_some((lanes, crossover))
    }
}

impl Engine for CpuEngine {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        let lanes = self.lanes_for(cipher, direction);
        let lanes = lanes.and_then(|(lanes, _)| lanes.offer(cipher, direction));
        lanes.or_else(|| self.openssl.offer(cipher, direction))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let openssl = self.openssl.open(request)?;
        let Some((lanes, crossover)) = self.lanes_for(request.cipher, request.direction) else {
            return Ok(openssl);
        };
        Ok(Box::new(CpuSession::new(openssl, lanes.open(request)?, crossover)))
    }
}

pub(crate) const NAME: &str = "cpu";

#[cfg(test)]
mod tests;
