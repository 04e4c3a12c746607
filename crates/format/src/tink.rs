//! Tink's streaming AEAD of the type AES-GCM-HKDF.
//!
//! Document: "AES-GCM-HKDF Streaming AEAD" in Tink's documentation,
//! <https://developers.google.com/tink/streaming-aead/aes_gcm_hkdf_streaming>.

use std::fmt;

use evener_core::{Cipher, Key};
use hkdf::Hkdf;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use zeroize::Zeroizing;

use super::FormatError;
use super::file_cipher::{FileCipher, Ivs};
use super::geometry::{Ending, Geometry};
use super::header::{Header, random};

/// A key of Tink's type `AesGcmHkdfStreamingKey`, and the layout of its ciphertexts.
#[derive(Clone)]
pub struct TinkKey {
    /// The key's identifier within the keyset. Streaming ciphertexts do not carry it.
    pub id: u32,
    /// The input key material of HKDF: at least 16 bytes and at least `derived_key_length` bytes.
    pub value: Zeroizing<Vec<u8>>,
    /// The hash of HKDF.
    pub hash: HkdfHash,
    /// Length in bytes of the AES key that HKDF derives for each ciphertext: 16 or 32.
    pub derived_key_length: usize,
    /// Length in bytes of a ciphertext segment including its tag, and of the first segment
    /// including its header: from `derived_key_length` + 25 to 2³¹ − 1.
    pub segment_length: u32,
}

/// The hash functions that Tink accepts for HKDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the names")]
pub enum HkdfHash {
    Sha1,
    Sha256,
    Sha512,
}

impl TinkKey {
    /// The parameter fault for which Tink would refuse the key, if any.
    pub fn flaw(&self) -> Option<&'static str> {
        let shortest_segment = self.derived_key_length.saturating_add(SEGMENT_OVERHEAD + 1);
        if !matches!(self.derived_key_length, 16 | 32) {
            Some("the derived key has neither 16 nor 32 bytes")
        } else if self.value.len() < self.derived_key_length.max(16) {
            Some("its value is shorter than the derived key")
        } else if (self.segment_length as usize) < shortest_segment {
            Some("its segments are too short for a header, a tag and a byte")
        } else if self.segment_length > i32::MAX as u32 {
            Some("its segments are longer than 2 GiB")
        } else {
            None
        }
    }
}

impl fmt::Debug for TinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TinkKey")
            .field("id", &self.id)
            .field("value", &format_args!("{} bytes, redacted", self.value.len()))
            .field("hash", &self.hash)
            .field("derived_key_length", &self.derived_key_length)
            .field("segment_length", &self.segment_length)
            .finish()
    }
}

/// The bytes of the first segment besides plaintext and the salt (which is as long as the derived
/// key): the header's length byte, the 7-byte nonce prefix, and the 16-byte tag.
const SEGMENT_OVERHEAD: usize = 1 + 7 + 16;

/// A Tink key and associated data, ready to derive each file's key.
///
/// A file is `header length(1) ‖ salt ‖ nonce prefix(7) ‖ segments`; the salt is as long as the
/// derived key and gives each file its own key.
#[derive(Debug)]
pub struct Tink {
    key: TinkKey,
    cipher: Cipher,
    aad: Box<[u8]>,
}

impl Tink {
    pub(super) const FORMAT: &'static str = "tink";

    /// Takes a key and associated data, which may be empty; files open only with the same data.
    ///
    /// # Errors
    /// [`FormatError::Parameters`] when Tink would refuse the key.
    pub fn new(key: TinkKey, aad: &[u8]) -> Result<Tink, FormatError> {
        if let Some(flaw) = key.flaw() {
            return Err(FormatError::Parameters(flaw));
        }
        let cipher = match key.derived_key_length {
            16 => Cipher::Aes128Gcm,
            _ => Cipher::Aes256Gcm,
        };
        Ok(Tink { key, cipher, aad: aad.into() })
    }

    pub(super) fn cipher(&self) -> Cipher {
        self.cipher
    }

    pub(super) fn header_length(&self) -> usize {
        1 + self.cipher.key_length() + PREFIX_LENGTH
    }

