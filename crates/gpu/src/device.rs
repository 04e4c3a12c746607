//! The engine's interface to a backend: the CUDA driver, or OpenCL.
//!
//! A backend knows nothing of ciphers. It finds [`Device`]s, makes each of their kernels from
//! [`kernels`](super::kernels) once for a device, and opens [`Stream`]s: queues of commands that
//! the device executes in order. A session has one stream for each of its arenas, so one stream's
//! copies overlap with another's kernels.

use std::sync::Arc;

use evener_core::{EngineError, shown_text};

pub(crate) use super::lent::Pinned;

/// A device that a backend has found. Many threads use it, and each opens its own streams.
pub(crate) trait Device: Send + Sync {
    /// The device's properties.
    fn properties(&self) -> &Properties;

    /// Opens a queue for one thread at a time. The first call may make the kernels, which may take
    /// seconds; calls of other threads wait for it.
    ///
    /// # Errors
    /// When the device is lost or busy, or the kernels can't be made.
    fn open(&self) -> Result<Box<dyn Stream>, DeviceError>;

    /// Allocates page-locked memory of the host, all zero, which the device copies to and from
    /// without the processor. It can be used with every stream of the device.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] when there is not enough memory.
    fn pin(&self, bytes: usize) -> Result<Pinned, DeviceError>;
}

/// A backend's devices, or the reason why there are none.
pub(crate) type Found = Result<Vec<Arc<dyn Device>>, String>;

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Properties {
    /// The backend's part of the selector: `cuda` or `opencl`.
    pub(crate) backend: &'static str,
    /// Its number within the backend, from 0.
    pub(crate) index: usize,
    /// As the driver prints it, such as `NVIDIA H200`.
    pub(crate) name: String,
    /// The driver or platform with its version, for people.
    pub(crate) driver: String,
    /// Its memory in bytes.
    pub(crate) memory: u64,
    /// The largest single allocation in bytes.
    pub(crate) largest_allocation: u64,
    /// Shared (OpenCL: local) memory that one work-group can have, in bytes.
    pub(crate) shared_memory: usize,
    /// Threads that one work-group can have.
    pub(crate) largest_group: usize,
    /// Streaming multiprocessors, or compute units.
    pub(crate) units: usize,
    /// The highest clock of the units, in MHz; 0 if the driver does not report it.
    pub(crate) clock: usize,
    /// The cache before its memory, in bytes; 0 if the driver does not report it.
    pub(crate) cache: u64,
    /// True for a real GPU. A device that computes on the processor's cores (PoCL) or merely
    /// simulates is not one, and is used only when it is named.
    pub(crate) is_gpu: bool,
}

impl Properties {
    /// Its number of units, at least one.
    pub(crate) fn usable_units(&self) -> u32 {
        u32::try_from(self.units.clamp(1, 4_096)).unwrap_or(1)
    }
}

/// A queue of commands, which the device executes in order. The calls return before the device has
/// executed them, except [`Stream::finish`].
///
/// A stream owns the device memory that it allocates. When it is dropped, it finishes, sets that
/// memory to zero and releases it.
///
/// After an error the state of the queued commands is unknown. The caller drops the stream, and
/// opens another for the next batch.
pub(crate) trait Stream: Send {
    /// Allocates device memory, all zero, aligned to at least 256 bytes.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] when there is not enough memory.
    fn allocate(&mut self, bytes: usize) -> Result<Buffer, DeviceError>;

    /// Makes a buffer of memory that the caller owns and that is on this device: a `CUdeviceptr` of
    /// CUDA, a `cl_mem` of OpenCL. It is neither set to zero nor released with the stream.
    ///
    /// # Safety
    /// The memory must be this device's, hold `bytes` bytes, and stay allocated until the stream is
    /// dropped. No other code may use the bytes that queued commands read or write until
    /// [`Stream::finish`] returns.
    ///
    /// # Errors
    /// When the device refuses it.
    unsafe fn wrap(&mut self, address: u64, bytes: usize) -> Result<Buffer, DeviceError>;

    /// Copies `length` bytes of host memory to a place in a buffer.
    ///
    /// # Safety
    /// The host's memory must stay valid, and nothing may write to it, until [`Stream::finish`]
    /// returns or the stream is dropped. It need not be [`Pinned`], but copies of other memory are
    /// slow, and wait for the device.
    ///
    /// # Errors
    /// Also when the bytes are not within the buffer.
    unsafe fn copy_up(
        &mut self,
        host: *const u8,
        length: usize,
        to: Place,
    ) -> Result<(), DeviceError>;

    /// Copies `length` bytes from a place in a buffer to host memory.
    ///
    /// # Safety
    /// The host's memory must stay valid, and no other code may use it, until [`Stream::finish`]
    /// returns or the stream is dropped. See [`Stream::copy_up`].
    ///
    /// # Errors
    /// Also when the bytes are not within the buffer.
    unsafe fn copy_down(
        &mut self,
        from: Place,
        host: *mut u8,
        length: usize,
    ) -> Result<(), DeviceError>;

