//! Tink's streaming AEAD of the kind AES-GCM-HKDF.
//!
//! Document: "AES-GCM-HKDF Streaming AEAD" in Tink's documentation,
//! <https://developers.google.com/tink/streaming-aead/aes_gcm_hkdf_streaming>.

use evener_core::{Cipher, Key};
use hkdf::Hkdf;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use zeroize::Zeroizing;

use super::FormatError;
use super::file_cipher::{FileCipher, Ivs};
use super::geometry::{Ending, Geometry};
use super::header::{Header, random};
use crate::keys::{HkdfHash, TinkKey};

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
