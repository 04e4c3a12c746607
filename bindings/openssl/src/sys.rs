//! The part of OpenSSL's interface to providers that is used here: `openssl/core.h`,
//! `openssl/core_dispatch.h` and `openssl/core_names.h`. All of it is the same from OpenSSL 3.0 on,
//! and OpenSSL promises that providers of one version work with later ones.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

/// `OSSL_PARAM`: a named value that is passed, or the place for a requested one. A list of them
/// ends with one that has no name.
#[repr(C)]
pub(crate) struct Param {
    pub(crate) key: *const c_char,
    pub(crate) data_type: c_uint,
    pub(crate) data: *mut c_void,
    pub(crate) data_size: usize,
    pub(crate) return_size: usize,
}

// SAFETY: only descriptions in statics are shared. They hold pointers to static names and are never
// written to.
unsafe impl Sync for Param {}

impl Param {
    /// Declares that there is such a parameter.
    pub(crate) const fn described(key: &'static CStr, data_type: c_uint) -> Param {
        let size = if data_type == UNSIGNED { size_of::<usize>() } else { 0 };
        let data = ptr::null_mut();
        Param { key: key.as_ptr(), data_type, data, data_size: size, return_size: UNMODIFIED }
    }

    /// Ends a list.
    pub(crate) const END: Param = Param {
        key: ptr::null(),
        data_type: 0,
        data: ptr::null_mut(),
        data_size: 0,
        return_size: 0,
    };
}

/// `OSSL_PARAM_UNMODIFIED`.
pub(crate) const UNMODIFIED: usize = usize::MAX;

/// The types of a parameter's data.
pub(crate) const INTEGER: c_uint = 1;
pub(crate) const UNSIGNED: c_uint = 2;
pub(crate) const OCTETS: c_uint = 5;
pub(crate) const TEXT_POINTER: c_uint = 6;
pub(crate) const OCTETS_POINTER: c_uint = 7;

/// `OSSL_DISPATCH`: a function and its number. A list of them ends with number 0.
#[repr(C)]
pub(crate) struct Dispatch {
    pub(crate) number: c_int,
    pub(crate) function: *const c_void,
}

// SAFETY: they hold pointers to functions, which any thread may have.
unsafe impl Sync for Dispatch {}

impl Dispatch {
    /// Ends a list.
    pub(crate) const END: Dispatch = Dispatch { number: 0, function: ptr::null() };
}

/// `OSSL_ALGORITHM`: its names, the properties that distinguish it from others of that name, and
/// its functions. A list of them ends with one that has no names.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Algorithm {
    pub(crate) names: *const c_char,
    pub(crate) properties: *const c_char,
    pub(crate) functions: *const Dispatch,
    pub(crate) description: *const c_char,
}

// SAFETY: they hold pointers to statics that are never written to.
unsafe impl Sync for Algorithm {}

impl Algorithm {
    /// Ends a list.
    pub(crate) const END: Algorithm = Algorithm {
        names: ptr::null(),
        properties: ptr::null(),
        functions: ptr::null(),
        description: ptr::null(),
    };
}

/// `OSSL_ITEM`: a number with its text. A list of them ends with number 0.
#[repr(C)]
pub(crate) struct Item {
    pub(crate) number: c_uint,
    pub(crate) text: *const c_char,
}

// SAFETY: they hold pointers to static texts.
unsafe impl Sync for Item {}

/// `OSSL_CORE_HANDLE`, which is opaque.
#[repr(C)]
pub(crate) struct Handle {
    _private: [u8; 0],
}

/// Functions that OpenSSL offers to a provider, with their numbers.
pub(crate) type GetParams = unsafe extern "C" fn(*const Handle, *mut Param) -> c_int;
pub(crate) type NewError = unsafe extern "C" fn(*const Handle);
/// The last argument is a `va_list`: see [`NO_LIST`].
pub(crate) type SetError = unsafe extern "C" fn(*const Handle, u32, *const c_char, *const NoList);

/// A `va_list` for a NULL text, so nothing is taken from it. On aarch64 it is a structure of 32
/// bytes, which is passed by its address but is copied all the same; elsewhere it is a pointer, or
/// as long as one.
pub(crate) type NoList = [u64; 4];
pub(crate) static NO_LIST: NoList = [0; 4];
pub(crate) const CORE_GET_PARAMS: c_int = 2;
pub(crate) const CORE_NEW_ERROR: c_int = 5;
pub(crate) const CORE_SET_ERROR: c_int = 7;

/// The numbers of a provider's functions.
pub(crate) const PROVIDER_TEARDOWN: c_int = 1024;
pub(crate) const PROVIDER_GETTABLE_PARAMS: c_int = 1025;
pub(crate) const PROVIDER_GET_PARAMS: c_int = 1026;
pub(crate) const PROVIDER_QUERY_OPERATION: c_int = 1027;
pub(crate) const PROVIDER_GET_REASON_STRINGS: c_int = 1029;

/// The operation `OSSL_OP_CIPHER`, and the numbers of its functions.
pub(crate) const OPERATION_CIPHER: c_int = 2;
pub(crate) const CIPHER_NEW: c_int = 1;
pub(crate) const CIPHER_ENCRYPT_INIT: c_int = 2;
pub(crate) const CIPHER_DECRYPT_INIT: c_int = 3;
pub(crate) const CIPHER_UPDATE: c_int = 4;
pub(crate) const CIPHER_FINAL: c_int = 5;
pub(crate) const CIPHER_CIPHER: c_int = 6;
pub(crate) const CIPHER_FREE: c_int = 7;
pub(crate) const CIPHER_DUPLICATE: c_int = 8;
pub(crate) const CIPHER_GET_PARAMS: c_int = 9;
pub(crate) const CIPHER_GET_CONTEXT_PARAMS: c_int = 10;
pub(crate) const CIPHER_SET_CONTEXT_PARAMS: c_int = 11;
pub(crate) const CIPHER_GETTABLE_PARAMS: c_int = 12;
pub(crate) const CIPHER_GETTABLE_CONTEXT_PARAMS: c_int = 13;
pub(crate) const CIPHER_SETTABLE_CONTEXT_PARAMS: c_int = 14;

/// Fills a buffer of up to 256 bytes with random bytes from the kernel; `None` if that fails.
pub(crate) fn random(bytes: &mut [u8]) -> Option<()> {
    // SAFETY: the buffer is writable and has that length.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    (usize::try_from(got) == Ok(bytes.len())).then_some(())
}
