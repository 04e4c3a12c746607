//! Tink keysets of AES-GCM-HKDF streaming keys.

use evener_format::{HkdfHash, TinkKey};
use zeroize::Zeroizing;

use super::{KeyError, random};

/// The enabled keys of a Tink keyset. All of them decrypt; the primary key encrypts.
#[derive(Clone, Debug)]
pub struct TinkKeyset {
    /// The key that encrypts.
    pub primary: TinkKey,
    /// The other keys that decrypt, in the order of the keyset.
    pub others: Vec<TinkKey>,
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
    /// Generates a keyset of one key.
    ///
    /// # Errors
    /// [`KeyError::Random`] when the operating system supplies no randomness.
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
        assert_eq!(one.flaw(), None);
        let small = TinkKeyset::generate(TinkTemplate::Aes256GcmHkdf4Kb).unwrap();
        assert_eq!(small.primary.segment_length, 4096);
        assert_eq!(small.primary.flaw(), None);
    }
}
