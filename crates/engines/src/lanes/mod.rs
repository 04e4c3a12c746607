//! AES on the calling core, many messages side by side in SIMD registers.
//!
//! CBC encryption is serial within a message, so one message uses only a fraction of a core's AES
//! units. This engine encrypts 8 to 32 messages at once (the crate `evener-lanes` has
//! measurements). Modes with independent blocks use the widest registers. For short GCM messages,
//! several messages share the fixed work of each message. The kernel is chosen when the engine is
//! probed. On a CPU without AES instructions, or on ARMv7 without NEON, the engine is absent.

mod probe;
mod self_test;
mod session;
#[cfg(all(test, feature = "openssl"))]
mod tests;

#[cfg(feature = "openssl")]
use std::any::Any;
use std::sync::Arc;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Mode, Offer, Session, SessionRequest,
};

use evener_lanes::Kernel;

use crate::cores;
use session::LanesSession;

pub use evener_lanes::Arena;
pub(crate) use probe::probe;

struct LanesEngine {
    description: Description,
    kernel: Kernel,
    depth: usize,
}

impl LanesEngine {
    fn new(name: String, detail: String, kernel: Kernel) -> LanesEngine {
        let description = Description::cpu(name).detail(detail);
        LanesEngine { description, kernel, depth: cores::available_cores() }
    }
}

impl Engine for LanesEngine {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        // Four rows, so that messages of mixed lengths can be grouped by length: a message of 1 to
        // 512 bytes takes 50 ns, with two rows 75 ns, and with 8 rows 40 ns. More rows would keep
        // more files open, because a tree's files are open during their batch. The other modes need
        // only a few messages to amortise a call.
        let batch = match (cipher.mode(), direction) {
            (Mode::Cbc, Direction::Encrypt) => 4 * self.kernel.lanes(),
            _ => 16,
        };
        self.kernel.does(cipher, direction).then_some(Offer::new(self.depth).batch(batch))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(LanesSession::open(&self.description.name, self.kernel, request)?))
    }
}

/// The engine with the fastest kernel.
///
/// # Errors
/// [`EngineError::Unavailable`] on a CPU that can run no kernel.
pub fn engine() -> Result<Arc<dyn Engine>, EngineError> {
    let absent = || EngineError::unavailable("nothing was found").of(NAME);
    probe("")?.into_iter().next().ok_or_else(absent)
}

/// The kernel of an engine, if it is this one.
#[cfg(feature = "openssl")]
pub(crate) fn kernel(engine: &dyn Engine) -> Option<Kernel> {
    let any: &dyn Any = engine;
    any.downcast_ref::<LanesEngine>().map(|lanes| lanes.kernel)
}

pub(crate) const NAME: &str = "lanes";
