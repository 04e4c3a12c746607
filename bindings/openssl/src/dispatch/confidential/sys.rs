//! The functions for ECB, CBC and CTR, under the contract of the functions that all ciphers share.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use evener_core::Mode;

use super::mode;
use crate::cipher::Memory;
use crate::cipher::confidential::{BLOCK, Context};
use crate::dispatch::sys::{answer, at, handed};
use crate::entry::Provider;
use crate::params::{Name, Params};
use crate::reasons::Reason;
use crate::sys::Param;

pub(super) unsafe extern "C" fn new<const MODE: u8, const KEY: usize>(
    provider: *mut c_void,
) -> *mut c_void {
    // SAFETY: the provider comes from `OSSL_provider_init` and outlives this call.
    let provider = unsafe { &*provider.cast::<Provider>() };
    handed(provider.confidential(mode(MODE), KEY))
}

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
    // SAFETY: the contract.
    let result = unsafe {
        if length > MOST {
            Err(Reason::OperationFailed)
        } else if context.is_for_records() {
            record(context, out, room, input, length)
        } else {
            let written = context.result_length(length);
            memory((out, written), room, (input, length)).and_then(|memory| context.update(memory))
        }
    };
    // SAFETY: the contract.
    unsafe { answer(context, out_length, result) }
}

/// Processes bytes that are no part of the message before.
pub(super) unsafe extern "C" fn cipher(
    context: *mut c_void,
    out: *mut u8,
    out_length: *mut usize,
    room: usize,
    input: *const u8,
    length: usize,
) -> c_int {
    // SAFETY: the contract.
    let (context, memory) =
        unsafe { (at::<Context>(context), memory((out, length), room, (input, length))) };
    let result = memory.and_then(|memory| context.whole(memory));
    // SAFETY: the contract.
    unsafe { answer(context, out_length, result) }
}

pub(super) unsafe extern "C" fn finish(
    context: *mut c_void,
    out: *mut u8,
    out_length: *mut usize,
    room: usize,
) -> c_int {
    // SAFETY: the contract.
    let context = unsafe { at::<Context>(context) };
    let result = context.finish().and_then(|left| {
        if left.len() > room {
            return Err(Reason::TooSmall);
        }
        if !left.is_empty() {
            // SAFETY: the contract; the context's bytes are not the caller's.
            unsafe { ptr::copy_nonoverlapping(left.as_ptr(), out, left.len()) }
        }
        Ok(left.len())
    });
    // SAFETY: the contract.
    unsafe { answer(context, out_length, result) }
}

/// Processes a record in place. (Nothing here looks at the length that comes back: it is secret.)
///
/// # Safety
/// The contract.
unsafe fn record(
    context: &mut Context,
    out: *mut u8,
    room: usize,
    input: *const u8,
    length: usize,
) -> Result<usize, Reason> {
    let is_in_place = ptr::eq(out.cast_const(), input) && !input.is_null();
    let result_length = context.result_length(length);
    if !is_in_place || room < result_length {
        return Err(Reason::OperationFailed);
    }
    // SAFETY: the contract.
    let record = unsafe { slice::from_raw_parts_mut(out, result_length) };
    context.transform_record(record, length)
}

/// # Safety
/// The contract.
unsafe fn memory<'a>(
    (out, written): (*mut u8, usize),
    room: usize,
    (input, length): (*const u8, usize),
) -> Result<Memory<'a>, Reason> {
    if length > MOST || length > 0 && input.is_null() || written > 0 && out.is_null() {
        return Err(Reason::OperationFailed);
    }
    if written > room {
        return Err(Reason::TooSmall);
    }
    let (start, output) = (input.addr(), out.addr());
    if length == 0 || written == 0 || start + length <= output || output + written <= start {
        // SAFETY: the contract; they don't overlap.
        return unsafe {
            let input = bytes_of(input, length);
            let output: &mut [u8] =
                if written == 0 { &mut [] } else { slice::from_raw_parts_mut(out, written) };
            Ok(Memory::Apart(input, output))
        };
    }
    let first = start.min(output);
    let all = (start + length).max(output + written) - first;
    // SAFETY: the contract: all are the caller's bytes, since the two overlap.
    let all = unsafe { slice::from_raw_parts_mut(out.sub(output - first), all) };
    Ok(Memory::Common { all, input: start - first, output: output - first, length })
}

pub(super) unsafe extern "C" fn get_params<const MODE: u8, const KEY: usize>(
    params: *mut Param,
) -> c_int {
    // SAFETY: the contract.
    let params = unsafe { Params::new(params) };
    let (block, iv) = match mode(MODE) {
        Mode::Ecb => (BLOCK, 0),
        Mode::Cbc => (BLOCK, BLOCK),
        _ => (1, BLOCK),
    };
    let mut is_answered = true;
    for mut value in params {
        let answer = match value.name {
            Name::Mode => value.answer_number(MODE.into()),
            Name::Aead | Name::CustomIv | Name::Absent => value.answer_number(0),
            Name::KeyLength => value.answer_number(KEY as u64),
            Name::BlockSize => value.answer_number(block as u64),
            Name::IvLength => value.answer_number(iv as u64),
            _ => Some(()),
        };
        is_answered &= answer.is_some();
    }
    is_answered.into()
}

/// # Safety
/// The contract.
unsafe fn bytes_of<'a>(start: *const u8, length: usize) -> &'a [u8] {
    // SAFETY: the contract.
    if length == 0 { &[] } else { unsafe { slice::from_raw_parts(start, length) } }
}

/// The longest slice, in bytes.
const MOST: usize = isize::MAX as usize;
