//! The tables of functions for ECB, CBC and CTR.

use std::ffi::{c_int, c_void};

use evener_core::Mode;

#[allow(unsafe_code)]
mod sys;

use crate::sys::{
    CIPHER_CIPHER, CIPHER_DECRYPT_INIT, CIPHER_DUPLICATE, CIPHER_ENCRYPT_INIT, CIPHER_FINAL,
    CIPHER_FREE, CIPHER_GET_CONTEXT_PARAMS, CIPHER_GET_PARAMS, CIPHER_GETTABLE_CONTEXT_PARAMS,
    CIPHER_GETTABLE_PARAMS, CIPHER_NEW, CIPHER_SET_CONTEXT_PARAMS, CIPHER_SETTABLE_CONTEXT_PARAMS,
    CIPHER_UPDATE, Dispatch, OCTETS, OCTETS_POINTER, Param, UNSIGNED,
};

pub(super) static AES_128_ECB: [Dispatch; 15] = functions::<ECB, 16>();
pub(super) static AES_192_ECB: [Dispatch; 15] = functions::<ECB, 24>();
pub(super) static AES_256_ECB: [Dispatch; 15] = functions::<ECB, 32>();
pub(super) static AES_128_CBC: [Dispatch; 15] = functions::<CBC, 16>();
pub(super) static AES_192_CBC: [Dispatch; 15] = functions::<CBC, 24>();
pub(super) static AES_256_CBC: [Dispatch; 15] = functions::<CBC, 32>();
pub(super) static AES_128_CTR: [Dispatch; 15] = functions::<CTR, 16>();
pub(super) static AES_192_CTR: [Dispatch; 15] = functions::<CTR, 24>();
pub(super) static AES_256_CTR: [Dispatch; 15] = functions::<CTR, 32>();

/// The functions for a mode and keys of so many bytes.
const fn functions<const MODE: u8, const KEY: usize>() -> [Dispatch; 15] {
    const fn entry(number: c_int, function: *const c_void) -> Dispatch {
        Dispatch { number, function }
    }
    [
        entry(CIPHER_NEW, sys::new::<MODE, KEY> as *const c_void),
        entry(CIPHER_FREE, sys::free as *const c_void),
        entry(CIPHER_DUPLICATE, sys::duplicate as *const c_void),
        entry(CIPHER_ENCRYPT_INIT, sys::encrypt_init as *const c_void),
        entry(CIPHER_DECRYPT_INIT, sys::decrypt_init as *const c_void),
        entry(CIPHER_UPDATE, sys::update as *const c_void),
        entry(CIPHER_FINAL, sys::finish as *const c_void),
        entry(CIPHER_CIPHER, sys::cipher as *const c_void),
        entry(CIPHER_GET_PARAMS, sys::get_params::<MODE, KEY> as *const c_void),
        entry(CIPHER_GET_CONTEXT_PARAMS, sys::get_context_params as *const c_void),
        entry(CIPHER_SET_CONTEXT_PARAMS, sys::set_context_params as *const c_void),
        entry(CIPHER_GETTABLE_PARAMS, super::sys::gettable_params as *const c_void),
        entry(CIPHER_GETTABLE_CONTEXT_PARAMS, sys::gettable_context_params as *const c_void),
        entry(CIPHER_SETTABLE_CONTEXT_PARAMS, sys::settable_context_params as *const c_void),
        Dispatch::END,
    ]
}

/// The mode with OpenSSL's number.
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

/// What can be asked of a context.
static GETTABLE_OF_CONTEXT: [Param; 8] = [
    Param::described(c"keylen", UNSIGNED),
    Param::described(c"ivlen", UNSIGNED),
    Param::described(c"padding", UNSIGNED),
    Param::described(c"num", UNSIGNED),
    Param::described(c"iv", OCTETS),
    Param::described(c"updated-iv", OCTETS),
    Param::described(c"tls-mac", OCTETS_POINTER),
    Param::END,
];

/// What can be set.
static SETTABLE: [Param; 6] = [
    Param::described(c"padding", UNSIGNED),
    Param::described(c"num", UNSIGNED),
    Param::described(c"use-bits", UNSIGNED),
    Param::described(c"tls-version", UNSIGNED),
    Param::described(c"tls-mac-size", UNSIGNED),
    Param::END,
];
