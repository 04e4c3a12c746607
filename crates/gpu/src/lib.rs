//! Evener's engine for a GPU, through the CUDA driver or OpenCL.
//!
//! [`find`] makes an [`Engine`] of a device. Two things beside the engine use a device directly:
//! [`resident`] seals and opens texts that stay in its memory, and [`ceilings`] measures it. The
//! engine has no guard of its own; the registry of `evener-engines` wraps it in one.
//!
//! `gpu` is the first real GPU; CUDA devices come before OpenCL ones. `gpu:BACKEND:DEVICE` names
//! one by its number or by a part of its name or its driver's, as in `gpu:cuda:0` and
//! `gpu:opencl:pocl`. A device that computes on the processor's cores is used only when it is
//! named.
//!
//! | file | holds |
//! |---|---|
//! | `bay.rs` | packs a part of a batch, has it computed, unpacks |
//! | `ceilings/` | the limits of a device and its bus, for benchmarks |
//! | `cuda/`, `opencl/` | the backends |
//! | `device.rs` | the engine's interface to a backend |
//! | `kernels/` | the source of the device's kernels |
//! | `lent/` | page-locked memory for workers' buffers |
//! | `plan/` | the layout of a batch in memory |
//! | `steps.rs` | the kernels that a part of a batch needs |
//! | `resident/` | texts that stay in a device's memory |
//! | `session.rs` | divides a batch between two bays |
//! | `straight.rs` | the messages that are not packed |
//! | `sys.rs` | copies between memory of the host and a device |

mod bay;
pub mod ceilings;
mod cuda;
mod device;
mod kernels;
mod lent;
mod opencl;
mod plan;
mod probe;
pub mod resident;
mod session;
mod steps;
mod straight;
mod sys;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Offer, Session, SessionRequest,
    WipedBuffer,
};

use device::Device;
use lent::Lending;
use session::GpuSession;

/// Finds the device that a selector names: `gpu`, the first real GPU, or `gpu:BACKEND:DEVICE`. The
/// engine has the selector as its name.
///
/// The engine gives memory back to the driver on a thread of its own, on which it calls
/// `begin_thread` first.
///
/// # Errors
/// [`EngineError::Unavailable`] when there is no such device.
pub fn find(selector: &str, begin_thread: fn()) -> Result<Arc<dyn Engine>, EngineError> {
    let engine = selector.to_owned();
    match probe::device(selector) {
        Ok(device) => Ok(Arc::new(GpuEngine::new(engine, device, begin_thread))),
        Err(reason) => Err(EngineError::unavailable(reason).of(selector)),
    }
}

struct GpuEngine {
    description: Description,
    device: Arc<dyn Device>,
    lending: Arc<Lending>,
}

impl GpuEngine {
    fn new(name: String, device: Arc<dyn Device>, begin_thread: fn()) -> GpuEngine {
        let properties = device.properties();
        let (backend, mebibytes) = (properties.backend, properties.memory >> 20);
        let detail = format!(
            "{}, {mebibytes} MiB, {} units, {backend}:{}, {}",
            properties.name, properties.units, properties.index, properties.driver
        );
        let description = Description::module(name).detail(detail);
        GpuEngine { description, device, lending: Lending::new(straight::LEAST, begin_thread) }
    }
}

impl Engine for GpuEngine {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, _direction: Direction) -> Option<Offer> {
        steps::performs(cipher)
            .then_some(Offer::new(DEPTH).batch(BATCH).bytes(BYTES).opening(OPENING))
    }

    fn buffer(&self, bytes: usize) -> Option<WipedBuffer> {
        let pinned = self.device.pin(bytes).ok()?;
        Some(self.lending.lend(pinned))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let engine = &self.description.name;
        let &SessionRequest { cipher, direction, .. } = request;
        if self.offer(cipher, direction).is_none() {
            return Err(EngineError::not_offered(cipher, direction).of(engine));
        }
        Ok(Box::new(GpuSession::open(engine, &self.device, &self.lending, request)?))
    }
}

/// While one worker's batch is computed, other workers pack, unpack and copy.
const DEPTH: usize = 4;

/// The time in which a driver loads and compiles the kernels for its device: 0.3 s on two cores
/// with PoCL, 0.1 to 0.4 s for a cipher on an H100 without compiled kernels.
const OPENING: Duration = Duration::from_millis(500);

/// Messages of 16 KiB fill a part of an arena.
const BATCH: usize = 256;

/// Bytes of a batch: copies and kernels of some MiB take long compared with starting them.
const BYTES: usize = 4 << 20;

/// The selector of the first GPU, with which all others begin.
pub const NAME: &str = "gpu";
