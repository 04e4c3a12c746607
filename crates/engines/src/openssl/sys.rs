//! Calls into libcrypto that the `openssl` crate lacks, or that cost more through it.
//!
//! A short message costs as much in calls as in encryption, so the calls were chosen by measurement
//! (`benches/openssl_overhead`). `EVP_Cipher` skips the buffering and padding of
//! `EVP_EncryptUpdate`, and with it the parameter call that switching padding off costs at every
//! start of a message. Tags are passed in parameter lists that are built in place. The older
//! control call costs more, because it allocates such lists.

use std::ffi::{c_int, c_uchar, c_uint};
use std::ptr;
use std::sync::Once;

use evener_core::{Cipher, Direction};
use foreign_types::ForeignTypeRef;
use openssl::cipher::CipherRef;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl_sys as ffi;

use crate::misfit::{self, Misfit};

/// Length of every AEAD tag, in bytes.
pub(super) const TAG_LENGTH: usize = 16;

/// The reason why a call failed. A misfit is boxed because this type is returned for every message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error(transparent)]
    Library(#[from] ErrorStack),
    #[error(transparent)]
    Misfit(Box<Misfit>),
}

impl From<Misfit> for Refusal {
    #[cold]
    fn from(misfit: Misfit) -> Refusal {
        Refusal::Misfit(Box::new(misfit))
    }
}

/// Stops libcrypto from reading a configuration file, in the whole process. Such a file names
/// libraries to load, and its place depends on the environment and on where libcrypto was built. A
/// file that was read before stays in effect.
pub(super) fn use_no_configuration() {
    static DONE: Once = Once::new();
    // SAFETY: it takes options and no settings, and may be called at any time, from any thread. It
    // fails if libcrypto can't be initialised at all; then the next call reports that.
    DONE.call_once(|| unsafe {
        OPENSSL_init_crypto(NO_CONFIGURATION | ffi::OPENSSL_INIT_NO_ATEXIT, ptr::null());
    });
}

/// A cipher context that is initialised for one cipher and direction, once.
pub(super) struct Context {
    context: CipherCtx,
    key_length: usize,
    iv_length: usize,
    block_length: usize,
    is_authenticated: bool,
    buffers: bool,
}

impl Context {
    /// A context without a key. `algorithm` is libcrypto's cipher of that name. `buffers` says
    /// whether the algorithm may have only the entry point that buffers and pads: `EVP_Cipher`
    /// would use that too, but not say how much it wrote.
    pub(super) fn new(
        cipher: Cipher,
        algorithm: &CipherRef,
        direction: Direction,
        buffers: bool,
    ) -> Result<Context, ErrorStack> {
        let mut context = CipherCtx::new()?;
        match direction {
            Direction::Encrypt => context.encrypt_init(Some(algorithm), None, None)?,
            Direction::Decrypt => context.decrypt_init(Some(algorithm), None, None)?,
        }
        if buffers && context.block_size() > 1 {
            context.set_padding(false);
        }
        Ok(Context {
            key_length: context.key_length(),
            iv_length: context.iv_length(),
            block_length: context.block_size(),
            is_authenticated: cipher.is_authenticated(),
            buffers,
            context,
        })
    }

