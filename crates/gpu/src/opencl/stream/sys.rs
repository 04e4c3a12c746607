//! A queue with its device memory and its kernels.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex};

use cl3::info_type::InfoType;
use cl3::types::{cl_command_queue, cl_event, cl_int, cl_kernel, cl_mem};
use cl3::{command_queue, error_codes, event, kernel, memory};
use evener_core::IgnorePoison;

use super::super::sys::{Program, failure, release_event, words};
use crate::device::{Argument, Buffer, DeviceError, Launch, MOST_ARGUMENTS, Place, Stream};

/// An in-order queue with its device memory and its kernels.
pub(in super::super) struct Queue {
    queue: cl_command_queue,
    kernels: HashMap<&'static str, cl_kernel>,
    /// By number.
    buffers: Vec<Memory>,
    /// Events of the commands since the last `finish`.
    pending: Vec<cl_event>,
    largest_allocation: u64,
    /// True if the queue's commands have times; and the first of `pending` whose time is measured.
    takes_time: bool,
    timed_from: usize,
    program: Arc<Program>,
}

#[derive(Clone, Copy)]
struct Memory {
    object: cl_mem,
    bytes: usize,
    is_wrapped: bool,
}

// SAFETY: as for `Handle`; its kernels are its own, and `&mut self` keeps two threads from setting
// their arguments at once.
unsafe impl Send for Queue {}

impl Queue {
    pub(in super::super) fn open(
        program: Arc<Program>,
        largest: u64,
    ) -> Result<Queue, DeviceError> {
        Ok(Queue {
            queue: program.queue(0)?,
            kernels: HashMap::new(),
            buffers: Vec::new(),
            pending: Vec::new(),
            largest_allocation: largest,
            takes_time: false,
            timed_from: 0,
            program,
        })
    }

    /// The memory of the buffer that contains these bytes.
    fn find(&self, at: Place, length: usize, doing: &'static str) -> Result<Memory, DeviceError> {
        let memory = self.buffers.get(at.buffer.0 as usize).copied();
        let fits =
            |memory: &Memory| at.offset.checked_add(length).is_some_and(|end| end <= memory.bytes);
        memory.filter(fits).ok_or_else(|| DeviceError::Other {
            doing,
            words: format!("{length} bytes from {} on are not in its buffer", at.offset),
        })
    }

    fn kernel(&mut self, name: &'static str) -> Result<cl_kernel, DeviceError> {
        if let Some(&kernel) = self.kernels.get(name) {
            return Ok(kernel);
        }
        let doing = "looking for a kernel";
        let text = CString::new(name).unwrap_or_default();
        let kernel = kernel::create_kernel(self.program.program, &text).map_err(|code| {
            DeviceError::Other { doing, words: format!("{name}: {}", words(code)) }
        })?;
        self.kernels.insert(name, kernel);
        Ok(kernel)
    }

    fn queued(
        &mut self,
        doing: &'static str,
        event: Result<cl_event, cl_int>,
    ) -> Result<(), DeviceError> {
        self.pending.push(event.map_err(|code| failure(doing, code))?);
        Ok(())
    }
}

impl Stream for Queue {
    fn allocate(&mut self, bytes: usize) -> Result<Buffer, DeviceError> {
        let doing = "allocating its memory";
        let bytes = bytes.max(1).next_multiple_of(256);
        if bytes as u64 > self.largest_allocation {
            let words = format!("it gives at most {} bytes at once", self.largest_allocation);
            return Err(DeviceError::OutOfMemory { doing, words });
        }
        let flags = memory::CL_MEM_READ_WRITE;
        // SAFETY: no host memory is handed over.
        let object =
            unsafe { memory::create_buffer(self.program.context, flags, bytes, ptr::null_mut()) }
                .map_err(|code| failure(doing, code))?;
        let buffer = Buffer(self.buffers.len() as u32);
        self.buffers.push(Memory { object, bytes, is_wrapped: false });
        self.zero(Place { buffer, offset: 0 }, bytes)?;
        Ok(buffer)
    }

    unsafe fn wrap(&mut self, address: u64, bytes: usize) -> Result<Buffer, DeviceError> {
        let object = ptr::with_exposed_provenance_mut(address as usize);
        // SAFETY: the caller promises that it is a memory object of this device.
        unsafe { memory::retain_mem_object(object) }
            .map_err(|code| failure("taking over memory", code))?;
        let buffer = Buffer(self.buffers.len() as u32);
        self.buffers.push(Memory { object, bytes, is_wrapped: true });
        Ok(buffer)
    }

