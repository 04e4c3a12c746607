//! Memory that a device and this process share.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::slice;

use evener_core::wipe;

use super::device::{Buffer, Device, DeviceError, Launch, Place, Stream};

/// Page-locked memory of the host. It is wiped when it is dropped.
pub(crate) struct Pinned {
    start: NonNull<u8>,
    length: usize,
    /// Gives the memory back; keeps alive what it came from.
    release: Option<Box<dyn FnOnce() + Send>>,
}

// SAFETY: it owns its bytes as a `Box<[u8]>` does, and what releases them is `Send`.
unsafe impl Send for Pinned {}
// SAFETY: shared references give only `&[u8]`.
unsafe impl Sync for Pinned {}

impl Pinned {
    /// Takes over memory from a backend.
    ///
    /// # Safety
    /// `start` must point to `length` initialised bytes that nobody else uses until `release` is
    /// called.
    pub(crate) unsafe fn new(
        start: NonNull<u8>,
        length: usize,
        release: Box<dyn FnOnce() + Send>,
    ) -> Pinned {
        Pinned { start, length, release: Some(release) }
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `new` was promised so many initialised bytes, until `drop` releases them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Pinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; nobody else uses them, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        wipe(self);
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

/// A stream with an arena of page-locked memory and the device memory that belongs to it. What the
/// host puts into the arena goes to the same offsets of the input, and what the device puts into the
/// output comes to the same offsets of the arena.
pub(super) struct Channel {
    // First, because dropping it ends all copies to and from the arena.
    stream: Box<dyn Stream>,
    arena: Pinned,
    buffers: Buffers,
    is_busy: bool,
}

/// Device memory of a channel.
#[derive(Clone, Copy)]
pub(super) struct Buffers {
    pub(super) input: Buffer,
    pub(super) output: Buffer,
    /// Expanded keys.
    pub(super) keys: Buffer,
    pub(super) scratch: Buffer,
}

/// The bytes of a channel's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Of the arena, and of input and output.
    pub(super) arena: usize,
    pub(super) keys: usize,
    pub(super) scratch: usize,
}

impl Channel {
    pub(super) fn open(device: &dyn Device, sizes: Sizes) -> Result<Channel, DeviceError> {
        let mut stream = device.open()?;
        let buffers = Buffers {
            input: stream.allocate(sizes.arena)?,
            output: stream.allocate(sizes.arena)?,
            keys: stream.allocate(sizes.keys)?,
            scratch: stream.allocate(sizes.scratch)?,
        };
        let arena = device.pin(sizes.arena)?;
        Ok(Channel { stream, arena, buffers, is_busy: false })
    }

    pub(super) fn buffers(&self) -> Buffers {
        self.buffers
    }

    /// The arena, once the device has done with it.
    pub(super) fn arena(&mut self) -> Result<&mut [u8], DeviceError> {
        self.wait()?;
        Ok(&mut self.arena)
    }

    /// Queues a copy of the arena's first bytes to the input.
    pub(super) fn upload(&mut self, length: usize) -> Result<(), DeviceError> {
        let (from, to) = (&self.arena[..length], Place { buffer: self.buffers.input, offset: 0 });
        self.is_busy = true;
        // SAFETY: the arena lives until the stream is dropped, and `arena`, which alone lends it
        // out, waits until the stream has finished.
        unsafe { self.stream.copy_up(from.as_ptr(), from.len(), to) }
    }

    /// Queues a copy of bytes of the output to the arena.
    pub(super) fn download(&mut self, bytes: Range<usize>) -> Result<(), DeviceError> {
        let from = Place { buffer: self.buffers.output, offset: bytes.start };
        let to = &mut self.arena[bytes];
        self.is_busy = true;
        // SAFETY: as in `upload`.
        unsafe { self.stream.copy_down(from, to.as_mut_ptr(), to.len()) }
    }

    /// Queues a kernel of ours.
    pub(super) fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        self.is_busy = true;
        // SAFETY: `steps` alone makes launches, each with the parameters that stand in the kernel's
        // source; the kernels access what the plan has laid out, which fits the channel's sizes.
        unsafe { self.stream.launch(launch) }
    }

    /// Queues the wiping of a buffer's first bytes.
    pub(super) fn zero(&mut self, buffer: Buffer, length: usize) -> Result<(), DeviceError> {
        self.zero_from(buffer, 0, length)
    }

    /// Queues the wiping of `length` bytes from `offset`, a multiple of 4, on.
    pub(super) fn zero_from(
        &mut self,
        buffer: Buffer,
        offset: usize,
        length: usize,
    ) -> Result<(), DeviceError> {
        self.is_busy = true;
        self.stream.zero(Place { buffer, offset }, length.next_multiple_of(4))
    }

    /// Makes the device start.
    pub(super) fn flush(&mut self) -> Result<(), DeviceError> {
        self.stream.flush()
    }

    /// Waits until the device has done everything.
    pub(super) fn wait(&mut self) -> Result<(), DeviceError> {
        if self.is_busy {
            self.stream.finish()?;
            self.is_busy = false;
        }
        Ok(())
    }
}