    /// Starts a message. Without a key, the last one is kept.
    pub(super) fn start(&mut self, key: Option<&[u8]>, iv: &[u8]) -> Result<(), Refusal> {
        key.map_or(Ok(()), |key| misfit::check("a key", key.len(), self.key_length))?;
        misfit::check("an IV", iv.len(), self.iv_length)?;
        let context = self.context.as_ptr();
        let key = key.map_or(ptr::null(), <[u8]>::as_ptr);
        let iv = if iv.is_empty() { ptr::null() } else { iv.as_ptr() };
        // SAFETY: the context holds a cipher (set in `new`), whose key and IV lengths were read
        // from it and are never changed, so libcrypto reads exactly the bytes that were counted
        // above. It copies them and keeps no pointer.
        let status =
            unsafe { ffi::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), key, iv, KEEP) };
        check(status == 1)
    }

    /// Takes in additional authenticated data, before the text. For AEAD ciphers only.
    pub(super) fn authenticate(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let most = if self.is_authenticated { data.len() } else { 0 };
        misfit::check("additional data", data.len(), most)?;
        for part in data.chunks(PART_LENGTH) {
            // SAFETY: without an output, AEAD ciphers take in the `part.len()` bytes of `part`
            // and write nothing. The check above keeps every other cipher out.
            let done = unsafe { self.update(ptr::null_mut(), part.as_ptr(), part.len()) };
            check(done.is_some())?;
        }
        Ok(())
    }

    /// Encrypts or decrypts whole blocks; both slices have the same length.
    pub(super) fn transform(&mut self, input: &[u8], output: &mut [u8]) -> Result<(), Refusal> {
        misfit::check("an output", output.len(), input.len())?;
        misfit::check_blocks(input.len(), self.block_length)?;
        for (part, output) in input.chunks(PART_LENGTH).zip(output.chunks_mut(PART_LENGTH)) {
            // SAFETY: both slices are valid for `part.len()` bytes. They do not overlap, because
            // one is borrowed mutably. As many bytes are written as are read: padding is off or
            // bypassed, and the check above makes the length whole blocks (`PART_LENGTH` is a
            // multiple of every block).
            let done = unsafe { self.update(output.as_mut_ptr(), part.as_ptr(), part.len()) };
            check(done == Some(part.len()))?;
        }
        Ok(())
    }

    /// Encrypts or decrypts whole blocks and puts the result in their place.
    pub(super) fn transform_in_place(&mut self, data: &mut [u8]) -> Result<(), Refusal> {
        misfit::check_blocks(data.len(), self.block_length)?;
        for part in data.chunks_mut(PART_LENGTH) {
            let (start, length) = (part.as_mut_ptr(), part.len());
            // SAFETY: `part` is valid for its length, both to read and to write, and as many
            // bytes are written as are read, as above. EVP takes an output that is the input.
            let done = unsafe { self.update(start, start, length) };
            check(done == Some(length))?;
        }
        Ok(())
    }

    /// Passes one part to the cipher, and returns the number of bytes that it wrote.
    ///
    /// # Safety
    /// `input` must be valid for `length` bytes, at most [`PART_LENGTH`], and `output` for as
    /// many as the cipher writes for them; it may be the input, but not overlap it otherwise.
    unsafe fn update(&mut self, output: *mut u8, input: *const u8, length: usize) -> Option<usize> {
        let context = self.context.as_ptr();
        if self.buffers {
            let mut written = 0;
            // SAFETY: the caller promises that the reads and writes are valid; the length fits an
            // int, and the number of bytes written goes to `written`.
            let status = unsafe {
                ffi::EVP_CipherUpdate(context, output, &mut written, input, part(length) as c_int)
            };
            return usize::try_from(written).ok().filter(|_| status == 1);
        }
        // SAFETY: as above. The return value is the length written, or negative.
        let done = unsafe { EVP_Cipher(context, output, input, part(length)) };
        usize::try_from(done).ok()
    }

    /// Ends an AEAD message and writes its tag.
    pub(super) fn finish_encryption(&mut self, tag: &mut [u8; TAG_LENGTH]) -> Result<(), Refusal> {
        check(self.finish())?;
        let mut parameters = tag_parameter(tag.as_mut_ptr());
        // SAFETY: the list is terminated and its one entry gives the tag's address and true
        // length, so that is all that is written besides the list itself.
        let status =
            unsafe { EVP_CIPHER_CTX_get_params(self.context.as_ptr(), parameters.as_mut_ptr()) };
        check(status == 1)
    }

    /// Ends an AEAD message. Returns whether it has this tag.
    pub(super) fn finish_decryption(&mut self, tag: &[u8; TAG_LENGTH]) -> Result<bool, Refusal> {
        let parameters = tag_parameter(tag.as_ptr().cast_mut());
        // SAFETY: the list is terminated and its one entry gives the tag's address and true
        // length. Setting a parameter copies from there and writes nothing.
        let status =
            unsafe { EVP_CIPHER_CTX_set_params(self.context.as_ptr(), parameters.as_ptr()) };
        check(status == 1)?;
        let authentic = self.finish();
        if !authentic {
            // SAFETY: it takes no arguments and only empties this thread's error queue.
            unsafe { ffi::ERR_clear_error() };
        }
        Ok(authentic)
    }

    fn finish(&mut self) -> bool {
        let mut nothing = [0; LONGEST_BLOCK];
        let mut written = 0;
        // SAFETY: the context is initialised, and no cipher writes more than a block to end.
        let status = unsafe {
            ffi::EVP_CipherFinal(self.context.as_ptr(), nothing.as_mut_ptr(), &mut written)
        };
        status == 1
    }
}

