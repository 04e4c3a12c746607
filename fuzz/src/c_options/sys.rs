//! The C library as a C program sees it: the part of `evener.h` that is needed here.

#![allow(unsafe_code, reason = "it calls C's functions")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

// Only its exported names are used.
use evener_c as _;

pub(super) const OK: i32 = 0;
pub(super) const INTERNAL: i32 = 16;
pub(super) const REMOVE_SOURCE: u32 = 4;
pub(super) const DRY_RUN: u32 = 256;

#[derive(Clone, Copy)]
pub(super) enum Direction {
    Encrypt,
    Decrypt,
}

/// The content of the options.
pub(super) struct Wishes {
    pub(super) flags: u32,
    pub(super) jobs: usize,
    pub(super) size: usize,
    pub(super) memory: usize,
    pub(super) engines: Vec<CString>,
    pub(super) suffix: Option<CString>,
    pub(super) context: Vec<u8>,
}

/// `evener_options`.
#[repr(C)]
pub(super) struct Options {
    size: usize,
    engines: *const *const c_char,
    engine_count: usize,
    jobs: usize,
    memory: usize,
    suffix: *const c_char,
    context: *const u8,
    context_length: usize,
    flags: u32,
    progress_interval: u32,
    progress: Option<unsafe extern "C" fn(*const c_void, *mut c_void) -> c_int>,
    user_data: *mut c_void,
}

/// The size that a caller claims may exceed the struct: the bytes after it are zero.
#[repr(C)]
struct Padded {
    options: Options,
    room: [u8; 1 << 16],
}

unsafe extern "C" {
    fn evener_file_key_from_bytes(bytes: *const u8, length: usize, key: *mut *mut c_void) -> i32;
    fn evener_file_key_free(key: *mut c_void);
    fn evener_last_error() -> *const c_char;
    fn evener_encrypt_path(
        key: *const c_void,
        source: *const c_char,
        target: *const c_char,
        options: *const Options,
        report: *mut *mut c_void,
    ) -> i32;
    fn evener_decrypt_path(
        key: *const c_void,
        source: *const c_char,
        target: *const c_char,
        options: *const Options,
        report: *mut *mut c_void,
    ) -> i32;
    fn evener_report_free(report: *mut c_void);
}

/// Encrypts or decrypts a tree, and returns the status.
pub(super) fn process(direction: Direction, source: &Path, target: &Path, wishes: &Wishes) -> i32 {
    let engines: Vec<_> = wishes.engines.iter().map(|name| name.as_ptr()).collect();
    let options = Options {
        size: wishes.size,
        engines: engines.as_ptr(),
        engine_count: engines.len(),
        jobs: wishes.jobs,
        memory: wishes.memory,
        suffix: wishes.suffix.as_ref().map_or(ptr::null(), |suffix| suffix.as_ptr()),
        context: wishes.context.as_ptr(),
        context_length: wishes.context.len(),
        flags: wishes.flags,
        progress_interval: 0,
        progress: None,
        user_data: ptr::null_mut(),
    };
    let padded = Box::new(Padded { options, room: [0; 1 << 16] });
    let (source, target) = (c_path(source), c_path(target));
    let (mut key, mut report) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the key's bytes are 32 and `key` has room for a pointer.
    let made = unsafe { evener_file_key_from_bytes([7; 32].as_ptr(), 32, &mut key) };
    assert_eq!(made, OK);
    let perform = match direction {
        Direction::Encrypt => evener_encrypt_path,
        Direction::Decrypt => evener_decrypt_path,
    };
    // SAFETY: the key is from the library. The paths, the suffix and the engines' names end in a
    // zero and, like the context, live until the end of this function. The size is at most 255 <<
    // 7, for which `padded` has initialised bytes. `report` has room for a pointer. Key and report
    // are freed once, and not used after that.
    unsafe {
        let options = (&raw const *padded).cast::<Options>();
        let status = perform(key, source.as_ptr(), target.as_ptr(), options, &mut report);
        evener_report_free(report);
        evener_file_key_free(key);
        status
    }
}

/// The library's message about the last failed call on this thread.
pub(super) fn last_error() -> String {
    // SAFETY: it returns a text that ends in a zero, valid until the next call on this thread.
    unsafe { CStr::from_ptr(evener_last_error()) }.to_string_lossy().into_owned()
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path without a zero")
}
