//! A GPU, through the CUDA driver or OpenCL.
//!
//! `gpu` is the first real GPU; CUDA devices come before OpenCL ones. `gpu:BACKEND:DEVICE` names
//! one by its number or by a part of its name or its driver's, as in `gpu:cuda:0` and
//! `gpu:opencl:pocl`. A device that computes on the processor's cores is used only when it is
//! named.
//!
//! | file | holds |
//! |---|---|
//! | `ceilings/` | the limits of a device and its bus, for benchmarks |
//! | `cuda/`, `opencl/` | the backends |
//! | `device.rs` | the engine's interface to a backend |
//! | `kernels/` | the source of the device's kernels |
//! | `lent.rs` | page-locked memory for workers' buffers |
//! | `plan.rs` | the layout of a batch in memory |
//! | `steps.rs` | the kernels that a part of a batch needs |
//! | `resident/` | texts that stay in a device's memory |
//! | `session.rs` | packs, starts, waits, unpacks |
//! | `straight.rs` | the messages that are not packed |

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
#[cfg(all(test, feature = "openssl"))]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Offer, Session, SessionRequest,
    WipedBuffer,
};

use crate::probing;
use device::Device;
use lent::Lending;
use session::GpuSession;

/// Finds the device that the parameters name, or the first real GPU.
pub(crate) fn probe(parameters: &str) -> probing::Probe {
    let name = if parameters.is_empty() { NAME.into() } else { format!("{NAME}:{parameters}") };
    let parameters = parameters.to_owned();
    probing::one(move |_| match probe::device(&parameters) {
        Ok(device) => Ok(Arc::new(GpuEngine::new(name, device))),
        Err(reason) => Err(EngineError::unavailable(reason)),
    })
}

struct GpuEngine {
    description: Description,
    device: Arc<dyn Device>,
    lending: Arc<Lending>,
}

impl GpuEngine {
    fn new(name: String, device: Arc<dyn Device>) -> GpuEngine {
        let properties = device.properties();
        let (backend, mebibytes) = (properties.backend, properties.memory >> 20);
        let detail = format!(
            "{}, {mebibytes} MiB, {} units, {backend}:{}, {}",
            properties.name, properties.units, properties.index, properties.driver
        );
        let description = Description::module(name).detail(detail);
        GpuEngine { description, device, lending: Lending::new(straight::LEAST) }
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
/// with PoCL, 2.3 s on an H200 without compiled kernels.
const OPENING: Duration = Duration::from_millis(500);

/// Messages of 16 KiB fill a part of an arena.
const BATCH: usize = 256;

/// Bytes of a batch: copies and kernels of some MiB take long compared with starting them.
const BYTES: usize = 4 << 20;

const NAME: &str = "gpu";
