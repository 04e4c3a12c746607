//! A caller's memory on a device, and a stream that works on it.

use std::ops::Range;

use crate::device::{Buffer, Device, DeviceError, Launch, Pinned, Place, Properties, Stream};
use crate::{cuda, opencl};

/// A part of a GPU's memory that belongs to the caller.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceBuffer {
    address: u64,
    length: usize,
    stream: u64,
}

impl DeviceBuffer {
    /// Memory of `length` bytes at a device's `address` (a `CUdeviceptr` of CUDA), which is ready
    /// when all commands queued on `stream` (a `CUstream` of CUDA; 0 is the default stream) are
    /// complete.
    ///
    /// # Safety
    /// The memory must be allocated on the device that seals or opens it, in CUDA's primary context
    /// as the runtime and frameworks use it, for as long as this value lives. No other code may use
    /// it while it is sealed or opened. The stream must be one of this context.
    pub unsafe fn new(address: u64, length: usize, stream: u64) -> DeviceBuffer {
        DeviceBuffer { address, length, stream }
    }

    /// Its first address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Waits for the caller's stream.
    fn wait(&self, properties: &Properties) -> Result<(), DeviceError> {
        match properties.backend {
            // SAFETY: `new` was promised that it is a stream of the device's primary context.
            cuda::NAME => unsafe { cuda::wait_for(properties.index, self.stream) },
            // An OpenCL queue belongs to one of the caller's contexts, whose memory no other
            // context shares.
            _ => Err(DeviceError::Other {
                doing: "waiting for the caller's stream",
                words: format!("{} shares no memory between contexts", opencl::NAME),
            }),
        }
    }
}

/// The text of a site.
pub(super) enum Text<'b> {
    /// The caller's.
    Outside(&'b DeviceBuffer),
    /// New memory of this many bytes, for tests. The host's memory has room for it.
    Inside(usize),
    /// The same without room in the host's memory, for benchmarks.
    Zeros(usize),
}

/// A stream with a text, and the memory for processing it.
pub(super) struct Site {
    // First, because dropping it ends all copies to and from the host's memory.
    stream: Box<dyn Stream>,
    host: Pinned,
    pub(super) table: Buffer,
    pub(super) keys: Buffer,
    pub(super) scratch: Buffer,
    pub(super) text: Buffer,
}

/// Bytes of a site's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) host: usize,
    pub(super) table: usize,
    pub(super) keys: usize,
    pub(super) scratch: usize,
}

impl Site {
    pub(super) fn open(
        device: &dyn Device,
        sizes: Sizes,
        text: &Text<'_>,
    ) -> Result<Site, DeviceError> {
        if let Text::Outside(buffer) = text {
            buffer.wait(device.properties())?;
        }
        let mut stream = device.open()?;
        let text = match text {
            // SAFETY: `DeviceBuffer::new` was promised that it stays allocated; it is borrowed
            // during the work, and the stream is finished or dropped before that ends.
            Text::Outside(buffer) => unsafe { stream.wrap(buffer.address, buffer.length)? },
            Text::Inside(length) | Text::Zeros(length) => stream.allocate(*length)?,
        };
        Ok(Site {
            table: stream.allocate(sizes.table)?,
            keys: stream.allocate(sizes.keys)?,
            scratch: stream.allocate(sizes.scratch)?,
            text,
            host: device.pin(sizes.host)?,
            stream,
        })
    }

    /// The host's memory, once the device has finished with it.
    pub(super) fn host(&mut self) -> Result<&mut [u8], DeviceError> {
        self.stream.finish()?;
        Ok(&mut self.host)
    }

    /// Queues a copy of some of the host's memory to the beginning of a buffer.
    pub(super) fn upload(&mut self, from: Range<usize>, to: Buffer) -> Result<(), DeviceError> {
        let from = &self.host[from];
        let to = Place { buffer: to, offset: 0 };
        // SAFETY: the host's memory lives until the stream is dropped, and `host`, the only access
        // to it, waits until the stream has finished.
        unsafe { self.stream.copy_up(from.as_ptr(), from.len(), to) }
    }

    /// Queues a copy of the first bytes of a buffer to some of the host's memory.
    pub(super) fn download(&mut self, from: Buffer, to: Range<usize>) -> Result<(), DeviceError> {
        let to = &mut self.host[to];
        let from = Place { buffer: from, offset: 0 };
        // SAFETY: as in `upload`.
        unsafe { self.stream.copy_down(from, to.as_mut_ptr(), to.len()) }
    }

    /// Queues one of the engine's kernels.
    pub(super) fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        // SAFETY: the module above makes all launches, each with the parameters in the kernel's
        // source, and with chunks that are in the text and fit the sizes.
        unsafe { self.stream.launch(launch) }
    }

    pub(super) fn finish(&mut self) -> Result<(), DeviceError> {
        self.stream.finish()
    }
}
