//! A device's context, and calls into the CUDA driver.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;

use super::driver::{Address, Driver, LIBRARY, Object};
use crate::device::{DeviceError, Pinned, said};
use crate::kernels;

/// The primary context of a device, which all users of the device in this process share, with the
/// kernels in it.
pub(super) struct Context {
    driver: Arc<Driver>,
    device: c_int,
    context: Object,
    /// The kernels' text.
    ptx: &'static str,
    /// The loaded kernels by name, each in a module of its own: a driver compiles for milliseconds
    /// what one cipher needs, and for seconds all of it.
    loaded: Mutex<HashMap<&'static str, Loaded>>,
}

#[derive(Clone, Copy)]
struct Loaded {
    module: Object,
    function: Object,
}

// SAFETY: the driver's objects may be used from any thread in which their context is current, and
// every call through this type makes it current.
unsafe impl Send for Context {}
// SAFETY: as above; the driver serialises calls itself.
unsafe impl Sync for Context {}

/// The context is current in this thread; dropping this restores the previous one.
struct Current<'c>(&'c Driver);

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: it writes one pointer. It ends what `Context::enter` began on this thread:
        // `Current` never leaves the function that made it.
        let _ = unsafe { (self.0.context_pop)(&mut popped) };
    }
}

impl Context {
    /// Gets the context of a device.
    pub(super) fn retain(
        driver: &Arc<Driver>,
        device: c_int,
        ptx: &'static str,
    ) -> Result<Context, DeviceError> {
        // SAFETY: a valid device. A context that is in use keeps its flags; then only events, which
        // have their own, keep the thread from spinning.
        let _ = unsafe { (driver.context_flags)(device, BLOCKING_SYNC) };
        let mut context = ptr::null_mut();
        // SAFETY: it writes one pointer; released when the value is dropped.
        driver.check("opened", unsafe { (driver.context_retain)(&mut context, device) })?;
        let driver = Arc::clone(driver);
        Ok(Context { driver, device, context, ptx, loaded: Mutex::default() })
    }

