//! Copies between memory of the host and a device.

use std::ops::Range;
use std::ptr;

use super::device::{Buffer, Device, DeviceError, Launch, Place, Stream};
use super::lent::{Lease, Pinned};

/// Bytes of lent memory that the device copies without an arena, and their place on the device.
pub(super) struct Stretch {
    /// Address with exposed provenance.
    address: usize,
    length: usize,
    /// Offset in the input or the output.
    at: usize,
    lease: Lease,
}

impl Stretch {
    /// Bytes that go to the input.
    pub(super) fn up(bytes: &[u8], at: usize, lease: &Lease) -> Stretch {
        let address = bytes.as_ptr().expose_provenance();
        Stretch { address, length: bytes.len(), at, lease: lease.clone() }
    }

    /// Bytes that come from the output.
    pub(super) fn down(bytes: &mut [u8], at: usize, lease: &Lease) -> Stretch {
        let address = bytes.as_mut_ptr().expose_provenance();
        Stretch { address, length: bytes.len(), at, lease: lease.clone() }
    }

    /// Adds a stretch to a list, or extends the last one if the new one follows it both in the
    /// host's memory and in the device's.
    pub(super) fn add_to(self, list: &mut Vec<Stretch>) {
        match list.last_mut() {
            Some(last)
                if last.address + last.length == self.address
                    && last.at + last.length == self.at
                    && last.lease.is(&self.lease) =>
            {
                last.length += self.length;
            }
            _ => list.push(self),
        }
    }
}

/// A stream with an arena of page-locked memory and the device memory that belongs to it. Bytes
/// that the host writes to the arena go to the same offsets of the input, and bytes that the device
/// writes to the output come to the same offsets of the arena.
pub(super) struct Channel {
    // First, because dropping it ends all copies to and from the arena and lent memory.
    stream: Box<dyn Stream>,
    arena: Pinned,
    /// Leases of the lent memory copied since the last wait.
    leases: Vec<Lease>,
    buffers: Buffers,
    /// True if copies may be in progress.
    is_busy: bool,
    /// True if no copies follow the mark.
    has_mark: bool,
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
    /// Bytes of the arena.
    pub(super) host: usize,
    /// Bytes of input and output.
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
        let arena = device.pin(sizes.host)?;
        Ok(Channel { stream, arena, leases: Vec::new(), buffers, is_busy: false, has_mark: false })
    }

    pub(super) fn buffers(&self) -> Buffers {
        self.buffers
    }

    /// The arena, once no copies to or from it are in progress.
    pub(super) fn arena(&mut self) -> Result<&mut [u8], DeviceError> {
        self.wait()?;
        Ok(&mut self.arena)
    }

    /// Queues a copy of the arena's first bytes to the input.
    pub(super) fn upload(&mut self, length: usize) -> Result<(), DeviceError> {
        let (from, to) = (&self.arena[..length], Place { buffer: self.buffers.input, offset: 0 });
        (self.is_busy, self.has_mark) = (true, false);
        // SAFETY: the arena lives until the stream is dropped, and `arena`, the only access to it,
        // waits until all copies have ended.
        unsafe { self.stream.copy_up(from.as_ptr(), from.len(), to) }
    }

    /// Queues a copy of bytes of the output to the arena.
    pub(super) fn download(&mut self, bytes: Range<usize>) -> Result<(), DeviceError> {
        let from = Place { buffer: self.buffers.output, offset: bytes.start };
        let to = &mut self.arena[bytes];
        (self.is_busy, self.has_mark) = (true, false);
        // SAFETY: as in `upload`.
        unsafe { self.stream.copy_down(from, to.as_mut_ptr(), to.len()) }
    }

    /// Queues a copy from lent memory to the input.
    pub(super) fn upload_straight(&mut self, from: &Stretch) -> Result<(), DeviceError> {
        self.hold(&from.lease);
        let host = ptr::with_exposed_provenance::<u8>(from.address);
        let to = Place { buffer: self.buffers.input, offset: from.at };
        // SAFETY: the lease keeps the memory allocated until the copy has ended. Nothing
        // writes to it until then: only `bay` makes stretches, of inputs that a session's jobs
        // borrow, and the session's `Underway` ends all copies before the borrow of the jobs ends,
        // on every way out.
        unsafe { self.stream.copy_up(host, from.length, to) }
    }

    /// Queues a copy from the output to lent memory.
    pub(super) fn download_straight(&mut self, to: &Stretch) -> Result<(), DeviceError> {
        self.hold(&to.lease);
        let host = ptr::with_exposed_provenance_mut::<u8>(to.address);
        let from = Place { buffer: self.buffers.output, offset: to.at };
        // SAFETY: as in `upload_straight`, for outputs that jobs borrow exclusively; `bay`
        // reads one only after it has waited for the channel.
        unsafe { self.stream.copy_down(from, host, to.length) }
    }

    /// Keeps lent memory until all copies have ended.
    fn hold(&mut self, lease: &Lease) {
        (self.is_busy, self.has_mark) = (true, false);
        if !self.leases.last().is_some_and(|last| last.is(lease)) {
            self.leases.push(lease.clone());
        }
    }

    /// Makes a kernel, so that its first start takes no longer than others.
    pub(super) fn prepare(
        &mut self,
        kernel: &'static str,
        dynamic_shared: u32,
    ) -> Result<(), DeviceError> {
        self.stream.prepare(kernel, dynamic_shared)
    }

    /// Queues one of the engine's kernels.
    pub(super) fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        self.is_busy = true;
        // SAFETY: only `steps` makes launches, each with the parameters in the kernel's source; the
        // kernels access only the plan's layout, which fits the channel's sizes.
        unsafe { self.stream.launch(launch) }
    }

    /// Records that no copies follow until the next wait, which does not wait for other commands
    /// that follow: the wiping of the device's memory.
    pub(super) fn end_copies(&mut self) -> Result<(), DeviceError> {
        self.has_mark = true;
        self.stream.mark()
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

    /// Starts to measure the device's own time of the commands that follow.
    pub(super) fn begin_timing(&mut self) -> Result<(), DeviceError> {
        self.stream.begin_timing()
    }

    /// Waits until the device has executed all commands; returns its seconds for those queued since
    /// [`Channel::begin_timing`].
    pub(super) fn end_timing(&mut self) -> Result<f64, DeviceError> {
        let seconds = self.stream.end_timing()?;
        self.wait()?;
        Ok(seconds)
    }

    /// Makes the device start on the queued commands.
    pub(super) fn flush(&mut self) -> Result<(), DeviceError> {
        self.stream.flush()
    }

    /// Waits until all copies have ended.
    pub(super) fn wait(&mut self) -> Result<(), DeviceError> {
        if self.is_busy {
            match self.has_mark {
                true => self.stream.finish_marked()?,
                false => self.stream.finish()?,
            }
            (self.is_busy, self.has_mark) = (false, false);
            self.leases.clear();
        }
        Ok(())
    }
}
