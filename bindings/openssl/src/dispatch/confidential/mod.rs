//! The tables of functions for ECB, CBC and CTR.

use std::ffi::c_void;

use evener_core::Mode;

#[allow(unsafe_code)]
mod sys;

use super::Own;
use crate::cipher::confidential::Context;
use crate::sys::Dispatch;

pub(super) static AES_128_ECB: [Dispatch; 15] = functions::<ECB, 16>();
pub(super) static AES_192_ECB: [Dispatch; 15] = functions::<ECB, 24>();
pub(super) static AES_256_ECB: [Dispatch; 15] = functions::<ECB, 32>();
pub(super) static AES_128_CBC: [Dispatch; 15] = functions::<CBC, 16>();
pub(super) static AES_192_CBC: [Dispatch; 15] = functions::<CBC, 24>();
pub(super) static AES_256_CBC: [Dispatch; 15] = functions::<CBC, 32>();
pub(super) static AES_128_CTR: [Dispatch; 15] = functions::<CTR, 16>();
pub(super) static AES_192_CTR: [Dispatch; 15] = functions::<CTR, 24>();
pub(super) static AES_256_CTR: [Dispatch; 15] = functions::<CTR, 32>();

/// The functions for a mode and keys of this many bytes.
const fn functions<const MODE: u8, const KEY: usize>() -> [Dispatch; 15] {
    super::functions::<Context>(Own {
        new: sys::new::<MODE, KEY> as *const c_void,
        update: sys::update as *const c_void,
        finish: sys::finish as *const c_void,
        cipher: sys::cipher as *const c_void,
        get_params: sys::get_params::<MODE, KEY> as *const c_void,
    })
}

/// The mode for OpenSSL's number.
const fn mode(number: u8) -> Mode {
    match number {
        ECB => Mode::Ecb,
        CBC => Mode::Cbc,
        _ => Mode::Ctr,
    }
}

/// `EVP_CIPH_ECB_MODE`, `EVP_CIPH_CBC_MODE` and `EVP_CIPH_CTR_MODE`.
const ECB: u8 = 1;
const CBC: u8 = 2;
const CTR: u8 = 5;