    pub(super) fn geometry(&self) -> Geometry {
        let (header, overhead) = (self.header_length() as u64, self.cipher.tag_length() as u64);
        let chunk = u64::from(self.key.segment_length) - overhead;
        Geometry {
            header,
            first: chunk - header,
            chunk,
            overhead,
            ending: Ending::MayBeFull,
            most_chunks: 1 << 32,
        }
    }

    pub(super) fn create(&self) -> Result<(FileCipher, Header), FormatError> {
        let (salt, prefix) = (random::<MAX_SALT_LENGTH>()?, random()?);
        let salt = &salt[..self.cipher.key_length()];
        let header = Header::new(&[&[self.header_length() as u8], salt, &prefix]);
        Ok((self.derive(salt, prefix)?, header))
    }

    pub(super) fn open(&self, header: &[u8]) -> Result<FileCipher, FormatError> {
        let (&length, rest) = header.split_first().ok_or(FormatError::Truncated)?;
        if usize::from(length) != self.header_length() {
            let reason = "it does not begin as a Tink stream under this key does; give the key of its \
                 own format (`evener list` tells which that may be)";
            return Err(FormatError::OtherFormat { format: Tink::FORMAT, reason });
        }
        let (salt, rest) =
            rest.split_at_checked(self.cipher.key_length()).ok_or(FormatError::Truncated)?;
        let prefix = rest.first_chunk().ok_or(FormatError::Truncated)?;
        self.derive(salt, *prefix)
    }

    fn derive(&self, salt: &[u8], prefix: [u8; PREFIX_LENGTH]) -> Result<FileCipher, FormatError> {
        let (value, aad) = (&self.key.value[..], &self.aad[..]);
        let mut key = Zeroizing::new([0; MAX_SALT_LENGTH]);
        let key = &mut key[..self.cipher.key_length()];
        match self.key.hash {
            HkdfHash::Sha1 => Hkdf::<Sha1>::new(Some(salt), value).expand(aad, key),
            HkdfHash::Sha256 => Hkdf::<Sha256>::new(Some(salt), value).expand(aad, key),
            HkdfHash::Sha512 => Hkdf::<Sha512>::new(Some(salt), value).expand(aad, key),
        }
        .map_err(|error| FormatError::Derivation(error.to_string()))?;
        let key = Key::new(key).map_err(|_| FormatError::Parameters("the derived key is empty"))?;
        Ok(FileCipher::new(self.cipher, key, self.geometry(), Ivs::Prefix { prefix }))
    }
}

const PREFIX_LENGTH: usize = 7;
/// The salt is as long as the longest derived key.
const MAX_SALT_LENGTH: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TinkKey {
        TinkKey {
            id: 7,
            value: Zeroizing::new(vec![1; 32]),
            hash: HkdfHash::Sha256,
            derived_key_length: 32,
            segment_length: 1 << 20,
        }
    }

    #[test]
    fn parameters_are_checked_as_tink_does() {
        let cases = [
            (32, 32, 57, true),
            (32, 32, 56, false),
            (16, 16, 41, true),
            (16, 16, 40, false),
            (16, 1000, 4096, true),
            (16, 15, 4096, false),
            (32, 31, 4096, false),
            (24, 32, 4096, false),
            (0, 32, 4096, false),
            (usize::MAX, 32, 4096, false),
            (32, 32, i32::MAX as u32, true),
            (32, 32, i32::MAX as u32 + 1, false),
            (32, 32, 0, false),
        ];
        for (derived_key_length, length, segment_length, fine) in cases {
            let value = Zeroizing::new(vec![7; length]);
            let key = TinkKey { value, derived_key_length, segment_length, ..key() };
            assert_eq!(key.flaw().is_none(), fine, "{key:?}");
        }
    }

    #[test]
    fn debug_shows_no_bytes() {
        let key = TinkKey { id: 1, value: Zeroizing::new(vec![171; 16]), ..key() };
        assert_eq!(
            format!("{key:?}"),
            "TinkKey { id: 1, value: 16 bytes, redacted, hash: Sha256, \
             derived_key_length: 32, segment_length: 1048576 }"
        );
    }
}
