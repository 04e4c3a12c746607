//! The CPU cores as one engine: each batch goes to the faster one of `openssl` and `lanes`.
//!
//! | file | holds |
//! |---|---|
//! | `crossover.rs` | which batches go to `lanes` |
//! | `calibrate.rs` | measures this on the present machine |
//! | `kept.rs` | the file with the measured crossovers |
//! | `session.rs` | a session of each, and the choice between them |

mod calibrate;
mod crossover;
mod kept;
mod session;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use evener_core::{
    Account, Cipher, Description, Direction, Engine, EngineError, Offer, Session, SessionRequest,
    WipedBuffer,
};
use evener_lanes::Kernel;

use crate::probing::Found;
use crate::{lanes, openssl};
pub use crossover::{Crossover, Crossovers};
use kept::MeasuredOn;
pub use kept::{cache_directory, processor};
use session::CpuSession;

/// Finds the engine, with the crossovers measured on this processor with this build, or else the
/// built-in ones.
pub(crate) fn probe(parameters: &str) -> Found {
    if !parameters.is_empty() {
        return Err(unavailable(format!("it takes no parameters, such as `{parameters}`")));
    }
    let openssl = openssl::reference()?;
    let Ok(lanes) = find_lanes("") else {
        return Ok(vec![Arc::new(CpuEngine::new(openssl, None, Crossovers::default()))]);
    };
    let kept = kept::path().and_then(|path| {
        let here = || MeasuredOn::here(&*openssl, &*lanes);
        kept::load(&path, here)
    });
    let kernel = lanes::kernel(&*lanes).map_or("", Kernel::name);
    let crossovers = kept.unwrap_or_else(|| Crossovers::built_in(kernel));
    Ok(vec![Arc::new(CpuEngine::new(openssl, Some(lanes), crossovers))])
}

/// Measures, for every cipher of `lanes`, the batches for which it is faster than `openssl`, by CPU
/// time, in at most 50 ms per cipher. `kernel` is the KERNEL of `lanes:KERNEL`; empty for the
/// fastest.
///
/// # Errors
/// When one of the two is not available, or fails.
pub fn calibrate(kernel: &str) -> Result<Crossovers, EngineError> {
    calibrate::run(&*openssl::reference()?, &*find_lanes(kernel)?)
}

/// Saves crossovers of the fastest kernel for later programs of this user, on this processor and
/// with this build. Returns the path of the file.
///
/// # Errors
/// When the file can't be written, or the engines are not available.
pub fn keep(crossovers: &Crossovers) -> io::Result<PathBuf> {
    let Some(path) = kept::path() else {
        return Err(io::Error::other("there is no home directory to keep them in"));
    };
    let openssl = openssl::reference().map_err(io::Error::other)?;
    let lanes = find_lanes("").map_err(io::Error::other)?;
    kept::save(&path, MeasuredOn::here(&*openssl, &*lanes), crossovers)?;
    Ok(path)
}

fn find_lanes(kernel: &str) -> Result<Arc<dyn Engine>, EngineError> {
    let found = lanes::probe(kernel)?;
    found.into_iter().next().ok_or_else(|| unavailable("nothing was found".to_owned()))
}

fn unavailable(reason: String) -> EngineError {
    EngineError::unavailable(reason).of(NAME)
}

struct CpuEngine {
    description: Description,
    openssl: Arc<dyn Engine>,
    lanes: Option<Arc<dyn Engine>>,
    crossovers: Crossovers,
}

impl CpuEngine {
    fn new(
        openssl: Arc<dyn Engine>,
        lanes: Option<Arc<dyn Engine>>,
        crossovers: Crossovers,
    ) -> CpuEngine {
        let mut detail = openssl.description().detail.clone();
        if let Some(lanes) = &lanes {
            detail = format!("{detail}; lanes: {}", lanes.description().detail);
        }
        let description = Description::cpu(NAME).detail(detail);
        CpuEngine { description, openssl, lanes, crossovers }
    }

    /// `lanes` and its crossovers; `None` if it is never faster.
    fn lanes_for(&self, cipher: Cipher, direction: Direction) -> Option<(&dyn Engine, Crossover)> {
        let lanes = self.lanes.as_deref()?;
        let crossover = self.crossovers.get(cipher, direction);
        let offers = lanes.offer(cipher, direction).is_some() && crossover != Crossover::NEVER;
        offers.then_some((lanes, crossover))
    }
}

#[deny(clippy::missing_trait_methods, reason = "what is not passed on would be lost here")]
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
        match self.lanes_for(request.cipher, request.direction) {
            None => self.openssl.open(request),
            Some((lanes, Crossover::ALWAYS)) => lanes.open(request),
            Some((lanes, crossover)) => {
                let (openssl, lanes) = (self.openssl.open(request)?, lanes.open(request)?);
                Ok(Box::new(CpuSession::new(openssl, lanes, crossover)))
            }
        }
    }

    fn holds_key(&self) -> bool {
        false
    }

    fn buffer(&self, _bytes: usize) -> Option<WipedBuffer> {
        None
    }

    fn account(&self) -> Option<Account> {
        None
    }
}

pub(crate) const NAME: &str = "cpu";
