//! Calls into OpenCL 1.2.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use cl3::info_type::InfoType;
use cl3::types::{cl_command_queue, cl_event, cl_int, cl_mem};
use cl3::{command_queue, context, device, error_codes, event, memory, platform, program};

use crate::device::{DeviceError, Pinned, Properties, said};

/// The backend's part of the selector.
pub(crate) const NAME: &str = "opencl";

/// An object of OpenCL: a device, which lives as long as the process.
pub(super) struct Handle(*mut c_void);

// SAFETY: OpenCL's objects may be used from any thread (OpenCL 1.2, A.2), except that arguments of
// one kernel object may not be set by two threads; kernels are not kept in this type.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The devices of all platforms; their index is not yet set.
pub(super) fn devices() -> Result<Vec<(Handle, Properties)>, String> {
    let platforms = platform::get_platform_ids().map_err(|code| match code {
        error_codes::DLOPEN_RUNTIME_LOAD_FAILED => "libOpenCL.so.1 is not there (Debian: \
            ocl-icd-libopencl1, and the driver of the device)"
            .to_owned(),
        _ => format!("OpenCL lists no platform: {}", words(code)),
    })?;
    let mut found = Vec::new();
    for platform in platforms {
        let text = |what| string(platform::get_platform_info(platform, what));
        let driver =
            format!("{} {}", text(platform::CL_PLATFORM_NAME), text(platform::CL_PLATFORM_VERSION));
        // A platform without devices reports an error.
        let ids = device::get_device_ids(platform, device::CL_DEVICE_TYPE_ALL).unwrap_or_default();
        found.extend(ids.into_iter().map(|id| (Handle(id), properties(id, driver.clone()))));
    }
    if found.is_empty() {
        return Err("OpenCL lists no device: install the driver of yours".to_owned());
    }
    Ok(found)
}

fn properties(id: *mut c_void, driver: String) -> Properties {
    let number = |what| number(device::get_device_info(id, what));
    Properties {
        backend: NAME,
        index: 0,
        name: string(device::get_device_info(id, device::CL_DEVICE_NAME)),
        driver,
        memory: number(device::CL_DEVICE_GLOBAL_MEM_SIZE),
        largest_allocation: number(device::CL_DEVICE_MAX_MEM_ALLOC_SIZE),
        shared_memory: number(device::CL_DEVICE_LOCAL_MEM_SIZE) as usize,
        largest_group: number(device::CL_DEVICE_MAX_WORK_GROUP_SIZE) as usize,
        units: number(device::CL_DEVICE_MAX_COMPUTE_UNITS) as usize,
        clock: number(device::CL_DEVICE_MAX_CLOCK_FREQUENCY) as usize,
        cache: number(device::CL_DEVICE_GLOBAL_MEM_CACHE_SIZE),
        is_gpu: number(device::CL_DEVICE_TYPE) & device::CL_DEVICE_TYPE_GPU != 0,
    }
}

fn string(info: Result<InfoType, cl_int>) -> String {
    match info {
        Ok(InfoType::VecUchar(bytes)) => said(&bytes),
        _ => String::new(),
    }
}

fn number(info: Result<InfoType, cl_int>) -> u64 {
    match info {
        Ok(InfoType::Uint(number)) => u64::from(number),
        Ok(InfoType::Ulong(number)) => number,
        Ok(InfoType::Size(number)) => number as u64,
        _ => 0,
    }
}

/// The kernels, compiled for one device.
pub(super) struct Program {
    pub(super) context: *mut c_void,
    pub(super) program: *mut c_void,
    device: *mut c_void,
}

// SAFETY: as for `Handle`; each stream makes its own kernels from it.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Program {
    pub(super) fn make(device: &Handle, source: &str) -> Result<Program, DeviceError> {
        let doing = "compiling its kernels";
        let device = device.0;
        let context = context::create_context(&[device], ptr::null(), None, ptr::null_mut())
            .map_err(|code| failure(doing, code))?;
        let mut made = Program { context, program: ptr::null_mut(), device };
        made.program = program::create_program_with_source(context, &[source])
            .map_err(|code| failure(doing, code))?;
        let options = c"-cl-std=CL1.2";
        program::build_program(made.program, &[device], options, None, ptr::null_mut())
            .map_err(|code| made.complain(doing, code))?;
        Ok(made)
    }

    /// The error with the beginning of the compiler's log.
    fn complain(&self, doing: &'static str, code: cl_int) -> DeviceError {
        let log = program::CL_PROGRAM_BUILD_LOG;
        let log = string(program::get_program_build_info(self.program, self.device, log));
        let beginning: String = log.chars().take(500).collect();
        DeviceError::Other { doing, words: format!("{}: {beginning}", words(code)) }
    }

    /// A queue with properties such as `CL_QUEUE_PROFILING_ENABLE`, or 0.
    pub(super) fn queue(&self, properties: u64) -> Result<cl_command_queue, DeviceError> {
        // SAFETY: the device belongs to the context.
        unsafe { command_queue::create_command_queue(self.context, self.device, properties) }
            .map_err(|code| failure("opening a queue", code))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: both were made by `make` and are released once; streams and pinned memory
        // keep the `Program` alive.
        unsafe {
            if !self.program.is_null() {
                let _ = program::release_program(self.program);
            }
            let _ = context::release_context(self.context);
        }
    }
}

