//! Keys of ciphers, exported.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use super::KeyHandle;
use crate::boundary::sys::{elements, text};
use crate::boundary::{enter, enter_or, hand_over};
use crate::cipher;
use crate::status::Status;

/// Copies a key's bytes, 1 to 64 of them; the caller wipes the original. Free the key with
/// `evener_key_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_key_from_bytes(
    bytes: *const u8,
    length: usize,
    key: Option<&mut MaybeUninit<Option<Box<KeyHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(key, || {
            // SAFETY: the header asks the same of the caller.
            KeyHandle::copied(unsafe { elements(bytes, length, "bytes") }?)
        })
    })
}

/// Makes a fresh key for a cipher from the system's randomness. It never leaves the library, so it
/// is for data that is not needed after the process ends. Free it with `evener_key_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_key_generate(
    cipher: *const c_char,
    key: Option<&mut MaybeUninit<Option<Box<KeyHandle>>>>,
) -> Status {
    enter(|| {
        hand_over(key, || {
            // SAFETY: the header asks the same of the caller.
            KeyHandle::generated(cipher::named(unsafe { text(cipher, "cipher") }?)?)
        })
    })
}

/// Wipes and frees a key. Sessions have their own copies, which they wipe. NULL does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn evener_key_free(key: Option<Box<KeyHandle>>) {
    enter_or((), || drop(key));
}
