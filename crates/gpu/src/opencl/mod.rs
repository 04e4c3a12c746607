//! The backend for OpenCL: GPUs of AMD, Intel, ARM and other vendors, and PoCL on the processor's
//! cores.
//!
//! `libOpenCL.so.1` is loaded at run time. It uses the vendors' drivers that `/etc/OpenCL/vendors`
//! lists.

mod stream;
mod sys;

use std::sync::{Arc, Mutex, MutexGuard};

use super::device::{Device, DeviceError, Found, Pinned, Properties, Stream};
use evener_core::IgnorePoison;
use stream::Queue;
pub(super) use sys::NAME;
use sys::{Handle, Program};

/// All devices of all platforms, in the loader's order.
pub(super) fn devices() -> Found {
    let found = {
        let _alone = alone();
        sys::devices()?
    };
    let device = |(index, (handle, properties)): (usize, (Handle, Properties))| {
        let properties = Properties { index, ..properties };
        Arc::new(OpenClDevice { handle, properties, program: Mutex::new(None) }) as Arc<dyn Device>
    };
    Ok(found.into_iter().enumerate().map(device).collect())
}

/// Drivers start and compile on one thread at a time: PoCL 3.1 crashes when two threads make the
/// first request for its devices.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().ignore_poison()
}

struct OpenClDevice {
    handle: Handle,
    properties: Properties,
    /// Made by the first caller that needs it.
    program: Mutex<Option<Arc<Program>>>,
}

impl OpenClDevice {
    fn program(&self) -> Result<Arc<Program>, DeviceError> {
        let mut made = self.program.lock().ignore_poison();
        if let Some(program) = &*made {
            return Ok(Arc::clone(program));
        }
        let _alone = alone();
        let program =
            Arc::new(Program::make(&self.handle, &super::kernels::source(&self.properties))?);
        *made = Some(Arc::clone(&program));
        Ok(program)
    }
}

impl Device for OpenClDevice {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn open(&self) -> Result<Box<dyn Stream>, DeviceError> {
        let queue = Queue::open(self.program()?, self.properties.largest_allocation);
        if queue.is_err() {
            // A lost device takes its context with it. The next call makes another.
            *self.program.lock().ignore_poison() = None;
        }
        Ok(Box::new(queue?))
    }

    fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        sys::pin(&self.program()?, bytes)
    }
}