    fn load(&self, ptx: &CStr) -> Result<Object, DeviceError> {
        let doing = "compiling its kernels";
        let _current = self.enter(doing)?;
        let mut log = vec![0_u8; LOG_LENGTH];
        let options = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_SIZE];
        // The size is passed as the value of the pointer.
        let values = [log.as_mut_ptr().cast::<c_void>(), ptr::without_provenance_mut(LOG_LENGTH)];
        let mut module = ptr::null_mut();
        // SAFETY: the text ends in a zero; there are as many values as options, and the log has the
        // given length.
        let code = unsafe {
            let text = ptx.as_ptr().cast::<c_void>();
            let count = options.len() as c_uint;
            (self.driver.module_load)(&mut module, text, count, options.as_ptr(), values.as_ptr())
        };
        self.driver.check(doing, code).map_err(|error| match error {
            DeviceError::Other { doing, words } => {
                let log = CStr::from_bytes_until_nul(&log).unwrap_or_default().to_bytes();
                let line = log.split(|&byte| byte == b'\n').next().filter(|line| !line.is_empty());
                let first = line.map(|line| format!(": {}", said(line))).unwrap_or_default();
                DeviceError::Other { doing, words: words + &first }
            }
            error => error,
        })?;
        Ok(module)
    }

    fn enter(&self, doing: &'static str) -> Result<Current<'_>, DeviceError> {
        // SAFETY: the context is retained for as long as `self` lives.
        self.driver.check(doing, unsafe { (self.driver.context_push)(self.context) })?;
        Ok(Current(&self.driver))
    }

    /// Calls a function while the context is current.
    fn call(
        &self,
        doing: &'static str,
        function: impl FnOnce(&Driver) -> c_int,
    ) -> Result<(), DeviceError> {
        let _current = self.enter(doing)?;
        self.driver.check(doing, function(&self.driver))
    }

    /// A kernel by its name. The first call for a name compiles the kernel; other threads wait for it.
    pub(super) fn function(&self, name: &'static str) -> Result<Function, DeviceError> {
        let mut loaded = self.loaded.lock().ignore_poison();
        if let Some(known) = loaded.get(name) {
            return Ok(Function(known.function));
        }
        let text = kernels::ptx_of(self.ptx, name).unwrap_or_else(|| self.ptx.to_owned());
        let text = CString::new(text).unwrap_or_default();
        let module = self.load(&text)?;
        let (name_of, mut function) = (CString::new(name).unwrap_or_default(), ptr::null_mut());
        // SAFETY: it writes one pointer, which is valid as long as the module.
        let found = self.call("looking for a kernel", |driver| unsafe {
            (driver.module_function)(&mut function, module, name_of.as_ptr())
        });
        if let Err(error) = found {
            self.unload(module);
            return Err(error);
        }
        loaded.insert(name, Loaded { module, function });
        Ok(Function(function))
    }

    fn unload(&self, module: Object) {
        // SAFETY: loaded by `load`, and unloaded once, when none of its kernels runs.
        let _ = self.call("closing it", |driver| unsafe { (driver.module_unload)(module) });
    }

    /// Allows a kernel this much dynamic shared memory.
    pub(super) fn allow_shared(&self, function: Function, bytes: u32) -> Result<(), DeviceError> {
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: a function of this context's module.
        self.call("preparing a kernel", |driver| unsafe {
            (driver.function_set)(function.0, MAX_DYNAMIC_SHARED, bytes)
        })
    }

    /// Allocates page-locked memory of the host, all zero.
    pub(super) fn pin(self: &Arc<Context>, bytes: usize) -> Result<Pinned, DeviceError> {
        let doing = "allocating page-locked memory";
        let bytes = bytes.max(1);
        let mut start = ptr::null_mut();
        // SAFETY: it writes one pointer.
        self.call(doing, |driver| unsafe { (driver.host_allocate)(&mut start, bytes, PORTABLE) })?;
        let Some(start) = NonNull::new(start.cast::<u8>()) else {
            return Err(DeviceError::OutOfMemory { doing, words: "it has no address".to_owned() });
        };
        let context = Arc::clone(self);
        let address = start.as_ptr().expose_provenance();
        let release = move || {
            let start = ptr::with_exposed_provenance_mut(address);
            // SAFETY: it was allocated above, and `Pinned` calls this once, in its drop.
            let _ = context.call("freeing memory", |driver| unsafe { (driver.host_free)(start) });
        };
        // SAFETY: the driver gave `bytes` bytes, to which nothing else has access; writing
        // initialises them. They stay allocated until `release` is called, which keeps the context
        // alive.
        unsafe {
            start.as_ptr().write_bytes(0, bytes);
            Ok(Pinned::new(start, bytes, Box::new(release)))
        }
    }

    /// Waits for all commands queued on a caller's stream; 0 for the default one.
    ///
    /// # Safety
    /// The stream must be one of this context.
    pub(super) unsafe fn wait_for(&self, stream: u64) -> Result<(), DeviceError> {
        let doing = "waiting for the caller's stream";
        let stream = ptr::with_exposed_provenance_mut(stream as usize);
        let event = self.make_event(EVENT_BLOCKS | EVENT_HAS_NO_TIME)?;
        // SAFETY: the event is of this context, and so is the stream, by the caller's promise.
        let waited = self.call(doing, |driver| unsafe {
            match (driver.event_record)(event, stream) {
                0 => (driver.event_synchronize)(event),
                code => code,
            }
        });
        self.destroy_event(event);
        waited
    }

    fn make_event(&self, flags: c_uint) -> Result<Object, DeviceError> {
        let mut event = ptr::null_mut();
        // SAFETY: it writes one pointer.
        self.call("opening a stream", |driver| unsafe {
            (driver.event_create)(&mut event, flags)
        })?;
        Ok(event)
    }

    fn destroy_event(&self, event: Object) {
        // SAFETY: the event is from `make_event` and is not used any more.
        let _ = self.call("closing a stream", |driver| unsafe { (driver.event_destroy)(event) });
    }

    /// Opens a stream.
    pub(super) fn queue(self: &Arc<Context>) -> Result<Commands, DeviceError> {
        let event = self.make_event(EVENT_BLOCKS | EVENT_HAS_NO_TIME)?;
        let mut stream = ptr::null_mut();
        // SAFETY: it writes one pointer.
        let opened = self.call("opening a stream", |driver| unsafe {
            (driver.stream_create)(&mut stream, NON_BLOCKING)
        });
        if let Err(error) = opened {
            self.destroy_event(event);
            return Err(error);
        }
        Ok(Commands { context: Arc::clone(self), stream, event, timers: Vec::new() })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Streams and pinned memory keep the context alive, so no kernel runs.
        let loaded = std::mem::take(&mut *self.loaded.lock().ignore_poison());
        loaded.values().for_each(|kernel| self.unload(kernel.module));
        // SAFETY: retained by `retain`, and released once.
        let _ = unsafe { (self.driver.context_release)(self.device) };
    }
}

