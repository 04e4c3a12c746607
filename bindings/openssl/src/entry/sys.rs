//! OpenSSL's entry into the provider.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use evener_lanes::{Kernel, boxed};

use super::Provider;
use crate::dispatch::{CIPHERS, ciphers_with_module};
use crate::module;
use crate::params::Params;
use crate::reasons::REASONS;
use crate::sys::{
    Algorithm, Dispatch, Handle, Item, OPERATION_CIPHER, PROVIDER_GET_PARAMS,
    PROVIDER_GET_REASON_STRINGS, PROVIDER_GETTABLE_PARAMS, PROVIDER_QUERY_OPERATION,
    PROVIDER_TEARDOWN, Param, TEXT_POINTER, UNSIGNED,
};
use crate::upcalls::Core;

/// Loads the provider: OpenSSL calls it once for each of its library contexts.
///
/// # Safety
/// As in OpenSSL's documentation (provider(7)): `functions` is OpenSSL's list of functions; `out`
/// and `context` are places for the provider's functions and context.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn OSSL_provider_init(
    handle: *const Handle,
    functions: *const Dispatch,
    out: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(provider) = boxed(Provider::new(Core::find(handle, functions))) else { return 0 };
        *context = Box::into_raw(provider).cast();
        *out = FUNCTIONS.as_ptr();
    }
    1
}

static FUNCTIONS: [Dispatch; 6] = [
    Dispatch { number: PROVIDER_TEARDOWN, function: teardown as *const c_void },
    Dispatch { number: PROVIDER_GETTABLE_PARAMS, function: gettable_params as *const c_void },
    Dispatch { number: PROVIDER_GET_PARAMS, function: get_params as *const c_void },
    Dispatch { number: PROVIDER_QUERY_OPERATION, function: query as *const c_void },
    Dispatch { number: PROVIDER_GET_REASON_STRINGS, function: reasons as *const c_void },
    Dispatch::END,
];

unsafe extern "C" fn teardown(provider: *mut c_void) {
    // SAFETY: the pointer comes from `OSSL_provider_init` and is not used again.
    drop(unsafe { Box::from_raw(provider.cast::<Provider>()) });
}

unsafe extern "C" fn query(
    provider: *mut c_void,
    operation: c_int,
    no_cache: *mut c_int,
) -> *const Algorithm {
    // SAFETY: the provider comes from `OSSL_provider_init`; OpenSSL passes a place for the answer.
    unsafe {
        if !no_cache.is_null() {
            *no_cache = 0;
        }
        if operation != OPERATION_CIPHER {
            return ptr::null();
        }
        match (*provider.cast::<Provider>()).kernel {
            Some(kernel) if kernel == Kernel::portable() => {
                ciphers_with_module(module::modes()).as_ptr()
            }
            Some(_) => CIPHERS.as_ptr(),
            None => ptr::null(),
        }
    }
}

unsafe extern "C" fn reasons(_provider: *mut c_void) -> *const Item {
    REASONS.as_ptr()
}

unsafe extern "C" fn gettable_params(_provider: *mut c_void) -> *const Param {
    GETTABLE.as_ptr()
}

unsafe extern "C" fn get_params(_provider: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: OpenSSL passes a list of parameters.
    let params = unsafe { Params::new(params) };
    let mut is_answered = true;
    for mut value in params {
        let answer = match value.key() {
            b"name" => value.answer_text(c"Evener provider"),
            b"version" | b"buildinfo" => value.answer_text(VERSION),
            b"status" => value.answer_number(1),
            _ => Some(()),
        };
        is_answered &= answer.is_some();
    }
    is_answered.into()
}

static GETTABLE: [Param; 5] = [
    Param::described(c"name", TEXT_POINTER),
    Param::described(c"version", TEXT_POINTER),
    Param::described(c"buildinfo", TEXT_POINTER),
    Param::described(c"status", UNSIGNED),
    Param::END,
];

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
