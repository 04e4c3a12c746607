//! Calls into libcrypto that the `openssl` crate does not offer, or makes dearer.
//!
//! An update of 256 bytes takes 30 nanoseconds; the crate's own call asks libcrypto for the
//! cipher's properties each time, which would be seen in the figures.

use std::ffi::{CStr, c_char, c_int};

use evener_core::Direction;
use foreign_types::ForeignTypeRef;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl_sys as ffi;

/// A context that goes on and on over one buffer, in place.
pub(super) struct InPlace {
    context: CipherCtx,
    direction: Direction,
    buffer: Vec<u8>,
    /// How much of the buffer is text.
    length: c_int,
}

impl InPlace {
    /// Takes a context that has its cipher, direction, key and IV, and puts its padding off.
    /// The text's length must be whole blocks.
    pub(super) fn new(mut context: CipherCtx, direction: Direction, text: Vec<u8>) -> InPlace {
        assert!(text.len().is_multiple_of(context.block_size()));
        let length = c_int::try_from(text.len()).expect("messages are of some megabytes");
        context.set_padding(false);
        let mut buffer = text;
        // A block more than the longest that an update may have kept from the one before.
        buffer.resize(buffer.len() + ROOM, 0);
        InPlace { context, direction, buffer, length }
    }

    /// Updates so many times.
    pub(super) fn update(&mut self, times: u64) -> Result<(), ErrorStack> {
        let context = self.context.as_ptr();
        let buffer = self.buffer.as_mut_ptr();
        let mut written = 0;
        let update = match self.direction {
            Direction::Encrypt => ffi::EVP_EncryptUpdate,
            Direction::Decrypt => ffi::EVP_DecryptUpdate,
        };
        for _ in 0..times {
            // SAFETY: the context is alive and initialised for this direction. `buffer` is valid
            // for reading `length` bytes, and for writing as many and `ROOM` more, which is the
            // most that an update writes (`EVP_EncryptUpdate(3)`: the input and one block).
            // Input and output are the same address, which the function allows.
            let status = unsafe { update(context, buffer, &raw mut written, buffer, self.length) };
            if status != 1 {
                return Err(ErrorStack::get());
            }
        }
        Ok(())
    }

    /// The bytes of one update.
    pub(super) fn length(&self) -> usize {
        self.buffer.len() - ROOM
    }

    /// The text as it is now.
    #[cfg(test)]
    pub(super) fn text(&self) -> &[u8] {
        &self.buffer[..self.length()]
    }
}

/// What libcrypto knows of the CPU, after what its environment masks: a text such as
/// `OPENSSL_ia32cap=0x…:0x…`.
pub(super) fn cpu_settings() -> Option<String> {
    // SAFETY: the function takes any number and returns a null pointer or a string that it made
    // once and keeps for ever.
    let text = unsafe {
        let text = OPENSSL_info(OPENSSL_INFO_CPU_SETTINGS);
        (!text.is_null()).then(|| CStr::from_ptr(text))
    };
    text.map(|text| text.to_string_lossy().into_owned())
}

/// `EVP_MAX_BLOCK_LENGTH` of `openssl/evp.h`.
const ROOM: usize = 32;

/// From `openssl/crypto.h`.
const OPENSSL_INFO_CPU_SETTINGS: c_int = 1008;

// Declared in `openssl/crypto.h` of every OpenSSL 3 and missing from `openssl-sys`.
unsafe extern "C" {
    fn OPENSSL_info(kind: c_int) -> *const c_char;
}
