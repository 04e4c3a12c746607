//! The functions that all ciphers share. Each converts its arguments to safe types. The SAFETY
//! notes here and in the ciphers' own files rely on OpenSSL's contract (provider-cipher(7)): `new`
//! or `duplicate` returned the context, one thread at a time uses it, and none after `free`;
//! buffers are as long as their lengths say and stay so during the call; parameters are OpenSSL's
//! lists.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use evener_core::{Direction, wipe_stack};
use evener_lanes::boxed;

use super::GETTABLE;
use crate::cipher::State;
use crate::params::Params;
use crate::reasons::Reason;
use crate::sys::Param;

pub(super) unsafe extern "C" fn free<C: State>(context: *mut c_void) {
    if !context.is_null() {
        // SAFETY: a context comes from `Box::into_raw` and is not used again.
        let context = unsafe { Box::from_raw(context.cast::<C>()) };
        drop(context);
        // Earlier calls have left key data on the stack.
        wipe_stack::<STACK>();
    }
}

pub(super) unsafe extern "C" fn duplicate<C: State>(context: *mut c_void) -> *mut c_void {
    // SAFETY: the contract.
    let copy = copy(unsafe { &*context.cast::<C>() });
    wipe_stack::<STACK_OF_COPY>();
    copy
}

/// Not inlined, so that the wiped stack includes its variables.
#[inline(never)]
fn copy<C: State>(context: &C) -> *mut c_void {
    handed(context.try_clone())
}

/// A context for OpenSSL, or NULL if there is none or no memory for it.
pub(super) fn handed<C>(context: Option<C>) -> *mut c_void {
    context.and_then(boxed).map_or(ptr::null_mut(), |context| Box::into_raw(context).cast())
}

pub(super) unsafe extern "C" fn encrypt_init<C: State>(
    context: *mut c_void,
    key: *const u8,
    key_length: usize,
    iv: *const u8,
    iv_length: usize,
    params: *const Param,
) -> c_int {
    let (key, iv) = ((key, key_length), (iv, iv_length));
    // SAFETY: the contract.
    unsafe { init::<C>(context, Direction::Encrypt, key, iv, params) }
}

pub(super) unsafe extern "C" fn decrypt_init<C: State>(
    context: *mut c_void,
    key: *const u8,
    key_length: usize,
    iv: *const u8,
    iv_length: usize,
    params: *const Param,
) -> c_int {
    let (key, iv) = ((key, key_length), (iv, iv_length));
    // SAFETY: the contract.
    unsafe { init::<C>(context, Direction::Decrypt, key, iv, params) }
}

/// # Safety
/// The contract.
unsafe fn init<C: State>(
    context: *mut c_void,
    direction: Direction,
    key: (*const u8, usize),
    iv: (*const u8, usize),
    params: *const Param,
) -> c_int {
    // SAFETY: the contract.
    let (context, key, iv, params) =
        unsafe { (at::<C>(context), bytes(key.0, key.1), bytes(iv.0, iv.1), Params::new(params)) };
    let result = set(context, direction, key, iv, params);
    if key.is_some() {
        wipe_stack::<STACK>();
    }
    status(context, result)
}

/// Not inlined, as [`copy`].
#[inline(never)]
fn set<C: State>(
    context: &mut C,
    direction: Direction,
    key: Option<&[u8]>,
    iv: Option<&[u8]>,
    params: Params<'_>,
) -> Result<(), Reason> {
    context.init(direction, key, iv, params)
}

pub(super) unsafe extern "C" fn get_context_params<C: State>(
    context: *mut c_void,
    params: *mut Param,
) -> c_int {
    // SAFETY: the contract.
    let (context, params) = unsafe { (at::<C>(context), Params::new(params)) };
    let result = context.answer(params);
    status(context, result)
}

pub(super) unsafe extern "C" fn set_context_params<C: State>(
    context: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: the contract.
    let (context, params) = unsafe { (at::<C>(context), Params::new(params)) };
    let result = context.set_params(params);
    status(context, result)
}

pub(super) unsafe extern "C" fn gettable_params(_provider: *mut c_void) -> *const Param {
    GETTABLE.as_ptr()
}

pub(super) unsafe extern "C" fn gettable_context_params<C: State>(
    _context: *mut c_void,
    _provider: *mut c_void,
) -> *const Param {
    C::GETTABLE.as_ptr()
}

pub(super) unsafe extern "C" fn settable_context_params<C: State>(
    _context: *mut c_void,
    _provider: *mut c_void,
) -> *const Param {
    C::SETTABLE.as_ptr()
}

/// # Safety
/// The contract.
pub(super) unsafe fn at<'a, C: State>(context: *mut c_void) -> &'a mut C {
    // SAFETY: the contract: it comes from a box, and one thread at a time uses it.
    unsafe { &mut *context.cast::<C>() }
}

/// # Safety
/// The contract.
unsafe fn bytes<'a>(start: *const u8, length: usize) -> Option<&'a [u8]> {
    // SAFETY: the contract.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, length) })
}

/// Stores the length of the result, and returns OpenSSL's 1 or 0.
///
/// # Safety
/// The contract.
pub(super) unsafe fn answer<C: State>(
    context: &C,
    out_length: *mut usize,
    result: Result<usize, Reason>,
) -> c_int {
    if !out_length.is_null() {
        // SAFETY: the contract.
        unsafe { *out_length = result.unwrap_or(0) }
    }
    status(context, result)
}

/// The bytes of stack on which calls leave data derived from keys; GCM texts leave none. Filling
/// more at once takes much longer (glibc).
const STACK: usize = 2 << 10;

/// The most stack that copying a context takes, in bytes.
const STACK_OF_COPY: usize = 16 << 10;

/// Returns OpenSSL's 1 or 0, and puts an error into its queue.
pub(super) fn status<C: State, T>(context: &C, result: Result<T, Reason>) -> c_int {
    match result {
        Ok(_) => 1,
        Err(reason) => {
            context.core().raise(reason);
            0
        }
    }
}
