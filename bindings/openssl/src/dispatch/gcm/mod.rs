//! The tables of functions for GCM.

use std::ffi::c_void;

#[allow(unsafe_code)]
mod sys;

use super::Own;
use crate::cipher::Context;
use crate::sys::Dispatch;

pub(super) static AES_128_GCM: [Dispatch; 15] = functions::<16>();
pub(super) static AES_192_GCM: [Dispatch; 15] = functions::<24>();
pub(super) static AES_256_GCM: [Dispatch; 15] = functions::<32>();

/// The functions for keys of this many bytes.
const fn functions<const KEY: usize>() -> [Dispatch; 15] {
    super::functions::<Context>(Own {
        new: sys::new::<KEY> as *const c_void,
        update: sys::update as *const c_void,
        finish: sys::finish as *const c_void,
        cipher: sys::cipher as *const c_void,
        get_params: sys::get_params::<KEY> as *const c_void,
    })
}
