//! Ciphers by their names.

pub(crate) mod sys;

use std::ffi::{CStr, CString, c_char};
use std::sync::LazyLock;

use facade::{Cipher, Direction};

use crate::status::Trouble;

/// The properties of a cipher.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CipherFacts {
    /// `sizeof(evener_cipher_info)`, set by the caller.
    pub size: usize,
    /// The OpenSSL name, such as `aes-128-cbc`. Static.
    pub name: *const c_char,
    /// In bytes. XTS counts both of its keys.
    pub key_length: usize,
    /// In bytes: 0 for ECB, 12 for GCM and ChaCha20-Poly1305, one block otherwise.
    pub iv_length: usize,
    /// Messages without padding are multiples of this many bytes.
    pub block_length: usize,
    /// Length of the tag of an AEAD cipher, in bytes; else 0.
    pub tag_length: usize,
    /// The longest message under one IV, in bytes, without its tag; `UINT64_MAX` for no limit.
    pub longest_message: u64,
}

/// The cipher of this name, in any case.
pub(crate) fn named(name: &str) -> Result<Cipher, Trouble> {
    Ok(name.parse::<Cipher>()?)
}

pub(crate) fn facts(cipher: Cipher) -> CipherFacts {
    CipherFacts {
        size: size_of::<CipherFacts>(),
        name: c_name(cipher).as_ptr(),
        key_length: cipher.key_length(),
        iv_length: cipher.iv_length(),
        block_length: cipher.block_length(),
        tag_length: cipher.tag_length(),
        longest_message: cipher.longest_message(),
    }
}

/// Whether messages are encrypted or decrypted.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectionNumber {
    /// Plaintext to ciphertext.
    Encrypt = 0,
    /// Ciphertext to plaintext.
    Decrypt = 1,
}

/// The direction with this number.
pub(crate) fn direction(number: u32) -> Result<Direction, Trouble> {
    match number {
        _ if number == DirectionNumber::Encrypt as u32 => Ok(Direction::Encrypt),
        _ if number == DirectionNumber::Decrypt as u32 => Ok(Direction::Decrypt),
        _ => Err(Trouble::argument(format!("there is no evener_direction {number}"))),
    }
}

fn c_name(cipher: Cipher) -> &'static CStr {
    let index = Cipher::ALL.iter().position(|&known| known == cipher);
    index.map_or(c"", |index| &C_NAMES[index])
}

static C_NAMES: LazyLock<Vec<CString>> = LazyLock::new(|| {
    Cipher::ALL.iter().map(|cipher| CString::new(cipher.name()).unwrap_or_default()).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_has_its_name_in_c() {
        for &cipher in Cipher::ALL {
            assert_eq!(c_name(cipher).to_str(), Ok(cipher.name()));
        }
    }
}
