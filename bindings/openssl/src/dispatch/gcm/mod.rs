//! The tables of functions for GCM.

use std::ffi::c_void;

use evener_core::Direction;

#[allow(unsafe_code)]
mod sys;

use super::Own;
use crate::cipher::Context;
use crate::entry::Core;
use crate::params::Params;
use crate::reasons::Reason;
use crate::sys::{Dispatch, OCTETS, Param, UNSIGNED};

pub(super) static AES_128_GCM: [Dispatch; 15] = functions::<16>();
pub(super) static AES_192_GCM: [Dispatch; 15] = functions::<24>();
pub(super) static AES_256_GCM: [Dispatch; 15] = functions::<32>();

/// The functions for keys of so many bytes.
const fn functions<const KEY: usize>() -> [Dispatch; 15] {
    super::functions::<Context>(Own {
        new: sys::new::<KEY> as *const c_void,
        update: sys::update as *const c_void,
        finish: sys::finish as *const c_void,
        cipher: sys::cipher as *const c_void,
        get_params: sys::get_params::<KEY> as *const c_void,
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

/// What can be asked of a context.
static GETTABLE: [Param; 10] = [
    Param::described(c"keylen", UNSIGNED),
    Param::described(c"ivlen", UNSIGNED),
    Param::described(c"taglen", UNSIGNED),
    Param::described(c"iv", OCTETS),
    Param::described(c"updated-iv", OCTETS),
    Param::described(c"tag", OCTETS),
    Param::described(c"tlsaadpad", UNSIGNED),
    Param::described(c"tlsivgen", OCTETS),
    Param::described(c"iv-generated", UNSIGNED),
    Param::END,
];

/// What can be set.
static SETTABLE: [Param; 6] = [
    Param::described(c"ivlen", UNSIGNED),
    Param::described(c"tag", OCTETS),
    Param::described(c"tlsaad", OCTETS),
    Param::described(c"tlsivfixed", OCTETS),
    Param::described(c"tlsivinv", OCTETS),
    Param::END,
];
