//! The backend for NVIDIA's GPUs: the CUDA driver, loaded at run time. No toolkit is needed.
//!
//! | file | holds |
//! |---|---|
//! | `driver/sys.rs` | the driver's functions |
//! | `sys.rs` | a device's context, and the calls |
//! | `stream/sys.rs` | a stream with its device memory |
//! | `words.rs` | the meaning of error codes |

mod driver;
mod stream;
mod sys;
#[cfg(test)]
pub(crate) mod tests;
mod words;

use std::ffi::CStr;
use std::sync::{Arc, Mutex};

use super::device::{Device, DeviceError, Found, Pinned, Properties, Stream};
use driver::{Driver, LIBRARY};
use evener_core::IgnorePoison;
use stream::CudaStream;
use sys::Context;
pub(super) use sys::wait_for;

/// The backend's part of the selector.
pub(super) const NAME: &str = "cuda";

/// All devices that can run the kernels, in the driver's order. The error is the reason why there
/// are none.
pub(super) fn devices() -> Found {
    found(LIBRARY, super::kernels::PTX)
}

fn found(library: &CStr, ptx: &'static str) -> Found {
    let words = |error: DeviceError| error.to_string();
    let driver = Arc::new(Driver::load(library)?);
    let version = driver.version().map_err(words)?;
    let shown = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    if version < LEAST_VERSION {
        return Err(format!("its driver is for {shown}; install one for CUDA 11 or later"));
    }
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    let mut reason = "the CUDA driver lists no device".to_owned();
    for ordinal in 0..driver.count().map_err(words)? {
        let facts = match driver.facts(ordinal) {
            Ok(facts) if facts.capability >= LEAST_CAPABILITY => facts,
            Ok(facts) => {
                let (major, minor) = (facts.capability / 10, facts.capability % 10);
                reason = format!(
                    "{} has compute capability {major}.{minor}; the kernels need 8.0",
                    facts.name
                );
                continue;
            }
            Err(error) => {
                reason = error.to_string();
                continue;
            }
        };
        let properties = Properties {
            backend: NAME,
            index: ordinal,
            name: facts.name,
            driver: shown.clone(),
            memory: facts.memory,
            largest_allocation: facts.memory,
            shared_memory: facts.shared_memory,
            largest_group: 1024,
            units: facts.units,
            clock: facts.clock,
            cache: facts.cache,
            is_gpu: true,
        };
        devices.push(Arc::new(CudaDevice {
            driver: Arc::clone(&driver),
            device: facts.device,
            ptx,
            properties,
            context: Mutex::new(None),
        }));
    }
    if devices.is_empty() { Err(reason) } else { Ok(devices) }
}

struct CudaDevice {
    driver: Arc<Driver>,
    device: i32,
    ptx: &'static str,
    properties: Properties,
    /// Made by the first caller that needs it.
    context: Mutex<Option<Arc<Context>>>,
}

impl CudaDevice {
    fn context(&self) -> Result<Arc<Context>, DeviceError> {
        let mut made = self.context.lock().ignore_poison();
        if let Some(context) = &*made {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(Context::retain(&self.driver, self.device, self.ptx)?);
        *made = Some(Arc::clone(&context));
        Ok(context)
    }
}

impl Device for CudaDevice {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn open(&self) -> Result<Box<dyn Stream>, DeviceError> {
        Ok(Box::new(CudaStream::new(self.context()?.queue()?)))
    }

    fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        self.context()?.pin(bytes)
    }
}

/// CUDA 11.0, the first for compute capability 8.0.
const LEAST_VERSION: i32 = 11_000;

/// 8.0: the kernels are compiled for it and for later ones.
const LEAST_CAPABILITY: i32 = 80;