    unsafe fn copy_up(
        &mut self,
        host: *const u8,
        length: usize,
        to: Place,
    ) -> Result<(), DeviceError> {
        let doing = "copying to the device";
        let Memory { object, .. } = self.find(to, length, doing)?;
        if length == 0 {
            return Ok(());
        }
        let host = host.cast::<c_void>();
        let none = ptr::null();
        // SAFETY: the bytes are in the buffer, as `find` checked, and the caller promises those of
        // the host until the queue has finished.
        let event = unsafe {
            command_queue::enqueue_write_buffer(
                self.queue, object, 0, to.offset, length, host, 0, none,
            )
        };
        self.queued(doing, event)
    }

    unsafe fn copy_down(
        &mut self,
        from: Place,
        host: *mut u8,
        length: usize,
    ) -> Result<(), DeviceError> {
        let doing = "copying from the device";
        let Memory { object, .. } = self.find(from, length, doing)?;
        if length == 0 {
            return Ok(());
        }
        let host = host.cast::<c_void>();
        let none = ptr::null();
        // SAFETY: as in `copy_up`.
        let event = unsafe {
            command_queue::enqueue_read_buffer(
                self.queue,
                object,
                0,
                from.offset,
                length,
                host,
                0,
                none,
            )
        };
        self.queued(doing, event)
    }

    fn zero(&mut self, at: Place, length: usize) -> Result<(), DeviceError> {
        let doing = "wiping its memory";
        let Memory { object, .. } = self.find(at, length, doing)?;
        if length == 0 {
            return Ok(());
        }
        let zero = 0_u32;
        let pattern = (&raw const zero).cast::<c_void>();
        let none = ptr::null();
        // SAFETY: the bytes are in the buffer; the pattern is copied by the call.
        let event = unsafe {
            command_queue::enqueue_fill_buffer(
                self.queue, object, pattern, 4, at.offset, length, 0, none,
            )
        };
        self.queued(doing, event)
    }

