//! The backend for OpenCL: GPUs of AMD, Intel, ARM and others, and PoCL on the processor's cores.
//!
//! `libOpenCL.so.1` is loaded at run time. Its vendors' drivers are those that `/etc/OpenCL/vendors`
//! lists.

mod sys;

use std::sync::{Arc, Mutex, PoisonError};

use super::device::{Device, DeviceError, Pinned, Properties, Stream};
use super::probe::Found;
use sys::{Handle, Program};

/// The backend's part of the selector.
pub(super) const NAME: &str = "opencl";

/// All devices of all platforms, in the loader's order.
pub(super) fn devices() -> Found {
    let found = sys::devices()?;
    let device = |(index, (handle, properties)): (usize, (Handle, Properties))| {
        let properties = Properties { index, ..properties };
        Arc::new(OpenClDevice { handle, properties, program: Mutex::new(None) }) as Arc<dyn Device>
    };
    Ok(found.into_iter().enumerate().map(device).collect())
}

struct OpenClDevice {
    handle: Handle,
    properties: Properties,
    /// Made by the first caller who needs it.
    program: Mutex<Option<Arc<Program>>>,
}

impl OpenClDevice {
    fn program(&self) -> Result<Arc<Program>, DeviceError> {
        let mut made = self.program.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*made {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(Program::make(&self.handle, &super::kernels::source())?);
        *made = Some(Arc::clone(&program));
        Ok(program)
    }
}

impl Device for OpenClDevice {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn open(&self) -> Result<Box<dyn Stream>, DeviceError> {
        Ok(Box::new(sys::Queue::open(self.program()?, self.properties.largest_allocation)?))
    }

    fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        sys::pin(&self.program()?, bytes)
    }
}
