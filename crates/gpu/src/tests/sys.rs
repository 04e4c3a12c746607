//! A device that is lost after a number of calls, and records copies; and a device with little
//! shared memory.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::device::{Buffer, Device, DeviceError, Launch, Pinned, Place, Properties, Stream};

/// A device that fails once, after this many calls.
pub(crate) struct Failing {
    device: Arc<dyn Device>,
    left: Arc<AtomicI64>,
    copies: Copies,
}

/// The host's addresses of all copies: up, and down.
pub(crate) type Copies = Arc<Mutex<[Vec<Range<usize>>; 2]>>;

struct FailingStream {
    stream: Box<dyn Stream>,
    left: Arc<AtomicI64>,
    copies: Copies,
}

/// With a count of this plus n, n calls succeed before one panics.
pub(crate) const PANICS: i64 = i64::MIN / 2;

fn count(left: &AtomicI64) -> Result<(), DeviceError> {
    match left.fetch_sub(1, Relaxed) {
        1 => Err(DeviceError::Lost { doing: "testing", words: "on purpose".to_owned() }),
        PANICS => panic!("on purpose"),
        _ => Ok(()),
    }
}

impl Failing {
    pub(crate) fn new(device: Arc<dyn Device>, left: Arc<AtomicI64>) -> Failing {
        Failing { device, left, copies: Copies::default() }
    }

    pub(crate) fn copies(&self) -> Copies {
        Arc::clone(&self.copies)
    }
}

impl Device for Failing {
    fn properties(&self) -> &Properties {
        self.device.properties()
    }

    fn open(&self) -> Result<Box<dyn Stream>, DeviceError> {
        count(&self.left)?;
        let (left, copies) = (Arc::clone(&self.left), self.copies());
        Ok(Box::new(FailingStream { stream: self.device.open()?, left, copies }))
    }

    fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        count(&self.left)?;
        self.device.pin(bytes)
    }
}

/// A device that reports less shared memory than AES's wide tables need.
pub(super) struct Narrow {
    device: Arc<dyn Device>,
    properties: Properties,
}

impl Narrow {
    pub(super) fn new(device: Arc<dyn Device>) -> Narrow {
        let properties = Properties { shared_memory: 64 << 10, ..device.properties().clone() };
        Narrow { device, properties }
    }
}

impl Device for Narrow {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn open(&self) -> Result<Box<dyn Stream>, DeviceError> {
        self.device.open()
    }

    fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError> {
        self.device.pin(bytes)
    }
}

impl FailingStream {
    fn next(&mut self) -> Result<&mut dyn Stream, DeviceError> {
        count(&self.left)?;
        Ok(&mut *self.stream)
    }

    fn note(&self, way: usize, start: usize, length: usize) {
        self.copies.lock().unwrap()[way].push(start..start + length);
    }
}

impl Stream for FailingStream {
    fn allocate(&mut self, bytes: usize) -> Result<Buffer, DeviceError> {
        self.next()?.allocate(bytes)
    }

    unsafe fn wrap(&mut self, address: u64, bytes: usize) -> Result<Buffer, DeviceError> {
        // SAFETY: the caller promises the same, and the inner stream is as old as this one.
        unsafe { self.next()?.wrap(address, bytes) }
    }

    unsafe fn copy_up(
        &mut self,
        host: *const u8,
        length: usize,
        to: Place,
    ) -> Result<(), DeviceError> {
        self.note(0, host.addr(), length);
        // SAFETY: the caller promises the same, and the inner stream is as old as this one.
        unsafe { self.next()?.copy_up(host, length, to) }
    }

    unsafe fn copy_down(
        &mut self,
        from: Place,
        host: *mut u8,
        length: usize,
    ) -> Result<(), DeviceError> {
        self.note(1, host.addr(), length);
        // SAFETY: the caller promises the same, and the inner stream is as old as this one.
        unsafe { self.next()?.copy_down(from, host, length) }
    }

    fn zero(&mut self, at: Place, length: usize) -> Result<(), DeviceError> {
        self.next()?.zero(at, length)
    }

    unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        // SAFETY: the caller promises the same, and the inner stream is as old as this one.
        unsafe { self.next()?.launch(launch) }
    }

    fn prepare(&mut self, kernel: &'static str, dynamic_shared: u32) -> Result<(), DeviceError> {
        self.next()?.prepare(kernel, dynamic_shared)
    }

    fn mark(&mut self) -> Result<(), DeviceError> {
        self.next()?.mark()
    }

    fn finish_marked(&mut self) -> Result<(), DeviceError> {
        self.next()?.finish_marked()
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.next()?.flush()
    }

    fn begin_timing(&mut self) -> Result<(), DeviceError> {
        self.next()?.begin_timing()
    }

    fn end_timing(&mut self) -> Result<f64, DeviceError> {
        self.next()?.end_timing()
    }

    fn finish(&mut self) -> Result<(), DeviceError> {
        self.next()?.finish()
    }
}

/// Memory that its driver never frees.
pub(super) fn never_freed() -> Pinned {
    let bytes = Box::leak(vec![0_u8; 64].into_boxed_slice());
    let (start, length) = (NonNull::from(&mut bytes[0]), bytes.len());
    // SAFETY: the bytes are initialised, are never freed, and nothing else uses them.
    unsafe { Pinned::new(start, length, Box::new(|| thread::sleep(Duration::MAX))) }
}