/// Waits for a caller's stream in the primary context of a device; 0 for the default stream.
///
/// # Safety
/// The stream must be one of this context.
pub(crate) unsafe fn wait_for(index: usize, stream: u64) -> Result<(), DeviceError> {
    let words = |words| DeviceError::Other { doing: "waiting for the caller's stream", words };
    let driver = Arc::new(Driver::load(LIBRARY).map_err(words)?);
    let facts = driver.facts(index)?;
    // SAFETY: as the caller promises.
    unsafe { Context::retain(&driver, facts.device, "")?.wait_for(stream) }
}

/// A kernel.
#[derive(Clone, Copy)]
pub(super) struct Function(Object);

// SAFETY: as for `Context`, to whose module it belongs.
unsafe impl Send for Function {}

/// A stream, and the event for waiting for its end.
pub(super) struct Commands {
    context: Arc<Context>,
    stream: Object,
    event: Object,
    /// Two events with timestamps, if times are measured.
    timers: Vec<Object>,
}

// SAFETY: as for `Context`.
unsafe impl Send for Commands {}

impl Commands {
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn allocate(&mut self, bytes: usize) -> Result<Address, DeviceError> {
        let mut address = 0;
        // SAFETY: it writes one address.
        self.context.call("allocating its memory", |driver| unsafe {
            (driver.allocate)(&mut address, bytes)
        })?;
        Ok(address)
    }

