//! The tables of functions for ECB, CBC and CTR.

use std::ffi::c_void;

use evener_core::{Direction, Mode};

#[allow(unsafe_code)]
mod sys;

use super::Own;
use crate::cipher::confidential::Context;
use crate::entry::Core;
use crate::params::Params;
use crate::reasons::Reason;
use crate::sys::{Dispatch, OCTETS, OCTETS_POINTER, Param, UNSIGNED};

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
    super::functions::<Context>(Own {
        new: sys::new::<MODE, KEY> as *const c_void,
        update: sys::update as *const c_void,
        finish: sys::finish as *const c_void,
        cipher: sys::cipher as *const c_void,
        get_params: sys::get_params::<MODE, KEY> as *const c_void,
    })
}

impl super::Context for Context {
    const GETTABLE: &'static [Param] = &GETTABLE;
    const SETTABLE: &'static [Param] = &SETTABLE;

    fn core(&self) -> &Core {
        self.core()
    }

    fn init(
        &mut self,
        direction: Direction,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
        params: Params<'_>,
    ) -> Result<(), Reason> {
        self.init(direction, key, iv, params)
    }

    fn answer(&mut self, params: Params<'_>) -> Result<(), Reason> {
        self.answer(params)
    }

    fn set_params(&mut self, params: Params<'_>) -> Result<(), Reason> {
        self.set_params(params)
    }
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
static GETTABLE: [Param; 8] = [
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
