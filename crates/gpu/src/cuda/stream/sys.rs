//! A stream with its device memory and its kernels.

use std::collections::HashMap;

use super::super::driver::Address;
use super::super::sys::{Commands, Function};
use crate::device::{Argument, Buffer, DeviceError, Launch, MOST_ARGUMENTS, Place, Stream};

pub(in super::super) struct CudaStream {
    commands: Commands,
    kernels: HashMap<&'static str, Kernel>,
    /// By number.
    buffers: Vec<Memory>,
}

/// A kernel, and its limit of dynamic shared memory.
#[derive(Clone, Copy)]
struct Kernel {
    function: Function,
    allowed: u32,
}

#[derive(Clone, Copy)]
struct Memory {
    address: Address,
    bytes: usize,
    is_wrapped: bool,
}

impl CudaStream {
    pub(in super::super) fn new(commands: Commands) -> CudaStream {
        CudaStream { commands, kernels: HashMap::new(), buffers: Vec::new() }
    }

    /// The address of a place that has this many bytes of its buffer after it.
    fn find(&self, at: Place, length: usize, doing: &'static str) -> Result<Address, DeviceError> {
        let memory = self.buffers.get(at.buffer.0 as usize).copied();
        let fits =
            |memory: &Memory| at.offset.checked_add(length).is_some_and(|end| end <= memory.bytes);
        let found = memory.filter(fits).map(|memory| memory.address + at.offset);
        found.ok_or_else(|| DeviceError::Other {
            doing,
            words: format!("{length} bytes from {} on are not in its buffer", at.offset),
        })
    }

    /// A kernel that may use this much dynamic shared memory.
    fn kernel(&mut self, name: &'static str, shared: u32) -> Result<Function, DeviceError> {
        let known = self.kernels.get(name).copied();
        let mut kernel = match known {
            Some(kernel) => kernel,
            None => {
                let function = self.commands.context().function(name);
                let function = function.map_err(|error| named(error, name))?;
                Kernel { function, allowed: ALWAYS_ALLOWED }
            }
        };
        if shared > kernel.allowed {
            self.commands.context().allow_shared(kernel.function, shared)?;
            kernel.allowed = shared;
        }
        self.kernels.insert(name, kernel);
        Ok(kernel.function)
    }

    fn add(&mut self, memory: Memory) -> Buffer {
        self.buffers.push(memory);
        Buffer((self.buffers.len() - 1) as u32)
    }

    /// Queues the wiping of memory, unless it is wrapped.
    fn wipe(&mut self, memory: Memory) -> Result<(), DeviceError> {
        if memory.is_wrapped {
            return Ok(());
        }
        // SAFETY: the stream allocated it, in whole words; it is freed after this was done.
        unsafe { self.commands.zero(memory.address, memory.bytes / 4) }
    }
}

