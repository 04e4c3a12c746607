//! Converts pointers from C to Rust's types; versions and messages.
//!
//! The rules at the beginning of the header require what can't be checked: a pointer that is not
//! NULL points to as many bytes as its length says, these stay valid during the call, and no other
//! thread changes them meanwhile. Each SAFETY note relies on these rules and on the checks.

use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::{ptr, slice};

use super::{enter_or, given};
use crate::status::{self, Status, Trouble};

/// The version of this header's interface. A library is compatible with every program that was
/// compiled with the same number.
pub const EVENER_ABI_VERSION: u32 = 1;

/// The interface's version of the library that is loaded: compare with `EVENER_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn evener_abi_version() -> u32 {
    EVENER_ABI_VERSION
}

/// The library's version, such as `0.1.0`. Static.
#[unsafe(no_mangle)]
pub extern "C" fn evener_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The message of the last call on this thread that did not return `EVENER_STATUS_OK`: one line
/// that names the file, engine or argument, and what to do next. The text belongs to the library
/// and is valid until the next such call on this thread. Empty if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn evener_last_error() -> *const c_char {
    enter_or(c"".as_ptr(), || status::last_message(CStr::as_ptr))
}

/// A short text for a status, such as `authentication failed`. Static.
#[unsafe(no_mangle)]
pub extern "C" fn evener_status_words(status: i32) -> *const c_char {
    Status::from_number(status).map_or(c"unknown status", Status::words).as_ptr()
}

/// A struct of which caller and library may have different versions. Its first field is
/// `size: usize`, which the caller sets to the `sizeof` that it was compiled with; fields are only
/// ever added at the end, and zero means the behaviour before the field existed.
///
/// # Safety
/// The type is `repr(C)`, begins with `size: usize`, and every pattern of bits that C can put
/// there is valid for it: it holds nothing but integers, floats, raw pointers and nullable
/// function pointers.
pub(crate) unsafe trait Versioned: Copy {
    /// The size of the struct's first version.
    const FIRST_SIZE: usize;
    /// Its name in the header.
    const NAME: &'static str;
}

/// Reads a struct of any version; fields that the caller's version lacks are zero.
///
/// # Safety
/// `pointer` is NULL or points to a `T` of some version, with its `size` field set.
pub(crate) unsafe fn read_versioned<T: Versioned>(pointer: *const T) -> Result<T, Trouble> {
    // SAFETY: as asked of the caller.
    let size = unsafe { size_of_given(pointer) }?;
    let mut read = MaybeUninit::<T>::zeroed();
    // SAFETY: the caller's struct has `size` bytes and the copy has room for a `T`; all bytes
    // are initialised then, and `Versioned` promises that any bits make a `T`.
    unsafe {
        ptr::copy_nonoverlapping(
            pointer.cast::<u8>(),
            read.as_mut_ptr().cast(),
            size.min(size_of::<T>()),
        );
        Ok(read.assume_init())
    }
}

/// Fills in a struct of any version, except its size: fields that the caller's version lacks are
/// skipped, and fields that only the caller's version has are set to zero.
///
/// # Safety
/// As for [`read_versioned`], and the struct may be written to.
pub(crate) unsafe fn write_versioned<T: Versioned>(
    pointer: *mut T,
    value: &T,
) -> Result<(), Trouble> {
    const AFTER_SIZE: usize = size_of::<usize>();
    // SAFETY: as asked of the caller.
    let size = unsafe { size_of_given(pointer) }?;
    let known = size.min(size_of::<T>());
    let (target, source) = (pointer.cast::<u8>(), ptr::from_ref(value).cast::<u8>());
    // SAFETY: `known` is at least `FIRST_SIZE`, so more than `AFTER_SIZE`, and no more than the
    // `size` bytes of the target or the bytes of a `T`; `value` is Rust's, so they are apart.
    unsafe {
        ptr::copy_nonoverlapping(
            source.add(AFTER_SIZE),
            target.add(AFTER_SIZE),
            known - AFTER_SIZE,
        );
        ptr::write_bytes(target.add(known), 0, size - known);
    }
    Ok(())
}

/// # Safety
/// `pointer` is NULL or points to a `T` of some version, with its `size` field set.
pub(crate) unsafe fn size_of_given<T: Versioned>(pointer: *const T) -> Result<usize, Trouble> {
    if pointer.is_null() {
        return Err(Trouble::argument(format!("a {} is NULL", T::NAME)));
    }
    if !pointer.is_aligned() {
        return Err(Trouble::argument(format!("a {} is not aligned", T::NAME)));
    }
    // SAFETY: it is not NULL, is aligned, and its first field is its size.
    let size = unsafe { pointer.cast::<usize>().read() };
    if size < T::FIRST_SIZE || size > MOST_SIZE {
        let (name, first) = (T::NAME, T::FIRST_SIZE);
        return Err(Trouble::argument(format!(
            "a {name} has the size {size}, not {first} or a little more: set it to sizeof({name})"
        )));
    }
    Ok(size)
}