/// Allocates host memory that the driver has pinned: a buffer of the driver's choice, mapped
/// permanently.
pub(super) fn pin(program: &Arc<Program>, bytes: usize) -> Result<Pinned, DeviceError> {
    let doing = "allocating page-locked memory";
    let fail = |code| failure(doing, code);
    let bytes = bytes.max(1);
    let flags = memory::CL_MEM_READ_WRITE | memory::CL_MEM_ALLOC_HOST_PTR;
    let queue = program.queue(0)?;
    let mut held = Mapping { queue, buffer: None, address: None, _program: Arc::clone(program) };
    // SAFETY: no host memory is handed over.
    let buffer = unsafe { memory::create_buffer(program.context, flags, bytes, ptr::null_mut()) }
        .map_err(fail)?;
    held.buffer = Some(buffer);
    let mut address = ptr::null_mut();
    let how = memory::CL_MAP_READ | memory::CL_MAP_WRITE;
    // SAFETY: the buffer has this many bytes; the call returns when they are mapped.
    let mapped = unsafe {
        command_queue::enqueue_map_buffer(
            queue,
            buffer,
            1,
            how,
            0,
            bytes,
            &mut address,
            0,
            ptr::null(),
        )
    };
    release_event(mapped.map_err(fail)?);
    let start = NonNull::new(address.cast::<u8>())
        .ok_or_else(|| DeviceError::OutOfMemory { doing, words: "no address".to_owned() })?;
    held.address = Some(address);
    // SAFETY: the driver mapped `bytes` bytes there, which nothing else uses; writing initialises
    // them, and they stay mapped until `held` is dropped.
    unsafe {
        start.as_ptr().write_bytes(0, bytes);
        Ok(Pinned::new(start, bytes, Box::new(move || drop(held))))
    }
}

/// A buffer that is mapped into the host's memory.
struct Mapping {
    queue: cl_command_queue,
    buffer: Option<cl_mem>,
    address: Option<*mut c_void>,
    _program: Arc<Program>,
}

// SAFETY: as for `Handle`; it is the only user of its queue.
unsafe impl Send for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: each object is this value's own and is released once, the mapping first.
        unsafe {
            if let (Some(buffer), Some(address)) = (self.buffer, self.address) {
                let none = ptr::null();
                let unmapped =
                    command_queue::enqueue_unmap_mem_object(self.queue, buffer, address, 0, none);
                if let Ok(event) = unmapped {
                    release_event(event);
                }
                let _ = command_queue::finish(self.queue);
            }
            if let Some(buffer) = self.buffer {
                let _ = memory::release_mem_object(buffer);
            }
            let _ = command_queue::release_command_queue(self.queue);
        }
    }
}

pub(super) fn release_event(event: cl_event) {
    // SAFETY: the caller's own reference, given up here.
    let _ = unsafe { event::release_event(event) };
}

pub(super) fn failure(doing: &'static str, code: cl_int) -> DeviceError {
    let words = words(code);
    match code {
        error_codes::CL_DEVICE_NOT_AVAILABLE
        | error_codes::CL_INVALID_DEVICE
        | error_codes::CL_INVALID_CONTEXT
        | error_codes::CL_INVALID_COMMAND_QUEUE => DeviceError::Lost { doing, words },
        error_codes::CL_MEM_OBJECT_ALLOCATION_FAILURE
        | error_codes::CL_OUT_OF_HOST_MEMORY
        | error_codes::CL_INVALID_BUFFER_SIZE => DeviceError::OutOfMemory { doing, words },
        _ => DeviceError::Other { doing, words },
    }
}

pub(super) fn words(code: cl_int) -> String {
    format!("{} ({code})", error_codes::error_text(code))
}