impl Stream for CudaStream {
    fn allocate(&mut self, bytes: usize) -> Result<Buffer, DeviceError> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGNMENT).ok_or_else(|| {
            let words = format!("{bytes} bytes are too many");
            DeviceError::OutOfMemory { doing: "allocating its memory", words }
        })?;
        let address = self.commands.allocate(bytes)?;
        let memory = Memory { address, bytes, is_wrapped: false };
        let buffer = self.add(memory);
        self.wipe(memory)?;
        Ok(buffer)
    }

    unsafe fn wrap(&mut self, address: u64, bytes: usize) -> Result<Buffer, DeviceError> {
        let (doing, words) = ("taking over memory", "it has no such address".to_owned());
        let address = usize::try_from(address).ok().filter(|address| *address != 0);
        let end = address.and_then(|address| address.checked_add(bytes));
        match (address, end) {
            (Some(address), Some(_)) => Ok(self.add(Memory { address, bytes, is_wrapped: true })),
            _ => Err(DeviceError::Other { doing, words }),
        }
    }

    unsafe fn copy_up(
        &mut self,
        host: *const u8,
        length: usize,
        to: Place,
    ) -> Result<(), DeviceError> {
        let to = self.find(to, length, "copying to the device")?;
        if length == 0 {
            return Ok(());
        }
        // SAFETY: the bytes are in the buffer, as `find` saw, and the caller promises the host's.
        unsafe { self.commands.copy_up(host, length, to) }
    }

    unsafe fn copy_down(
        &mut self,
        from: Place,
        host: *mut u8,
        length: usize,
    ) -> Result<(), DeviceError> {
        let from = self.find(from, length, "copying from the device")?;
        if length == 0 {
            return Ok(());
        }
        // SAFETY: as in `copy_up`.
        unsafe { self.commands.copy_down(from, host, length) }
    }

    fn zero(&mut self, at: Place, length: usize) -> Result<(), DeviceError> {
        let doing = "wiping its memory";
        let address = self.find(at, length, doing)?;
        if !address.is_multiple_of(4) || !length.is_multiple_of(4) {
            let words = format!("{length} bytes from {} on are no whole words", at.offset);
            return Err(DeviceError::Other { doing, words });
        }
        if length == 0 {
            return Ok(());
        }
        // SAFETY: the bytes are in the buffer, and whole words, as was checked.
        unsafe { self.commands.zero(address, length / 4) }
    }

    unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let doing = "starting a kernel";
        if launch.arguments.len() > MOST_ARGUMENTS {
            let words = format!("{} takes at most {MOST_ARGUMENTS} arguments", launch.kernel);
            return Err(DeviceError::Other { doing, words });
        }
        let function = self.kernel(launch.kernel, launch.dynamic_shared)?;
        let mut arguments = [0_u64; MOST_ARGUMENTS];
        for (word, argument) in arguments.iter_mut().zip(launch.arguments) {
            *word = match *argument {
                Argument::Buffer(buffer) => {
                    self.find(Place { buffer, offset: 0 }, 0, doing)? as u64
                }
                Argument::U32(number) => u64::from(number),
                Argument::U64(number) => number,
            };
        }
        let (groups, size, shared) = (launch.groups, launch.group_size, launch.dynamic_shared);
        let arguments = &mut arguments[..launch.arguments.len()];
        // SAFETY: the caller promises that these are the kernel's arguments, and that the kernel
        // stays within its buffers.
        unsafe { self.commands.launch(function, groups, size, shared, arguments) }
    }

    fn prepare(&mut self, kernel: &'static str, dynamic_shared: u32) -> Result<(), DeviceError> {
        self.kernel(kernel, dynamic_shared).map(|_| ())
    }

    /// The device starts queued commands at once.
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn begin_timing(&mut self) -> Result<(), DeviceError> {
        self.commands.begin_timing()
    }

    fn end_timing(&mut self) -> Result<f64, DeviceError> {
        self.commands.end_timing()
    }

    fn mark(&mut self) -> Result<(), DeviceError> {
        self.commands.mark()
    }

    fn finish_marked(&mut self) -> Result<(), DeviceError> {
        self.commands.finish_marked()
    }

    fn finish(&mut self) -> Result<(), DeviceError> {
        self.commands.finish()
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        for number in 0..self.buffers.len() {
            let _ = self.wipe(self.buffers[number]);
        }
        // If the first way of waiting fails, the other may work. If neither does, the device is
        // lost: it does nothing any more.
        if self.commands.finish().is_err() {
            let _ = self.commands.drain();
        }
        for memory in std::mem::take(&mut self.buffers) {
            if !memory.is_wrapped {
                // SAFETY: the stream allocated it and has finished, and this is done once.
                let _ = unsafe { self.commands.free(memory.address) };
            }
        }
    }
}

fn named(error: DeviceError, kernel: &str) -> DeviceError {
    match error {
        DeviceError::Other { doing, words } => {
            DeviceError::Other { doing, words: format!("{kernel}: {words}") }
        }
        error => error,
    }
}

/// Dynamic shared memory that every kernel may have, in bytes.
const ALWAYS_ALLOWED: u32 = 48 << 10;

/// Alignment of allocations, in bytes.
const ALIGNMENT: usize = 256;