    unsafe fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let doing = "starting a kernel";
        if launch.arguments.len() > MOST_ARGUMENTS {
            let words = format!("{} got too many arguments", launch.kernel);
            return Err(DeviceError::Other { doing, words });
        }
        let kernel = self.kernel(launch.kernel)?;
        for (index, argument) in (0..).zip(launch.arguments) {
            let set = match argument {
                &Argument::Buffer(buffer) => {
                    let memory = self.find(Place { buffer, offset: 0 }, 0, doing)?;
                    set_argument(kernel, index, &memory.object)
                }
                Argument::U32(number) => set_argument(kernel, index, number),
                Argument::U64(number) => set_argument(kernel, index, number),
            };
            set.map_err(|code| failure(doing, code))?;
        }
        if launch.dynamic_shared > 0 {
            let (index, size) = (launch.arguments.len() as u32, launch.dynamic_shared as usize);
            // SAFETY: local memory is passed as a size, without a value.
            unsafe { kernel::set_kernel_arg(kernel, index, size, ptr::null()) }
                .map_err(|code| failure(doing, code))?;
        }
        let size = launch.group_size as usize;
        let items = launch.groups as usize * size;
        let none = ptr::null();
        // SAFETY: the caller promises that these are the kernel's arguments, and that the kernel
        // stays within its buffers.
        let event = unsafe {
            command_queue::enqueue_nd_range_kernel(
                self.queue,
                kernel,
                1,
                ptr::null(),
                &items,
                &size,
                0,
                none,
            )
        };
        self.queued(doing, event)
    }

    /// The driver made all kernels when it compiled their source.
    fn prepare(&mut self, kernel: &'static str, _: u32) -> Result<(), DeviceError> {
        self.kernel(kernel).map(|_| ())
    }

    fn mark(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Also waits for the commands after the mark.
    fn finish_marked(&mut self) -> Result<(), DeviceError> {
        self.finish()
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        command_queue::flush(self.queue).map_err(|code| failure("starting", code))
    }

    fn begin_timing(&mut self) -> Result<(), DeviceError> {
        if !self.takes_time {
            self.finish()?;
            let queue = self.program.queue(command_queue::CL_QUEUE_PROFILING_ENABLE)?;
            // SAFETY: this value's own queue; nothing is queued on it, and it is not used any more.
            let _ = unsafe { command_queue::release_command_queue(self.queue) };
            self.queue = queue;
            self.takes_time = true;
        }
        self.timed_from = self.pending.len();
        Ok(())
    }

    fn end_timing(&mut self) -> Result<f64, DeviceError> {
        let doing = "taking its time";
        let timed = self.pending.get(self.timed_from..).unwrap_or_default();
        let (Some(&first), Some(&last), true) = (timed.first(), timed.last(), self.takes_time)
        else {
            return Err(DeviceError::Other { doing, words: "nothing was queued".to_owned() });
        };
        let waited = wait_for(self.queue, last);
        let time = |event, which| match event::get_event_profiling_info(event, which) {
            Ok(InfoType::Ulong(nanoseconds)) => Ok(nanoseconds),
            Ok(_) => Err(error_codes::CL_PROFILING_INFO_NOT_AVAILABLE),
            Err(code) => Err(code),
        };
        let times = waited.and_then(|()| {
            let begun = time(first, event::CL_PROFILING_COMMAND_START)?;
            Ok(time(last, event::CL_PROFILING_COMMAND_END)?.saturating_sub(begun))
        });
        // The error of a failed command explains more than a missing time.
        self.finish()?;
        Ok(times.map_err(|code| failure(doing, code))? as f64 / 1e9)
    }

    fn finish(&mut self) -> Result<(), DeviceError> {
        let doing = "computing";
        let Some(&last) = self.pending.last() else { return Ok(()) };
        let waited = wait_for(self.queue, last);
        // The result of every command is checked: a failure need not show in the next command's.
        let failed = self.pending.drain(..).map(|event| {
            let status = event::CL_EVENT_COMMAND_EXECUTION_STATUS;
            let status = event::get_event_info(event, status);
            release_event(event);
            match status {
                Ok(InfoType::Int(code)) if code < 0 => code,
                Err(code) => code,
                Ok(_) => 0,
            }
        });
        let codes = failed.fold(0, |first, code| if first == 0 { code } else { first });
        waited
            .and(if codes == 0 { Ok(()) } else { Err(codes) })
            .map_err(|code| failure(doing, code))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for number in 0..self.buffers.len() {
            if let Memory { bytes, is_wrapped: false, .. } = self.buffers[number] {
                let _ = self.zero(Place { buffer: Buffer(number as u32), offset: 0 }, bytes);
            }
        }
        let _ = self.finish();
        // SAFETY: nothing is queued any more, so the host's memory is no longer used; each object
        // is this value's own and is released once.
        unsafe {
            let _ = command_queue::finish(self.queue);
            for memory in self.buffers.drain(..) {
                let _ = memory::release_mem_object(memory.object);
            }
            for kernel in self.kernels.values() {
                let _ = kernel::release_kernel(*kernel);
            }
            let _ = command_queue::release_command_queue(self.queue);
        }
    }
}

/// Sets an argument to a copy of the value: a number, or a memory object's handle.
fn set_argument<T: Copy>(kernel: cl_kernel, index: u32, value: &T) -> Result<(), cl_int> {
    // SAFETY: the call copies the value's bytes, and refuses a size that is not the parameter's.
    unsafe { kernel::set_kernel_arg(kernel, index, size_of::<T>(), ptr::from_ref(value).cast()) }
}

/// Sleeps until the event is complete. (`clFinish` spins in some drivers.)
fn wait_for(queue: cl_command_queue, event: cl_event) -> Result<(), cl_int> {
    type Bell = (Mutex<Option<cl_int>>, Condvar);
    extern "C" fn ring(_: cl_event, status: cl_int, bell: *mut c_void) {
        // SAFETY: the pointer is from `Arc::into_raw` below, and the driver calls once.
        let bell = unsafe { Arc::from_raw(bell.cast_const().cast::<Bell>()) };
        *bell.0.lock().ignore_poison() = Some(status);
        bell.1.notify_all();
    }
    let bell: Arc<Bell> = Arc::default();
    let given = Arc::into_raw(Arc::clone(&bell));
    let complete = event::CL_COMPLETE;
    if let Err(code) =
        event::set_event_callback(event, complete, ring, given.cast_mut().cast::<c_void>())
    {
        // SAFETY: the driver refused, so it never calls.
        drop(unsafe { Arc::from_raw(given) });
        return Err(code);
    }
    command_queue::flush(queue)?;
    let mut rung = bell.0.lock().ignore_poison();
    loop {
        match *rung {
            Some(status) if status < 0 => return Err(status),
            Some(_) => return Ok(()),
            None => rung = bell.1.wait(rung).ignore_poison(),
        }
    }
}
