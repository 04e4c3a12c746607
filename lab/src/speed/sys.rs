//! Calls into libcrypto that the `openssl` crate lacks or makes slower.
//!
//! An update of 256 bytes takes 30 nanoseconds; the crate's own call reads the cipher's properties
//! each time, which would affect the figures.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use evener_core::{Direction, Iv, Key};
use foreign_types::ForeignTypeRef;
use openssl::cipher::CipherRef;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl_sys as ffi;

/// A context that repeatedly processes one buffer in place.
pub(super) struct InPlace {
    context: CipherCtx,
    direction: Direction,
    buffer: Vec<u8>,
    /// Length of the text in the buffer.
    length: c_int,
}

impl InPlace {
    /// Takes a context with cipher, direction, key and IV, and disables padding. The text's length
    /// must be whole blocks.
    pub(super) fn new(mut context: CipherCtx, direction: Direction, text: Vec<u8>) -> InPlace {
        assert!(text.len().is_multiple_of(context.block_size()));
        let length = c_int::try_from(text.len()).expect("messages are of some megabytes");
        context.set_padding(false);
        let mut buffer = text;
        // One block is more than an update can hold back from the previous one.
        buffer.resize(buffer.len() + ROOM, 0);
        InPlace { context, direction, buffer, length }
    }

    /// Updates this many times.
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
            // for reading `length` bytes, and for writing `length` plus `ROOM` bytes, the most that
            // an update writes (`EVP_EncryptUpdate(3)`: the input and one block). Input and output
            // have the same address, which the function allows.
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

    /// The current text.
    #[cfg(test)]
    pub(super) fn text(&self) -> &[u8] {
        &self.buffer[..self.length()]
    }
}

/// GCM messages, each with its key and IV set again and its tag made or checked: the calls of
/// `EVP_Update_loop_aead_enc` and `_dec` in OpenSSL's `apps/speed.c`.
pub(super) struct Gcm {
    context: CipherCtx,
    direction: Direction,
    key: Key,
    iv: [u8; GCM_IV],
    tag: [u8; GCM_TAG],
    text: Vec<u8>,
    /// A buffer as long as the text. It receives the output of decryption, so that the ciphertext
    /// remains.
    output: Vec<u8>,
}

impl Gcm {
    /// Prepares the context. For decryption, encrypts the text first.
    pub(super) fn new(
        algorithm: &CipherRef,
        direction: Direction,
        key: &Key,
        iv: Iv,
        mut text: Vec<u8>,
    ) -> Result<Gcm, ErrorStack> {
        assert!(key.len() == algorithm.key_length() && c_int::try_from(text.len()).is_ok());
        let iv: [u8; GCM_IV] = iv.bytes().try_into().expect("GCM's IVs have 12 bytes");
        let mut tag = [0; GCM_TAG];
        let mut context = CipherCtx::new()?;
        match direction {
            Direction::Encrypt => context.encrypt_init(Some(algorithm), None, None)?,
            Direction::Decrypt => {
                let mut sealing = CipherCtx::new()?;
                let plain = text.clone();
                sealing.encrypt_init(Some(algorithm), Some(key.bytes()), Some(&iv))?;
                sealing.cipher_update(&plain, Some(&mut text))?;
                sealing.cipher_final(&mut [])?;
                sealing.tag(&mut tag)?;
                context.decrypt_init(Some(algorithm), None, None)?;
            }
        }
        let (key, output) = (key.clone(), text.clone());
        Ok(Gcm { context, direction, key, iv, tag, text, output })
    }

    /// Encrypts or decrypts the text this many times.
    pub(super) fn messages(&mut self, times: u64) -> Result<(), ErrorStack> {
        let context = self.context.as_ptr();
        let (key, iv) = (self.key.bytes().as_ptr(), self.iv.as_ptr());
        let (none, no_engine, nothing) = (ptr::null(), ptr::null_mut(), ptr::null_mut());
        let (text, output) = (self.text.as_mut_ptr(), self.output.as_mut_ptr());
        let tag = self.tag.as_mut_ptr();
        let length = self.text.len() as c_int;
        let mut written = 0;
        for _ in 0..times {
            // SAFETY: the context is alive and initialised for GCM in this direction. `key` is
            // valid for the cipher's key length (asserted in `new`), `iv` for the length that is
            // set first, `tag` for the length passed with it. `text` and `output` are valid for
            // `length` bytes; GCM, a stream mode, writes as many as it reads, and none when it
            // ends. Encryption is in place, which the function allows.
            let done = unsafe {
                let begun =
                    ffi::EVP_CIPHER_CTX_ctrl(context, SET_IV_LENGTH, GCM_IV as c_int, nothing) == 1
                        && ffi::EVP_CipherInit_ex(context, none, no_engine, key, iv, KEEP) == 1;
                begun
                    && match self.direction {
                        Direction::Encrypt => {
                            ffi::EVP_EncryptUpdate(context, text, &raw mut written, text, length)
                                == 1
                                && ffi::EVP_EncryptFinal_ex(context, text, &raw mut written) == 1
                        }
                        Direction::Decrypt => {
                            let (size, tag) = (GCM_TAG as c_int, tag.cast());
                            ffi::EVP_DecryptInit_ex(context, none, no_engine, ptr::null(), iv) == 1
                                && ffi::EVP_CIPHER_CTX_ctrl(context, SET_TAG, size, tag) == 1
                                && ffi::EVP_DecryptUpdate(
                                    context,
                                    output,
                                    &raw mut written,
                                    text,
                                    length,
                                ) == 1
                                && ffi::EVP_DecryptFinal_ex(context, output, &raw mut written) == 1
                        }
                    }
            };
            if !done {
                return Err(ErrorStack::get());
            }
        }
        Ok(())
    }

    /// The bytes of a message.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }
}

/// libcrypto's CPU capabilities after applying the mask in its environment: a text such as
/// `OPENSSL_ia32cap=0x…:0x…`.
pub(super) fn cpu_settings() -> Option<String> {
    // SAFETY: the function takes any number and returns a null pointer or a string that it makes
    // once and keeps for ever.
    let text = unsafe {
        let text = OPENSSL_info(OPENSSL_INFO_CPU_SETTINGS);
        (!text.is_null()).then(|| CStr::from_ptr(text))
    };
    text.map(|text| text.to_string_lossy().into_owned())
}

/// Lengths, in bytes.
const GCM_IV: usize = 12;
const GCM_TAG: usize = 16;

/// Keeps the context's direction.
const KEEP: c_int = -1;

/// `EVP_CTRL_AEAD_SET_IVLEN` and `EVP_CTRL_AEAD_SET_TAG` of `openssl/evp.h`.
const SET_IV_LENGTH: c_int = 0x9;
const SET_TAG: c_int = 0x11;

/// `EVP_MAX_BLOCK_LENGTH` of `openssl/evp.h`.
const ROOM: usize = 32;

/// From `openssl/crypto.h`.
const OPENSSL_INFO_CPU_SETTINGS: c_int = 1008;

// Every OpenSSL 3 declares it in `openssl/crypto.h`, but `openssl-sys` lacks it.
unsafe extern "C" {
    fn OPENSSL_info(kind: c_int) -> *const c_char;
}
