//! Calls into the fake driver, and the stream calls of a batch.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem;
use std::path::Path;

use crate::device::{Argument, Device, DeviceError, Launch, Place, Stream};

/// A copy of the fake driver, with its own state.
pub(super) struct Fake {
    library: *mut c_void,
    pub(super) path: CString,
}

// SAFETY: the functions of the fake take a lock, except those that a test calls when no other
// thread works.
unsafe impl Send for Fake {}
// SAFETY: as above.
unsafe impl Sync for Fake {}

/// Instructions for the fake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// The number of the call that fails, from 1; 0 for none.
    pub(super) fail_at: i32,
    pub(super) code: i32,
    /// True if all later calls fail as well.
    pub(super) is_sticky: bool,
    /// The device's memory, and the most pinned memory at once.
    pub(super) memory: usize,
    /// True if kernels compute wrongly.
    pub(super) lies: bool,
}

impl Fake {
    pub(super) fn load(path: &Path) -> Fake {
        let path = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: the path ends in a zero; the library has no initialisers.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "the fake driver can't be loaded");
        Fake { library, path }
    }

    fn find(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the library is never closed.
        let found = unsafe { libc::dlsym(self.library, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    }

    pub(super) fn begin(&self, told: Told) {
        type Begin = unsafe extern "C" fn(c_int, c_int, c_int, usize, c_int);
        let Told { fail_at, code, is_sticky, memory, lies } = told;
        // SAFETY: `fake.c` declares it so.
        unsafe {
            let begin = mem::transmute::<*mut c_void, Begin>(self.find(c"fake_begin"));
            begin(fail_at, code, is_sticky.into(), memory, lies.into());
        }
    }

    /// A driver of this version, with this many devices of a compute capability (80 for 8.0).
    pub(super) fn be(&self, version: i32, devices: i32, capability: i32) {
        type Be = unsafe extern "C" fn(c_int, c_int, c_int);
        // SAFETY: `fake.c` declares it so.
        unsafe {
            let be = mem::transmute::<*mut c_void, Be>(self.find(c"fake_be"));
            be(version, devices, capability);
        }
    }

    /// From now on this function of the driver never returns.
    pub(super) fn hang_in(&self, function: &'static CStr) {
        // SAFETY: `fake.c` declares it so; the text lives for ever.
        unsafe {
            let hang = mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char)>(
                self.find(c"fake_hang"),
            );
            hang(function.as_ptr());
        }
    }

    /// The number of calls since [`Fake::begin`].
    pub(super) fn calls(&self) -> i32 {
        // SAFETY: `fake.c` declares it so.
        unsafe {
            mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(self.find(c"fake_calls"))(
            )
        }
    }

    /// Its complaints, when everything is closed.
    pub(super) fn end(&self) -> String {
        // SAFETY: `fake.c` declares it so; the text stays until the next `begin`.
        unsafe {
            let end = mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(
                self.find(c"fake_end"),
            );
            CStr::from_ptr(end()).to_string_lossy().into_owned()
        }
    }
}

/// Copies to the device, starts `flip` and copies back, from one buffer of pinned memory to another.
pub(super) fn flip(device: &dyn Device, text: &[u8]) -> Result<Vec<u8>, DeviceError> {
    let (mut input, mut output) = (device.pin(text.len())?, device.pin(text.len())?);
    assert!(input.iter().chain(&*output).all(|&byte| byte == 0), "pinned memory is all zero");
    input.copy_from_slice(text);
    let done = flip_between(device, &input, &mut output);
    assert!(*input == *text, "the input was changed");
    done.map(|()| output.to_vec())
}

fn flip_between(device: &dyn Device, input: &[u8], output: &mut [u8]) -> Result<(), DeviceError> {
    let mut stream = device.open()?;
    let buffer = stream.allocate(input.len() + 4)?;
    let other = stream.allocate(1)?;
    let at = Place { buffer, offset: 4 };
    let launch = Launch {
        kernel: "flip",
        groups: 1,
        group_size: 256,
        dynamic_shared: 0,
        arguments: &[Argument::Buffer(buffer), Argument::U32(input.len() as u32 + 4)],
    };
    let large = Launch {
        kernel: "large",
        dynamic_shared: 128 << 10,
        arguments: &[Argument::Buffer(other), Argument::U64(1)],
        ..launch
    };
    // SAFETY: input and output outlive the stream, which is declared after them and dropped first;
    // the kernels take these arguments.
    unsafe {
        stream.copy_up(input.as_ptr(), input.len(), at)?;
        stream.launch(&launch)?;
        stream.launch(&large)?;
        stream.copy_down(at, output.as_mut_ptr(), output.len())?;
    }
    stream.flush()?;
    stream.finish()?;
    // Queued commands are finished before a stream's drop.
    // SAFETY: as above.
    unsafe { stream.copy_up(input.as_ptr(), input.len(), at) }
}

/// Starts an unknown kernel, without arguments.
pub(super) fn launch_unknown(stream: &mut dyn Stream) -> Result<(), DeviceError> {
    let launch =
        Launch { kernel: "unknown", groups: 1, group_size: 1, dynamic_shared: 0, arguments: &[] };
    // SAFETY: there is no such kernel.
    unsafe { stream.launch(&launch) }
}

/// Tries to copy bytes that are not in the buffer.
pub(super) fn copy_beyond(stream: &mut dyn Stream, at: Place) -> [Result<(), DeviceError>; 2] {
    let mut bytes = [0_u8; 64];
    // SAFETY: nothing is queued, as the test sees.
    unsafe {
        [
            stream.copy_up(bytes.as_ptr(), bytes.len(), at),
            stream.copy_down(at, bytes.as_mut_ptr(), bytes.len()),
        ]
    }
}
