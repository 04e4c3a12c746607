//! Tink keysets of AES-GCM-HKDF streaming keys: their fields, and the values that Tink allows.

use std::fmt;

use zeroize::Zeroizing;

use super::{KeyError, MalformedKey, random};

/// The enabled keys of a Tink keyset. Every one of them decrypts, the primary encrypts.
#[derive(Clone, Debug)]
pub struct TinkKeyset {
    /// The key that encrypts.
    pub primary: TinkKey,
    /// The other keys that decrypt, in the order of the keyset.
    pub others: Vec<TinkKey>,
}

/// A key of Tink's type `AesGcmHkdfStreamingKey`, and how its ciphertexts are laid out.
#[derive(Clone)]
pub struct TinkKey {
    /// The key's identifier within the keyset. Streaming ciphertexts do not carry it.
    pub id: u32,
    /// The input key material of HKDF: at least 16 bytes and `derived_key_length` bytes.
    pub value: Zeroizing<Vec<u8>>,
    /// The hash of HKDF.
    pub hash: HkdfHash,
    /// Length in bytes of the AES key that HKDF derives for each ciphertext: 16 or 32.
    pub derived_key_length: usize,
    /// Length in bytes of a ciphertext segment, its tag included, and of the first one with
    /// its header included: from `derived_key_length` + 25 to 2³¹ − 1.
    pub segment_length: u32,
}

/// The hash functions that Tink takes for HKDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the names")]
pub enum HkdfHash {
    Sha1,
    Sha256,
    Sha512,
}

/// Tink's templates for streaming keys of 256 bits: HKDF with SHA-256, AES-256-GCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum TinkTemplate {
    /// `AES256_GCM_HKDF_4KB`: segments of 4 KiB, for random access to small pieces.
    Aes256GcmHkdf4Kb,
    /// `AES256_GCM_HKDF_1MB`: segments of 1 MiB.
    #[default]
    Aes256GcmHkdf1Mb,
}

impl TinkKeyset {
    /// Makes a keyset of one fresh key.
    ///
    /// # Errors
    /// [`KeyError::Random`] when the operating system has no randomness to give.
    pub fn generate(template: TinkTemplate) -> Result<TinkKeyset, KeyError> {
        let primary = TinkKey {
            id: random::nonzero_u32()?,
            value: Zeroizing::new(random::bytes::<32>()?.to_vec()),
            hash: HkdfHash::Sha256,
            derived_key_length: 32,
            segment_length: match template {
                TinkTemplate::Aes256GcmHkdf4Kb => 4 << 10,
                TinkTemplate::Aes256GcmHkdf1Mb => 1 << 20,
            },
        };
        Ok(TinkKeyset { primary, others: Vec::new() })
    }

    /// The primary key, then all other keys.
    pub fn keys(&self) -> impl Iterator<Item = &TinkKey> {
        std::iter::once(&self.primary).chain(&self.others)
    }
}

impl TinkKey {
    /// Checks the parameters as Tink does before it uses a key. Keys that were read from a
    /// keyset or generated have passed.
    ///
    /// # Errors
    /// [`MalformedKey::KeysetKey`] says what Tink would refuse.
    pub fn check(&self) -> Result<(), MalformedKey> {
        match self.flaw() {
            Some(reason) => Err(MalformedKey::KeysetKey { id: self.id, reason }),
            None => Ok(()),
        }
    }

    /// The fault in the parameters that Tink would refuse, if there is one.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
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

/// What the first segment holds besides the salt, which is as long as the derived key, and
/// plaintext: the header's length byte, the 7-byte nonce prefix, and the 16-byte tag.
const SEGMENT_OVERHEAD: usize = 1 + 7 + 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TinkKey {
        TinkKeyset::generate(TinkTemplate::default()).unwrap().primary
    }

    #[test]
    fn fresh_keys_follow_the_template_and_differ() {
        let (one, two) = (key(), key());
        assert_eq!((one.segment_length, one.derived_key_length), (1 << 20, 32));
        assert_eq!((one.hash, one.value.len()), (HkdfHash::Sha256, 32));
        assert_ne!(one.value, two.value);
        one.check().unwrap();
        let small = TinkKeyset::generate(TinkTemplate::Aes256GcmHkdf4Kb).unwrap();
        assert_eq!(small.primary.segment_length, 4096);
        small.primary.check().unwrap();
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
            assert_eq!(key.check().is_ok(), fine, "{key:?}");
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