    /// Sets bytes to zero. The offset and the length are multiples of 4.
    ///
    /// # Errors
    /// Also when the bytes are not within the buffer.
    fn zero(&mut self, at: Place, length: usize) -> Result<(), DeviceError>;

    /// Starts a kernel.
    ///
    /// # Safety
    /// The kernel must take these arguments in this order, and access only memory within the
    /// buffers.
    ///
    /// # Errors
    /// Also when there is no such kernel.
    unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError>;

    /// Makes a kernel that will be started with this much [shared memory](Launch::dynamic_shared), if
    /// the device did not do that before.
    ///
    /// # Errors
    /// Also when there is no such kernel.
    fn prepare(&mut self, kernel: &'static str, dynamic_shared: u32) -> Result<(), DeviceError>;

    /// Makes the device start on the queued commands, without waiting.
    ///
    /// # Errors
    /// When the device is lost.
    fn flush(&mut self) -> Result<(), DeviceError>;

    /// Marks the commands queued so far, for [`Stream::finish_marked`]. A later mark replaces it.
    ///
    /// # Errors
    /// When the device is lost.
    fn mark(&mut self) -> Result<(), DeviceError>;

    /// Waits until the device has executed the marked commands; those queued after them may still
    /// run.
    ///
    /// # Errors
    /// As for [`Stream::finish`].
    fn finish_marked(&mut self) -> Result<(), DeviceError>;

    /// Starts to measure the device's own time of the commands that follow. For benchmarks.
    ///
    /// # Errors
    /// When the device is lost, or has no such clock.
    fn begin_timing(&mut self) -> Result<(), DeviceError>;

    /// Waits for all queued commands, and returns the device's time for those queued since
    /// [`Stream::begin_timing`], in seconds.
    ///
    /// # Errors
    /// As for [`Stream::finish`], and when nothing was queued.
    fn end_timing(&mut self) -> Result<f64, DeviceError>;

    /// Waits until the device has executed all queued commands. The thread sleeps; it never spins,
    /// because a module's CPU time is measured.
    ///
    /// # Errors
    /// When a queued command failed: perhaps none of them was executed.
    fn finish(&mut self) -> Result<(), DeviceError>;
}

/// Device memory of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Buffer(pub(crate) u32);

/// A byte in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) buffer: Buffer,
    /// Offset from the buffer's start, in bytes.
    pub(crate) offset: usize,
}

/// A kernel to start, in one dimension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    /// The kernel function's name in the source.
    pub(crate) kernel: &'static str,
    /// Number of work-groups (CUDA: blocks), at least 1.
    pub(crate) groups: u32,
    /// Work-items (CUDA: threads) in each.
    pub(crate) group_size: u32,
    /// Shared memory in bytes that the kernel itself does not declare, else 0. In OpenCL it is the
    /// kernel's last parameter, after the arguments.
    pub(crate) dynamic_shared: u32,
    /// At most [`MOST_ARGUMENTS`].
    pub(crate) arguments: &'a [Argument],
}

/// An argument of a kernel. A kernel that takes a place in a buffer has two parameters for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// The address of the buffer's first byte (`__global` pointer).
    Buffer(Buffer),
    /// `uint`
    U32(u32),
    /// `ulong`
    U64(u64),
}

/// No kernel takes more arguments.
pub(crate) const MOST_ARGUMENTS: usize = 16;

/// The reason why a device did not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeviceError {
    /// The device fell off the bus, was reset, or another program's fault ended this one's context.
    /// The words are the driver's.
    #[error("the device was lost while it was {doing}: {words}")]
    Lost {
        /// The action that failed, such as `copying to the device`.
        doing: &'static str,
        words: String,
    },
    /// There is not enough memory, of the device or of page-locked memory.
    #[error(
        "there was not enough memory while it was {doing}: {words}; end other programs that use it"
    )]
    OutOfMemory { doing: &'static str, words: String },
    /// Anything else.
    #[error("the driver failed while it was {doing}: {words}")]
    Other { doing: &'static str, words: String },
}

/// Text from a driver or a device, such as its name, as one line that is safe to print.
pub(crate) fn said(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    shown_text(text).replace('\n', " ").replace(char::REPLACEMENT_CHARACTER, "?")
}

impl DeviceError {
    /// The engine's error. Another engine can process the jobs that are still pending.
    pub(crate) fn of(self, engine: &str) -> EngineError {
        EngineError::failed(self.to_string()).of(engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_words_steer_no_terminal() {
        assert_eq!(said(b" NVIDIA H200\0\0"), "NVIDIA H200");
        assert_eq!(said(b"one\ntwo\x1b[2J"), "one two\\u{1b}[2J");
        assert_eq!(said(b"\xff"), "?");
    }
}