    /// # Safety
    /// The address is from [`Commands::allocate`], no queued command uses it, and it is freed once.
    pub(super) unsafe fn free(&mut self, address: Address) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises.
        self.context.call("freeing its memory", |driver| unsafe { (driver.free)(address) })
    }

    /// # Safety
    /// This many bytes are allocated on the device; those of the host are as
    /// [`Stream::copy_up`](crate::device::Stream::copy_up) requires.
    pub(super) unsafe fn copy_up(
        &mut self,
        host: *const u8,
        length: usize,
        to: Address,
    ) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises.
        self.context.call("copying to the device", |driver| unsafe {
            (driver.copy_up)(to, host.cast(), length, self.stream)
        })
    }

    /// # Safety
    /// As for [`Commands::copy_up`].
    pub(super) unsafe fn copy_down(
        &mut self,
        from: Address,
        host: *mut u8,
        length: usize,
    ) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises.
        self.context.call("copying from the device", |driver| unsafe {
            (driver.copy_down)(host.cast(), from, length, self.stream)
        })
    }

    /// Sets words of 4 bytes to zero.
    ///
    /// # Safety
    /// This many are allocated at this address, which is a multiple of 4.
    pub(super) unsafe fn zero(&mut self, at: Address, words: usize) -> Result<(), DeviceError> {
        // SAFETY: as the caller promises.
        self.context.call("wiping its memory", |driver| unsafe {
            (driver.set_words)(at, 0, words, self.stream)
        })
    }

    /// # Safety
    /// The kernel takes these arguments, and accesses only allocated memory.
    pub(super) unsafe fn launch(
        &mut self,
        function: Function,
        groups: u32,
        group_size: u32,
        shared: u32,
        arguments: &mut [u64],
    ) -> Result<(), DeviceError> {
        // A parameter of 4 bytes is read from the start of its word: the machine is little-endian,
        // like all machines that CUDA supports.
        let mut pointers: Vec<_> =
            arguments.iter_mut().map(|argument| ptr::from_mut(argument).cast()).collect();
        // SAFETY: as the caller promises; the driver copies the arguments before it returns.
        self.context.call("starting a kernel", |driver| unsafe {
            (driver.launch)(
                function.0,
                groups,
                1,
                1,
                group_size,
                1,
                1,
                shared,
                self.stream,
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        })
    }

    /// Records the time at which the device reaches this point.
    pub(super) fn begin_timing(&mut self) -> Result<(), DeviceError> {
        while self.timers.len() < 2 {
            let timer = self.context.make_event(EVENT_BLOCKS)?;
            self.timers.push(timer);
        }
        self.record(0)
    }

    /// Waits for all queued commands, and returns the seconds since the recorded time.
    pub(super) fn end_timing(&mut self) -> Result<f64, DeviceError> {
        let doing = "taking its time";
        let &[begun, ended] = &self.timers[..] else {
            let words = "it was not begun".to_owned();
            return Err(DeviceError::Other { doing, words });
        };
        self.record(1)?;
        let mut milliseconds = 0.0;
        // SAFETY: both are recorded events of this context, with timestamps.
        self.context.call("computing", |driver| unsafe {
            match (driver.event_synchronize)(ended) {
                0 => (driver.event_elapsed)(&mut milliseconds, begun, ended),
                code => code,
            }
        })?;
        Ok(f64::from(milliseconds) / 1e3)
    }

    fn record(&mut self, timer: usize) -> Result<(), DeviceError> {
        let timer = self.timers[timer];
        // SAFETY: both are of this context, and are destroyed only by `drop`.
        self.context
            .call("taking its time", |driver| unsafe { (driver.event_record)(timer, self.stream) })
    }

    /// Marks the commands queued so far.
    pub(super) fn mark(&mut self) -> Result<(), DeviceError> {
        // SAFETY: both are of this context, and are destroyed only by `drop`.
        self.context
            .call("computing", |driver| unsafe { (driver.event_record)(self.event, self.stream) })
    }

    /// Waits for the marked commands; the thread sleeps.
    pub(super) fn finish_marked(&mut self) -> Result<(), DeviceError> {
        // SAFETY: as in `mark`; an event that was never recorded is over.
        self.context.call("computing", |driver| unsafe { (driver.event_synchronize)(self.event) })
    }

    /// Waits for all queued commands; the thread sleeps.
    pub(super) fn finish(&mut self) -> Result<(), DeviceError> {
        self.mark()?;
        self.finish_marked()
    }

    /// Waits for all queued commands, after the usual way has failed.
    pub(super) fn drain(&mut self) -> Result<(), DeviceError> {
        // SAFETY: as in `finish`.
        self.context.call("waiting", |driver| unsafe { (driver.stream_synchronize)(self.stream) })
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // SAFETY: made by `Context::queue`, destroyed once; nothing uses it any more.
        let _ = self
            .context
            .call("closing a stream", |driver| unsafe { (driver.stream_destroy)(self.stream) });
        for event in self.timers.drain(..).chain([self.event]) {
            self.context.destroy_event(event);
        }
    }
}

/// `CU_CTX_SCHED_BLOCKING_SYNC`: a waiting thread sleeps.
const BLOCKING_SYNC: c_uint = 4;
/// `CU_STREAM_NON_BLOCKING`: the stream does not wait for the default one.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_BLOCKING_SYNC` and `CU_EVENT_DISABLE_TIMING`.
const EVENT_BLOCKS: c_uint = 1;
const EVENT_HAS_NO_TIME: c_uint = 2;
/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for all contexts.
const PORTABLE: c_uint = 1;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: c_int = 8;
/// `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
const ERROR_LOG_BUFFER: c_int = 5;
const ERROR_LOG_BUFFER_SIZE: c_int = 6;
/// Enough for the first line, in bytes.
const LOG_LENGTH: usize = 4096;
