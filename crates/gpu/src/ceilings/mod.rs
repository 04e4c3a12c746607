//! The separate speeds of a device, its bus and its kernels, for benchmarks: without sessions,
//! without packing, and the kernels without copies.
//!
//! | file | holds |
//! |---|---|
//! | `copies.rs` | copies between page-locked memory and the device |
//! | `kernels.rs` | kernels on texts in the device's memory |
//! | `shared.rs` | look-ups in shared memory |

mod copies;
mod kernels;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use copies::Copies;
pub use kernels::Texts;
pub use shared::Lookups;

use super::device::Device;
use super::probe;

/// A device, without the engine.
pub struct Bare {
    device: Arc<dyn Device>,
}

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Facts {
    /// `cuda` or `opencl`.
    pub backend: &'static str,
    /// As the driver prints it.
    pub name: String,
    /// The driver or platform with its version.
    pub driver: String,
    /// Its memory in bytes.
    pub memory: u64,
    /// Shared (OpenCL: local) memory of one work-group, in bytes.
    pub shared_memory: usize,
    /// Streaming multiprocessors, or compute units.
    pub units: usize,
    /// Their highest clock in MHz, from the driver; 0 if it does not report it.
    pub clock_mhz: usize,
    /// The cache before its memory in bytes, from the driver; 0 if it does not report it.
    pub cache: u64,
    /// True for a real GPU; false for a device that computes on the processor's cores.
    pub is_gpu: bool,
}

impl Bare {
    /// Finds the device that a selector names (`gpu`, `gpu:cuda:0`).
    ///
    /// # Errors
    /// The reason why there is no such device, as text.
    pub fn find(selector: &str) -> Result<Bare, String> {
        Ok(Bare { device: probe::device(selector)? })
    }

    /// The device's properties.
    pub fn facts(&self) -> Facts {
        let properties = self.device.properties().clone();
        Facts {
            backend: properties.backend,
            name: properties.name,
            driver: properties.driver,
            memory: properties.memory,
            shared_memory: properties.shared_memory,
            units: properties.units,
            clock_mhz: properties.clock,
            cache: properties.cache,
            is_gpu: properties.is_gpu,
        }
    }
}