/// A string that may be NULL.
///
/// # Safety
/// `pointer` is NULL or points to bytes that end with a zero byte and don't change for `'a`.
pub(crate) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<&'a str>, Trouble> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not NULL; the rest is asked of the caller.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some).map_err(|_| Trouble::argument(format!("{name} is not UTF-8")))
}

/// A string.
///
/// # Safety
/// As for [`optional_text`].
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Trouble> {
    // SAFETY: as asked of the caller.
    given(unsafe { optional_text(pointer, name) }?, name)
}

/// A path that may be NULL: any bytes.
///
/// # Safety
/// As for [`optional_text`].
pub(crate) unsafe fn optional_path<'a>(pointer: *const c_char) -> Option<&'a Path> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: it is not NULL; the rest is asked of the caller.
    let bytes = unsafe { CStr::from_ptr(pointer) }.to_bytes();
    Some(Path::new(OsStr::from_bytes(bytes)))
}

/// A path.
///
/// # Safety
/// As for [`optional_text`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path, Trouble> {
    // SAFETY: as asked of the caller.
    given(unsafe { optional_path(pointer) }, name)
}

/// Elements to read. NULL stands for none.
///
/// # Safety
/// `pointer` is NULL or points to `length` elements that don't change for `'a`.
pub(crate) unsafe fn elements<'a, T>(
    pointer: *const T,
    length: usize,
    name: &str,
) -> Result<&'a [T], Trouble> {
    check_elements(pointer, length, name)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: it is not NULL, aligned, and no longer than an object can be; the rest is asked of
    // the caller.
    Ok(unsafe { slice::from_raw_parts(pointer, length) })
}

/// Bytes to write to. NULL stands for none.
///
/// They may be uninitialised in C. For Rust, memory from outside has arbitrary but fixed bytes, and
/// this memory is only written to.
///
/// # Safety
/// `pointer` is NULL or points to `length` bytes that no other thread reads or writes for `'a`.
pub(crate) unsafe fn bytes_mut<'a>(
    pointer: *mut u8,
    length: usize,
    name: &str,
) -> Result<&'a mut [u8], Trouble> {
    check_elements(pointer, length, name)?;
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: as in `elements`, and no other code uses them.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, length) })
}

/// Input and output of a job, which never overlap.
///
/// # Safety
/// As for [`elements`] and [`bytes_mut`], each on its own.
pub(crate) unsafe fn input_and_output<'a>(
    input: (*const u8, usize),
    output: (*mut u8, usize),
) -> Result<(&'a [u8], &'a mut [u8]), Trouble> {
    let (from, to) = (input.0.addr(), output.0.addr());
    let apart = from.saturating_add(input.1) <= to || to.saturating_add(output.1) <= from;
    if !apart && input.1 > 0 && output.1 > 0 {
        return Err(Trouble::argument("input and output overlap"));
    }
    // SAFETY: asked of the caller each on its own, and the check shows that they are apart, so no
    // other reference exists to the bytes that are written.
    unsafe { Ok((elements(input.0, input.1, "input")?, bytes_mut(output.0, output.1, "output")?)) }
}

/// The number of an enum that a caller passes, which may be none of its variants.
pub(crate) fn number<E: Enumeration>(given: MaybeUninit<E>) -> u32 {
    const { assert!(size_of::<E>() == size_of::<u32>()) };
    // SAFETY: it has the size of a `u32`, as the assertion shows, and its alignment, because
    // `Enumeration` promises `repr(u32)`. C passes parameters by value, so it is initialised.
    unsafe { given.as_ptr().cast::<u32>().read() }
}

/// An enum of C.
///
/// # Safety
/// The type is a `repr(u32)` enum without fields.
pub(crate) unsafe trait Enumeration {}

// SAFETY: it is such an enum.
unsafe impl Enumeration for crate::cipher::DirectionNumber {}

// SAFETY: it is such an enum.
unsafe impl Enumeration for crate::session::PaddingNumber {}

fn check_elements<T>(pointer: *const T, length: usize, name: &str) -> Result<(), Trouble> {
    if length == 0 {
        return Ok(());
    }
    if pointer.is_null() {
        return Err(Trouble::argument(format!("{name} is NULL, but its length is not 0")));
    }
    if !pointer.is_aligned() {
        return Err(Trouble::argument(format!("{name} is not aligned")));
    }
    let most = isize::MAX.cast_unsigned() / size_of::<T>().max(1);
    if length > most || pointer.addr().checked_add(length * size_of::<T>()).is_none() {
        return Err(Trouble::argument(format!("{name} has the impossible length {length}")));
    }
    Ok(())
}

/// Greater than any version of any struct, to detect a forgotten size.
const MOST_SIZE: usize = 4096;
