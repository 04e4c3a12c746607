//! Ciphers, exported.

use std::ffi::c_char;

use facade::Cipher;

use super::CipherFacts;
use crate::boundary::sys::{Versioned, text, write_versioned};
use crate::boundary::{enter, enter_or};
use crate::status::{Status, Trouble};

// SAFETY: `repr(C)` with the size first, and nothing but integers and a raw pointer.
unsafe impl Versioned for CipherFacts {
    const FIRST_SIZE: usize = size_of::<CipherFacts>();
    const NAME: &'static str = "evener_cipher_info";
}

/// Number of ciphers.
#[unsafe(no_mangle)]
pub extern "C" fn evener_cipher_count() -> usize {
    enter_or(0, || Cipher::ALL.len())
}

/// Reads the properties of the cipher with this number, which must be less than
/// `evener_cipher_count()`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_cipher_at(index: usize, info: *mut CipherFacts) -> Status {
    enter(|| {
        let count = Cipher::ALL.len();
        let cipher = Cipher::ALL.get(index).copied().ok_or_else(|| {
            Trouble::argument(format!("there is no cipher {index}: there are {count}"))
        })?;
        // SAFETY: the header asks the same of the caller.
        unsafe { write_versioned(info, &super::facts(cipher)) }
    })
}

/// Reads the properties of the cipher with this OpenSSL name, in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn evener_cipher_named(
    name: *const c_char,
    info: *mut CipherFacts,
) -> Status {
    enter(|| {
        // SAFETY: the header asks the same of the caller, for both.
        unsafe { write_versioned(info, &super::facts(super::named(text(name, "name")?)?)) }
    })
}
