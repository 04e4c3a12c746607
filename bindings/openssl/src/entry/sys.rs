//! Where OpenSSL comes in, and its own functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use evener_lanes::Kernel;

use super::Provider;
use crate::dispatch::{CIPHERS, CIPHERS_WITH_MODULE};
use crate::params::Params;
use crate::reasons::{REASONS, Reason};
use crate::sys::{
    Algorithm, CORE_GET_PARAMS, CORE_NEW_ERROR, CORE_SET_ERROR, Dispatch, GetParams, Handle, Item,
    NewError, OPERATION_CIPHER, PROVIDER_GET_PARAMS, PROVIDER_GET_REASON_STRINGS,
    PROVIDER_GETTABLE_PARAMS, PROVIDER_QUERY_OPERATION, PROVIDER_TEARDOWN, Param, SetError,
    TEXT_POINTER, UNSIGNED,
};

/// Loads the provider: OpenSSL calls it once for each of its library contexts.
///
/// # Safety
/// As OpenSSL's documentation has it (provider(7)): `functions` is its list of functions, and
/// `out` and `context` are places for this provider's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn OSSL_provider_init(
    handle: *const Handle,
    functions: *const Dispatch,
    out: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let provider = Provider::new(Core::find(handle, functions));
        *context = Box::into_raw(Box::new(provider)).cast();
        *out = FUNCTIONS.as_ptr();
    }
    1
}

/// What OpenSSL offers.
pub(crate) struct Core {
    handle: *const Handle,
    get_params: Option<GetParams>,
    new_error: Option<NewError>,
    set_error: Option<SetError>,
}

// SAFETY: OpenSSL's functions may be called by any thread, and the handle is only passed to them.
unsafe impl Send for Core {}
// SAFETY: as above.
unsafe impl Sync for Core {}

impl Core {
    /// # Safety
    /// The list is OpenSSL's, and the handle goes with it.
    unsafe fn find(handle: *const Handle, mut functions: *const Dispatch) -> Core {
        let mut core = Core { handle, get_params: None, new_error: None, set_error: None };
        // SAFETY: the caller's promise: the list ends with number 0, a function has the type that
        // goes with its number, and a pointer to one has the representation of a function.
        unsafe {
            while !functions.is_null() && (*functions).number != 0 {
                let &Dispatch { number, function } = &*functions;
                match number {
                    CORE_GET_PARAMS => {
                        core.get_params =
                            std::mem::transmute::<*const c_void, Option<GetParams>>(function);
                    }
                    CORE_NEW_ERROR => {
                        core.new_error =
                            std::mem::transmute::<*const c_void, Option<NewError>>(function);
                    }
                    CORE_SET_ERROR => {
                        core.set_error =
                            std::mem::transmute::<*const c_void, Option<SetError>>(function);
                    }
                    _ => {}
                }
                functions = functions.add(1);
            }
        }
        core
    }

    /// The value of a line in the provider's section of the configuration. It is good during
    /// `OSSL_provider_init`.
    pub(super) fn setting(&self, name: &'static CStr) -> Option<&CStr> {
        let mut value: *const c_char = ptr::null();
        let mut params = [
            Param {
                key: name.as_ptr(),
                data_type: TEXT_POINTER,
                data: (&raw mut value).cast(),
                data_size: size_of::<*const c_char>(),
                return_size: 0,
            },
            Param::END,
        ];
        // SAFETY: the list has its end; what comes back is NULL or a string of the configuration.
        unsafe {
            let found = self.get_params?(self.handle, params.as_mut_ptr());
            (found == 1 && !value.is_null()).then(|| CStr::from_ptr(value))
        }
    }

    /// Puts what is wrong into OpenSSL's queue of errors.
    pub(crate) fn raise(&self, reason: Reason) {
        if let (Some(new), Some(set)) = (self.new_error, self.set_error)
            && reason != Reason::Forged
        {
            // SAFETY: this is how the two are to be called; there is no text to fill in.
            unsafe {
                new(self.handle);
                set(self.handle, reason as u32, ptr::null(), ptr::null());
            }
        }
    }
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
    // SAFETY: it is what `OSSL_provider_init` gave out, and is not used any more.
    drop(unsafe { Box::from_raw(provider.cast::<Provider>()) });
}

unsafe extern "C" fn query(
    provider: *mut c_void,
    operation: c_int,
    no_cache: *mut c_int,
) -> *const Algorithm {
    // SAFETY: the provider is what `OSSL_provider_init` gave out; OpenSSL passes a place for the
    // answer.
    unsafe {
        if !no_cache.is_null() {
            *no_cache = 0;
        }
        if operation != OPERATION_CIPHER {
            return ptr::null();
        }
        match (*provider.cast::<Provider>()).kernel {
            Some(kernel) if kernel == Kernel::portable() => CIPHERS_WITH_MODULE.as_ptr(),
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
