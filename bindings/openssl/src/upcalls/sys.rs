//! The functions, from the list that OpenSSL gives a provider.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use crate::reasons::Reason;
use crate::sys::{
    CORE_GET_PARAMS, CORE_NEW_ERROR, CORE_SET_ERROR, Dispatch, GetParams, Handle, NO_LIST,
    NewError, Param, SetError, TEXT_POINTER,
};

/// OpenSSL's functions, and its handle for the provider.
pub(crate) struct Core {
    handle: *const Handle,
    get_params: Option<GetParams>,
    new_error: Option<NewError>,
    set_error: Option<SetError>,
}

// SAFETY: any thread may call OpenSSL's functions, and the handle is only passed to them.
unsafe impl Send for Core {}
// SAFETY: as above.
unsafe impl Sync for Core {}

impl Core {
    /// # Safety
    /// The list is OpenSSL's, and the handle belongs to it.
    pub(crate) unsafe fn find(handle: *const Handle, mut functions: *const Dispatch) -> Core {
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

    /// The value of a line in the provider's section of the configuration, valid during
    /// `OSSL_provider_init`.
    pub(crate) fn setting(&self, name: &'static CStr) -> Option<&CStr> {
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

    /// Puts a reason into OpenSSL's error queue, unless it is `Forged`.
    pub(crate) fn raise(&self, reason: Reason) {
        if let (Some(new), Some(set)) = (self.new_error, self.set_error)
            && reason != Reason::Forged
        {
            // SAFETY: these are the calls that OpenSSL expects; there is no text to fill in, and
            // the list that OpenSSL may copy is as long as any.
            unsafe {
                new(self.handle);
                set(self.handle, reason as u32, ptr::null(), &NO_LIST);
            }
        }
    }
}