/// A list of one parameter, the tag at an address.
fn tag_parameter(tag: *mut u8) -> [ffi::OSSL_PARAM; 2] {
    let parameter = |key, data_type, data, data_size| ffi::OSSL_PARAM {
        key,
        data_type,
        data,
        data_size,
        return_size: usize::MAX,
    };
    [
        parameter(c"tag".as_ptr(), OSSL_PARAM_OCTET_STRING, tag.cast(), TAG_LENGTH),
        parameter(ptr::null(), 0, ptr::null_mut(), 0),
    ]
}

fn check(fine: bool) -> Result<(), Refusal> {
    if fine { Ok(()) } else { Err(ErrorStack::get().into()) }
}

/// The length of a part, which is at most [`PART_LENGTH`].
fn part(length: usize) -> c_uint {
    const { assert!(PART_LENGTH <= c_int::MAX as usize) };
    length as c_uint
}

/// The longest part for one call, in bytes, because its lengths are ints. A multiple of every
/// block.
const PART_LENGTH: usize = 1 << 30;

/// `EVP_MAX_BLOCK_LENGTH` of `openssl/evp.h`.
const LONGEST_BLOCK: usize = 32;

/// Keep the direction that the context has.
const KEEP: c_int = -1;

/// `OPENSSL_INIT_NO_LOAD_CONFIG` of `openssl/crypto.h`.
const NO_CONFIGURATION: u64 = 0x80;

/// From `openssl/core.h`.
const OSSL_PARAM_OCTET_STRING: c_uint = 5;

// Declared in `openssl/evp.h` of every OpenSSL 3 and missing from `openssl-sys`.
unsafe extern "C" {
    fn OPENSSL_init_crypto(options: u64, settings: *const ffi::OPENSSL_INIT_SETTINGS) -> c_int;

    fn EVP_Cipher(
        context: *mut ffi::EVP_CIPHER_CTX,
        output: *mut c_uchar,
        input: *const c_uchar,
        length: c_uint,
    ) -> c_int;

    fn EVP_CIPHER_CTX_set_params(
        context: *mut ffi::EVP_CIPHER_CTX,
        parameters: *const ffi::OSSL_PARAM,
    ) -> c_int;

    fn EVP_CIPHER_CTX_get_params(
        context: *mut ffi::EVP_CIPHER_CTX,
        parameters: *mut ffi::OSSL_PARAM,
    ) -> c_int;
}

#[cfg(test)]
mod tests {
    use openssl::cipher::Cipher as Algorithm;

    use super::*;

    #[test]
    fn no_wrong_length_is_passed_on() {
        let algorithm = Algorithm::fetch(None, "aes-128-cbc", None).unwrap();
        let mut context =
            Context::new(Cipher::Aes128Cbc, &algorithm, Direction::Encrypt, false).unwrap();
        let is_misfit = |result| matches!(result, Err(Refusal::Misfit(_)));
        assert!(is_misfit(context.start(Some(&[1; 16]), &[])));
        assert!(is_misfit(context.start(Some(&[1; 16]), &[2; 12])));
        assert!(is_misfit(context.start(Some(&[1; 24]), &[2; 16])));
        assert!(context.start(Some(&[1; 16]), &[2; 16]).is_ok());
        assert!(is_misfit(context.authenticate(&[3])));
        assert!(is_misfit(context.transform(&[4; 16], &mut [0; 15])));
        assert!(is_misfit(context.transform(&[4; 15], &mut [0; 15])));
        assert!(is_misfit(context.transform_in_place(&mut [0; 17])));
        assert!(context.transform(&[4; 16], &mut [0; 16]).is_ok());
    }
}
