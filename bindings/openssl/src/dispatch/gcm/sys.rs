//! The functions for GCM, under the contract of the functions that all ciphers share.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use evener_lanes::stream::Text;

use crate::cipher::{Context, FLAGS, IV_LENGTH, MODE};
use crate::dispatch::sys::{answer, at, handed, status};
use crate::entry::Provider;
use crate::params::{Name, Params};
use crate::reasons::Reason;
use crate::sys::Param;

pub(super) unsafe extern "C" fn new<const KEY: usize>(provider: *mut c_void) -> *mut c_void {
    // SAFETY: the provider comes from `OSSL_provider_init` and outlives this call.
    let provider = unsafe { &*provider.cast::<Provider>() };
    handed(provider.context(KEY))
}

/// Processes additional data if `out` is NULL, text otherwise; a TLS 1.2 record if its additional
/// data have been set.
pub(super) unsafe extern "C" fn update(
    context: *mut c_void,
    out: *mut u8,
    out_length: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the contract.
    let context = unsafe { at::<Context>(context) };
    let result = if length == 0 {
        Ok(0)
    } else {
        // SAFETY: the contract.
        unsafe { piece(context, out, room, input, length) }
    };
    // SAFETY: the contract.
    unsafe { answer(context, out_length, result) }
}

/// Processes bytes as `update` does, or ends the message if `input` is NULL.
pub(super) unsafe extern "C" fn cipher(
    context: *mut c_void,
    out: *mut u8,
    out_length: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the contract.
    let context = unsafe { at::<Context>(context) };
    let result = if input.is_null() {
        context.finish()
    } else {
        // SAFETY: the contract.
        unsafe { piece(context, out, room, input, length) }.map(|_| ())
    };
    if !out_length.is_null() {
        // SAFETY: the contract.
        unsafe { *out_length = if result.is_ok() { length } else { 0 } }
    }
    status(context, result)
}

pub(super) unsafe extern "C" fn finish(
    context: *mut c_void,
    _out: *mut u8,
    out_length: *mut usize,
    _room: usize,
) -> c_int {
    // SAFETY: the contract.
    let context = unsafe { at::<Context>(context) };
    if !out_length.is_null() {
        // SAFETY: the contract.
        unsafe { *out_length = 0 }
    }
    let result = context.finish();
    status(context, result)
}

/// Puts an error for a forged record into the queue, as OpenSSL's own ciphers do: servers log it.
fn record(result: Result<usize, Reason>) -> Result<usize, Reason> {
    result.map_err(|reason| match reason {
        Reason::Forged => Reason::OperationFailed,
        reason => reason,
    })
}

/// Processes the bytes of a call. Returns the length of the result.
///
/// # Safety
/// The contract.
unsafe fn piece(
    context: &mut Context,
    out: *mut u8,
    room: usize,
    input: *const u8,
    length: usize,
) -> Result<usize, Reason> {
    if length > isize::MAX as usize || input.is_null() && length > 0 {
        return Err(Reason::OperationFailed);
    }
    if !out.is_null() && room < length {
        return Err(Reason::Room);
    }
    let is_in_place = ptr::eq(out.cast_const(), input);
    if context.is_record() {
        if !is_in_place || length == 0 {
            // Discards the additional data, so that the next call is not for a record.
            return record(context.transform_record(&mut []));
        }
        // SAFETY: these are the bytes of the call, and nobody else uses them meanwhile.
        let result = context.transform_record(unsafe { slice::from_raw_parts_mut(out, length) });
        return record(result);
    }
    if length == 0 {
        return Ok(0);
    }
    if out.is_null() {
        // SAFETY: the contract.
        context.add_data(unsafe { slice::from_raw_parts(input, length) })?;
    } else if is_in_place {
        // SAFETY: as above.
        let text = Text::InPlace(unsafe { slice::from_raw_parts_mut(out, length) });
        context.transform(text, length)?;
    } else if out.addr().abs_diff(input.addr()) < length {
        return Err(Reason::Overlap);
    } else {
        // SAFETY: the contract; they don't overlap.
        let (input, out) = unsafe {
            (slice::from_raw_parts(input, length), slice::from_raw_parts_mut(out, length))
        };
        context.transform(Text::Apart(input, out), length)?;
    }
    Ok(length)
}

pub(super) unsafe extern "C" fn get_params<const KEY: usize>(params: *mut Param) -> c_int {
    // SAFETY: the contract.
    let params = unsafe { Params::new(params) };
    let mut is_answered = true;
    for mut value in params {
        let answer = match value.name {
            Name::Mode => value.answer_number(MODE),
            Name::Aead | Name::CustomIv => value.answer_number(FLAGS),
            Name::Absent => value.answer_number(0),
            Name::KeyLength => value.answer_number(KEY as u64),
            Name::BlockSize => value.answer_number(1),
            Name::IvLength => value.answer_number(IV_LENGTH as u64),
            _ => Some(()),
        };
        is_answered &= answer.is_some();
    }
    is_answered.into()
}
