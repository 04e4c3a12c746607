//! The tables of functions for OpenSSL.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

mod confidential;
mod gcm;
#[allow(unsafe_code)]
mod sys;

use confidential::{
    AES_128_CBC, AES_128_CTR, AES_128_ECB, AES_192_CBC, AES_192_CTR, AES_192_ECB, AES_256_CBC,
    AES_256_CTR, AES_256_ECB,
};
use gcm::{AES_128_GCM, AES_192_GCM, AES_256_GCM};

use evener_core::Mode;

use crate::cipher::State;
use crate::sys::{
    Algorithm, CIPHER_CIPHER, CIPHER_DECRYPT_INIT, CIPHER_DUPLICATE, CIPHER_ENCRYPT_INIT,
    CIPHER_FINAL, CIPHER_FREE, CIPHER_GET_CONTEXT_PARAMS, CIPHER_GET_PARAMS,
    CIPHER_GETTABLE_CONTEXT_PARAMS, CIPHER_GETTABLE_PARAMS, CIPHER_NEW, CIPHER_SET_CONTEXT_PARAMS,
    CIPHER_SETTABLE_CONTEXT_PARAMS, CIPHER_UPDATE, Dispatch, INTEGER, Param, UNSIGNED,
};

/// All ciphers.
pub(crate) static CIPHERS: [Algorithm; 13] = [
    GCM[0],
    GCM[1],
    GCM[2],
    CBC[0],
    CBC[1],
    CBC[2],
    algorithm(c"AES-128-CTR", &AES_128_CTR),
    algorithm(c"AES-192-CTR", &AES_192_CTR),
    algorithm(c"AES-256-CTR", &AES_256_CTR),
    algorithm(c"AES-128-ECB:2.16.840.1.101.3.4.1.1", &AES_128_ECB),
    algorithm(c"AES-192-ECB:2.16.840.1.101.3.4.1.21", &AES_192_ECB),
    algorithm(c"AES-256-ECB:2.16.840.1.101.3.4.1.41", &AES_256_ECB),
    Algorithm::END,
];

/// The ciphers for a module that is configured for these modes.
pub(crate) fn ciphers_with_module(modes: &[Mode]) -> &'static [Algorithm] {
    match (modes.contains(&Mode::Gcm), modes.contains(&Mode::Cbc)) {
        (true, true) => &BOTH,
        (true, false) => &GCM_ALONE,
        (false, _) => &CBC_ALONE,
    }
}

static BOTH: [Algorithm; 7] = [GCM[0], GCM[1], GCM[2], CBC[0], CBC[1], CBC[2], Algorithm::END];

static GCM_ALONE: [Algorithm; 4] = [GCM[0], GCM[1], GCM[2], Algorithm::END];

static CBC_ALONE: [Algorithm; 4] = [CBC[0], CBC[1], CBC[2], Algorithm::END];

/// AES in GCM, under all names of OpenSSL's own ciphers.
const GCM: [Algorithm; 3] = [
    algorithm(c"AES-128-GCM:id-aes128-GCM:2.16.840.1.101.3.4.1.6", &AES_128_GCM),
    algorithm(c"AES-192-GCM:id-aes192-GCM:2.16.840.1.101.3.4.1.26", &AES_192_GCM),
    algorithm(c"AES-256-GCM:id-aes256-GCM:2.16.840.1.101.3.4.1.46", &AES_256_GCM),
];

/// AES in CBC, likewise.
const CBC: [Algorithm; 3] = [
    algorithm(c"AES-128-CBC:AES128:2.16.840.1.101.3.4.1.2", &AES_128_CBC),
    algorithm(c"AES-192-CBC:AES192:2.16.840.1.101.3.4.1.22", &AES_192_CBC),
    algorithm(c"AES-256-CBC:AES256:2.16.840.1.101.3.4.1.42", &AES_256_CBC),
];

const fn algorithm(names: &'static CStr, functions: &'static [Dispatch]) -> Algorithm {
    Algorithm {
        names: names.as_ptr(),
        properties: c"provider=evener,evener.cipher=yes".as_ptr(),
        functions: functions.as_ptr(),
        description: ptr::null(),
    }
}

/// The functions that are specific to a cipher.
struct Own {
    new: *const c_void,
    update: *const c_void,
    finish: *const c_void,
    cipher: *const c_void,
    get_params: *const c_void,
}

/// All functions of a cipher.
const fn functions<C: State>(own: Own) -> [Dispatch; 15] {
    const fn entry(number: c_int, function: *const c_void) -> Dispatch {
        Dispatch { number, function }
    }
    [
        entry(CIPHER_NEW, own.new),
        entry(CIPHER_FREE, sys::free::<C> as *const c_void),
        entry(CIPHER_DUPLICATE, sys::duplicate::<C> as *const c_void),
        entry(CIPHER_ENCRYPT_INIT, sys::encrypt_init::<C> as *const c_void),
        entry(CIPHER_DECRYPT_INIT, sys::decrypt_init::<C> as *const c_void),
        entry(CIPHER_UPDATE, own.update),
        entry(CIPHER_FINAL, own.finish),
        entry(CIPHER_CIPHER, own.cipher),
        entry(CIPHER_GET_PARAMS, own.get_params),
        entry(CIPHER_GET_CONTEXT_PARAMS, sys::get_context_params::<C> as *const c_void),
        entry(CIPHER_SET_CONTEXT_PARAMS, sys::set_context_params::<C> as *const c_void),
        entry(CIPHER_GETTABLE_PARAMS, sys::gettable_params as *const c_void),
        entry(CIPHER_GETTABLE_CONTEXT_PARAMS, sys::gettable_context_params::<C> as *const c_void),
        entry(CIPHER_SETTABLE_CONTEXT_PARAMS, sys::settable_context_params::<C> as *const c_void),
        Dispatch::END,
    ]
}

/// The parameters of a cipher that can be read.
static GETTABLE: [Param; 11] = [
    Param::described(c"mode", UNSIGNED),
    Param::described(c"keylen", UNSIGNED),
    Param::described(c"ivlen", UNSIGNED),
    Param::described(c"blocksize", UNSIGNED),
    Param::described(c"aead", INTEGER),
    Param::described(c"custom-iv", INTEGER),
    Param::described(c"cts", INTEGER),
    Param::described(c"tls-multi", INTEGER),
    Param::described(c"has-randkey", INTEGER),
    Param::described(c"encrypt-then-mac", INTEGER),
    Param::END,
];
