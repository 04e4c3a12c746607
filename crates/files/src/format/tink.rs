//! Tink's streaming AEAD of the kind AES-GCM-HKDF.
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
use super::recipe::{Header, random};

/// The hash of HKDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the names")]
pub enum HkdfHash {
    Sha1,
    Sha256,
    Sha512,
}

/// A key of the kind AES-GCM-HKDF streaming, as a Tink keyset holds it.
#[derive(Clone)]
pub struct TinkKey {
    /// The key's identifier within the keyset. Files do not carry it.
    pub id: u32,
    /// The key's secret value, as long as the derived key or longer.
    pub value: Zeroizing<Vec<u8>>,
    /// The hash that derives each file's key.
    pub hash: HkdfHash,
    /// Length of each file's AES key in bytes: 16 or 32.
    pub derived_key_length: usize,
    /// Length in bytes of a full segment in the file, tag included (and in the first, the
    /// header): from `derived_key_length` + 25 to 2³¹ - 1.
    pub segment_length: u32,
}

impl fmt::Debug for TinkKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TinkKey")
            .field("id", &self.id)
            .field("hash", &self.hash)
            .field("derived_key_length", &self.derived_key_length)
            .field("segment_length", &self.segment_length)
            .finish_non_exhaustive()
    }
}

/// A Tink key and associated data, ready to derive each file's key.
///
/// A file is `header length(1) ‖ salt ‖ nonce prefix(7) ‖ segments`; the salt is as long as the
/// derived key and gives the file its own.
#[derive(Debug)]
pub struct Tink {
    key: TinkKey,
    cipher: Cipher,
    aad: Box<[u8]>,
}

impl Tink {
    pub(super) const FORMAT: &'static str = "tink";

    /// Takes a key and associated data, which may be empty; files open only with the same.
    ///
    /// # Errors
    /// [`FormatError::Parameters`] when Tink would refuse the key.
    pub fn new(key: TinkKey, aad: &[u8]) -> Result<Tink, FormatError> {
        let cipher = match key.derived_key_length {
            16 => Cipher::Aes128Gcm,
            32 => Cipher::Aes256Gcm,
            _ => return Err(FormatError::Parameters("Tink's derived keys have 16 or 32 bytes")),
        };
        if key.value.len() < cipher.key_length() {
            return Err(FormatError::Parameters("the Tink key is shorter than its derived keys"));
        }
        let header_and_tag = cipher.key_length() + 24;
        if key.segment_length as usize <= header_and_tag {
            return Err(FormatError::Parameters("Tink's segments must hold more than the header"));
        }
        if key.segment_length > i32::MAX as u32 {
            return Err(FormatError::Parameters("Tink's segments are shorter than 2 GiB"));
        }
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
            let reason = "the first byte is not the header length that goes with the key";
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
        let key = Key::new(key).ok_or(FormatError::Parameters("the derived key is empty"))?;
        Ok(FileCipher::new(self.cipher, key, self.geometry(), Ivs::Prefix { prefix }))
    }
}

const PREFIX_LENGTH: usize = 7;
/// The salt is as long as the longest derived key.
const MAX_SALT_LENGTH: usize = 32;
