//! The functions of the CUDA driver, `libcuda.so.1` (CUDA Driver API, version 11 and later). The names
//! end in `_v2` where `cuda.h` defines them so.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::{mem, ptr};

use super::super::words::failure;
use crate::device::{DeviceError, said};

/// `CUdeviceptr`, of a pointer's length.
pub(in super::super) type Address = usize;
/// `CUcontext`, `CUmodule`, `CUfunction`, `CUstream` or `CUevent`.
pub(in super::super) type Object = *mut c_void;

/// Declares the driver's functions that the backend uses, and finds all of them.
macro_rules! functions {
    ($($field:ident = $symbol:literal ($($argument:ty),* $(,)?);)*) => {
        /// The driver's functions. The library stays loaded as long as the process lives.
        pub(in super::super) struct Driver {
            $(pub(in super::super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Driver {
            fn find(library: *mut c_void) -> Result<Driver, String> {
                Ok(Driver {
                    // SAFETY: `cuda.h` declares the function of this name with these parameters.
                    $($field: unsafe {
                        mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>(
                            symbol(library, $symbol)?,
                        )
                    },)*
                })
            }
        }
    };
}

functions! {
    init = c"cuInit" (c_uint);
    driver_version = c"cuDriverGetVersion" (*mut c_int);
    error_name = c"cuGetErrorName" (c_int, *mut *const c_char);
    error_string = c"cuGetErrorString" (c_int, *mut *const c_char);
    device_count = c"cuDeviceGetCount" (*mut c_int);
    device_get = c"cuDeviceGet" (*mut c_int, c_int);
    device_name = c"cuDeviceGetName" (*mut c_char, c_int, c_int);
    device_memory = c"cuDeviceTotalMem_v2" (*mut usize, c_int);
    device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    context_flags = c"cuDevicePrimaryCtxSetFlags_v2" (c_int, c_uint);
    context_retain = c"cuDevicePrimaryCtxRetain" (*mut Object, c_int);
    context_release = c"cuDevicePrimaryCtxRelease_v2" (c_int);
    context_push = c"cuCtxPushCurrent_v2" (Object);
    context_pop = c"cuCtxPopCurrent_v2" (*mut Object);
    module_load = c"cuModuleLoadDataEx"
        (*mut Object, *const c_void, c_uint, *const c_int, *const *mut c_void);
    module_unload = c"cuModuleUnload" (Object);
    module_function = c"cuModuleGetFunction" (*mut Object, Object, *const c_char);
    function_set = c"cuFuncSetAttribute" (Object, c_int, c_int);
    stream_create = c"cuStreamCreate" (*mut Object, c_uint);
    stream_destroy = c"cuStreamDestroy_v2" (Object);
    stream_synchronize = c"cuStreamSynchronize" (Object);
    event_create = c"cuEventCreate" (*mut Object, c_uint);
    event_destroy = c"cuEventDestroy_v2" (Object);
    event_record = c"cuEventRecord" (Object, Object);
    event_synchronize = c"cuEventSynchronize" (Object);
    event_elapsed = c"cuEventElapsedTime" (*mut f32, Object, Object);
    allocate = c"cuMemAlloc_v2" (*mut Address, usize);
    free = c"cuMemFree_v2" (Address);
    host_allocate = c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    host_free = c"cuMemFreeHost" (*mut c_void);
    copy_up = c"cuMemcpyHtoDAsync_v2" (Address, *const c_void, usize, Object);
    copy_down = c"cuMemcpyDtoHAsync_v2" (*mut c_void, Address, usize, Object);
    set_words = c"cuMemsetD32Async" (Address, c_uint, usize, Object);
    launch = c"cuLaunchKernel"
        (Object, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Object,
         *mut *mut c_void, *mut *mut c_void);
}

fn symbol(library: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: `library` is from `dlopen`, and is never closed; the name ends in a zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        let name = said(name.to_bytes());
        return Err(format!("the CUDA driver is too old: it has no {name}; install a newer one"));
    }
    Ok(found)
}

/// Facts about a device before its use.
pub(in super::super) struct Facts {
    /// Its handle.
    pub(in super::super) device: c_int,
    pub(in super::super) name: String,
    pub(in super::super) memory: u64,
    /// Shared memory that one block can have, in bytes.
    pub(in super::super) shared_memory: usize,
    pub(in super::super) units: usize,
    /// Clock in MHz.
    pub(in super::super) clock: usize,
    /// Cache in bytes.
    pub(in super::super) cache: u64,
    /// Compute capability: 80 for 8.0.
    pub(in super::super) capability: i32,
}

impl Driver {
    /// Loads and initialises the driver.
    ///
    /// # Errors
    /// The reason why it can't be loaded, as text.
    pub(in super::super) fn load(path: &CStr) -> Result<Driver, String> {
        // SAFETY: loading runs the library's initialisers, as linking to it would; the path ends in a
        // zero.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            let path = said(path.to_bytes());
            return Err(format!("{path} is not there; it comes with NVIDIA's driver"));
        }
        let driver = Driver::find(library)?;
        // SAFETY: the flags must be 0.
        let code = unsafe { (driver.init)(0) };
        driver.check("starting", code).map_err(|error| error.to_string())?;
        Ok(driver)
    }

    /// The driver's version, such as 12040 for CUDA 12.4.
    pub(in super::super) fn version(&self) -> Result<i32, DeviceError> {
        let mut version = 0;
        // SAFETY: it writes one int.
        self.check("asked for its version", unsafe { (self.driver_version)(&mut version) })?;
        Ok(version)
    }

    pub(in super::super) fn count(&self) -> Result<usize, DeviceError> {
        let mut count = 0;
        // SAFETY: it writes one int.
        self.check("listing devices", unsafe { (self.device_count)(&mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    pub(in super::super) fn facts(&self, ordinal: usize) -> Result<Facts, DeviceError> {
        let doing = "asked what it is";
        let (mut device, mut memory, mut name) = (0, 0, [0_u8; 256]);
        // SAFETY: it writes one int.
        self.check(doing, unsafe { (self.device_get)(&mut device, ordinal as c_int) })?;
        let text = name.as_mut_ptr().cast::<c_char>();
        // SAFETY: it writes at most this many bytes.
        self.check(doing, unsafe { (self.device_name)(text, name.len() as c_int, device) })?;
        // SAFETY: it writes one size.
        self.check(doing, unsafe { (self.device_memory)(&mut memory, device) })?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: it writes one int.
            self.check(doing, unsafe { (self.device_attribute)(&mut value, which, device) })?;
            Ok(value)
        };
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(Facts {
            device,
            name: said(name.to_bytes()),
            memory: memory as u64,
            shared_memory: attribute(SHARED_MEMORY_OPTIN)?.max(0) as usize,
            units: attribute(MULTIPROCESSORS)?.max(0) as usize,
            clock: attribute(CLOCK)?.max(0) as usize / 1_000,
            cache: attribute(SECOND_CACHE)?.max(0) as u64,
            capability: 10 * attribute(CAPABILITY_MAJOR)? + attribute(CAPABILITY_MINOR)?,
        })
    }

    /// The error that a function's result stands for, if any.
    pub(in super::super) fn check(
        &self,
        doing: &'static str,
        code: c_int,
    ) -> Result<(), DeviceError> {
        if code == 0 {
            return Ok(());
        }
        let text = |function: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut text = ptr::null();
            // SAFETY: it writes one pointer, to a text that lives as long as the library.
            match unsafe { function(code, &mut text) } {
                // SAFETY: as above; the text ends in a zero.
                0 if !text.is_null() => said(unsafe { CStr::from_ptr(text) }.to_bytes()),
                _ => "an error that it has no words for".into(),
            }
        };
        let words = format!("{} ({})", text(self.error_string), text(self.error_name));
        Err(failure(doing, code, words))
    }
}

/// The driver's library.
pub(in super::super) const LIBRARY: &CStr = c"libcuda.so.1";

/// `CU_DEVICE_ATTRIBUTE_…`: `CLOCK_RATE` (in kHz), `L2_CACHE_SIZE`, `MULTIPROCESSOR_COUNT`,
/// `COMPUTE_CAPABILITY_MAJOR` and `_MINOR`, `MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`.
const CLOCK: c_int = 13;
const SECOND_CACHE: c_int = 38;
const MULTIPROCESSORS: c_int = 16;
const CAPABILITY_MAJOR: c_int = 75;
const CAPABILITY_MINOR: c_int = 76;
const SHARED_MEMORY_OPTIN: c_int = 97;
