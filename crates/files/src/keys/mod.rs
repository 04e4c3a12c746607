//! Keys and the files they live in.
//!
//! A key file is one of
//! - a line `evener-key:v1:cobblestone-256:BASE64URL` (or `cobblestone-128`),
//! - a Tink keyset in JSON with AES-GCM-HKDF streaming keys,
//! - either of them encrypted with age, for recipients or with a passphrase.
//!
//! [`load`] reads all of them. What encrypts a key is supplied through [`Unlock`]; nothing in
//! here asks a person. To make one, [`KeyMaterial::generate`] it, take its
//! [text](KeyMaterial::to_text), [`age::wrap`] that if it is to be encrypted, and
//! [`create`] the file.

pub mod age;
mod error;
mod key_file;
mod key_format;
mod key_line;
mod passphrase;
mod random;
mod tink_json;
mod tink_keyset;
mod unlock;

use std::path::Path;

use evener_core::Key;
use zeroize::Zeroizing;

use crate::KeyRing;
use crate::format::{FormatError, Recipe};

pub use error::{KeyError, MalformedKey};
pub use key_file::create;
pub use key_format::{CobblestoneSuite, KeyFormat, UnknownKeyFormat};
pub use passphrase::Passphrase;
pub use tink_keyset::{HkdfHash, TinkKey, TinkKeyset, TinkTemplate};
pub use unlock::{NoUnlock, Unlock};

/// Reads a key file, and decrypts it first if it is encrypted with age.
///
/// The file must be a regular one of at most 1 MiB, and its owner's alone unless it is
/// encrypted.
///
/// # Errors
/// Says what was wrong with which file and what to do next.
pub fn load(path: &Path, unlock: &dyn Unlock) -> Result<KeyMaterial, KeyError> {
    let contents = key_file::read(path, "read the key file")?;
    let text = if age::is_encrypted(&contents.bytes) {
        age::unwrap(&contents.bytes, path, unlock)?
    } else {
        contents.check_mode(path)?;
        contents.bytes
    };
    KeyMaterial::parse(&text)
        .map_err(|reason| KeyError::Malformed { path: path.to_owned(), reason })
}

/// What a key file holds: a key or keys, and the format that they are for.
#[derive(Clone, Debug)]
pub enum KeyMaterial {
    /// A key for C2SP chunked encryption.
    Cobblestone {
        /// Which of its variants.
        suite: CobblestoneSuite,
        /// Of [`CobblestoneSuite::key_length`] bytes.
        key: Key,
    },
    /// Keys for Tink's streaming AEAD.
    Tink(TinkKeyset),
}

impl KeyMaterial {
    /// Makes a fresh key from the operating system's randomness.
    ///
    /// # Errors
    /// [`KeyError::Random`] when there is none to be had.
    pub fn generate(format: KeyFormat) -> Result<KeyMaterial, KeyError> {
        let suite = match format {
            KeyFormat::Cobblestone256 => CobblestoneSuite::Aes256Gcm,
            KeyFormat::Cobblestone128 => CobblestoneSuite::Aes128Gcm,
            KeyFormat::Tink => {
                return TinkKeyset::generate(TinkTemplate::default()).map(KeyMaterial::Tink);
            }
        };
        let bytes = random::bytes::<{ CobblestoneSuite::LONGEST_KEY }>()?;
        let key = Key::new(&bytes[..suite.key_length()]).expect("a suite's key is a key");
        Ok(KeyMaterial::Cobblestone { suite, key })
    }

    /// Reads the text of a key file that is not encrypted; what it begins with says which of
    /// the two it is.
    ///
    /// # Errors
    /// Says what is wrong with the text, without quoting it.
    pub fn parse(text: &[u8]) -> Result<KeyMaterial, MalformedKey> {
        let start = text.trim_ascii_start();
        if text.starts_with(key_line::MAGIC.as_bytes()) {
            key_line::parse(text).map(|(suite, key)| KeyMaterial::Cobblestone { suite, key })
        } else if start.starts_with(b"{") {
            tink_json::parse(text).map(KeyMaterial::Tink)
        } else if start.is_empty() {
            Err(MalformedKey::Empty)
        } else if age::is_encrypted(text) {
            Err(MalformedKey::AgeEncrypted)
        } else if age::is_identity(text) {
            Err(MalformedKey::AgeIdentity)
        } else {
            Err(MalformedKey::Unknown)
        }
    }

    /// The text of a key file, with its newline, that [`KeyMaterial::parse`] reads.
    pub fn to_text(&self) -> Zeroizing<String> {
        match self {
            KeyMaterial::Cobblestone { suite, key } => key_line::render(*suite, key),
            KeyMaterial::Tink(keyset) => tink_json::render(keyset),
        }
    }

    /// What encrypts with this key (of a keyset with its primary key) and decrypts with all
    /// there are. Files open only with the context that they were made with, which may be
    /// empty; Tink calls it associated data.
    ///
    /// # Errors
    /// When the key's parameters are not those of its format.
    pub fn key_ring(&self, context: &[u8]) -> Result<KeyRing, FormatError> {
        match self {
            KeyMaterial::Cobblestone { suite, key } => {
                Recipe::cobblestone(*suite, key, context).map(KeyRing::new)
            }
            KeyMaterial::Tink(keyset) => {
                let primary = KeyRing::new(Recipe::tink(keyset.primary.clone(), context)?);
                keyset.others.iter().try_fold(primary, |ring, other| {
                    Ok(ring.with(Recipe::tink(other.clone(), context)?))
                })
            }
        }
    }

    /// The format that this key is for.
    pub fn format(&self) -> KeyFormat {
        match self {
            KeyMaterial::Cobblestone { suite: CobblestoneSuite::Aes256Gcm, .. } => {
                KeyFormat::Cobblestone256
            }
            KeyMaterial::Cobblestone { suite: CobblestoneSuite::Aes128Gcm, .. } => {
                KeyFormat::Cobblestone128
            }
            KeyMaterial::Tink(_) => KeyFormat::Tink,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::age::Identity;
    use super::*;

    /// Keys have no equality; their texts do.
    fn assert_same(one: &KeyMaterial, two: &KeyMaterial) {
        assert_eq!(one.to_text(), two.to_text());
    }

    #[test]
    fn every_format_is_made_and_read_back() {
        let directory = tempfile::tempdir().unwrap();
        for &format in KeyFormat::ALL {
            let key = KeyMaterial::generate(format).unwrap();
            assert_eq!(key.format(), format);
            assert_eq!(key.format().to_string().parse(), Ok(format));
            let path = directory.path().join(format.name());
            create(&path, key.to_text().as_bytes()).unwrap();
            assert_same(&load(&path, &NoUnlock).unwrap(), &key);
            let another = KeyMaterial::generate(format).unwrap();
            assert_ne!(another.to_text(), key.to_text());
        }
        assert!("openssl".parse::<KeyFormat>().is_err());
    }

    #[test]
    fn a_key_becomes_a_ring_of_its_format() {
        for &format in KeyFormat::ALL {
            let ring = KeyMaterial::generate(format).unwrap().key_ring(b"context").unwrap();
            assert_eq!(ring.primary().format(), format.name());
            assert_eq!(ring.recipes().count(), 1);
        }
        let mut keyset = TinkKeyset::generate(TinkTemplate::Aes256GcmHkdf4Kb).unwrap();
        let other = TinkKeyset::generate(TinkTemplate::Aes256GcmHkdf1Mb).unwrap();
        keyset.others.push(other.primary);
        let ring = KeyMaterial::Tink(keyset).key_ring(b"").unwrap();
        let chunks: Vec<_> = ring.recipes().map(|recipe| recipe.geometry().chunk).collect();
        assert_eq!(chunks, [4096 - 16, (1 << 20) - 16], "the primary key is first");
    }

    #[test]
    fn an_encrypted_key_file_may_be_readable_and_a_plain_one_may_not() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity::generate();
        let key = KeyMaterial::generate(KeyFormat::Tink).unwrap();
        let wrapped = age::wrap(key.to_text().as_bytes(), &[identity.recipient()]).unwrap();
        let (plain, encrypted) = (directory.path().join("plain"), directory.path().join("age"));
        create(&plain, key.to_text().as_bytes()).unwrap();
        create(&encrypted, &wrapped).unwrap();
        for path in [&plain, &encrypted] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        assert_same(&load(&encrypted, &vec![identity]).unwrap(), &key);
        let error = load(&plain, &NoUnlock).unwrap_err();
        assert!(matches!(error, KeyError::OpenToOthers { mode: 0o644, .. }), "{error}");
    }

    #[test]
    fn an_error_names_the_file_and_not_the_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("my.key");
        create(&path, b"evener-key:v1:cobblestone-256:swordfish").unwrap();
        let message = load(&path, &NoUnlock).unwrap_err().to_string();
        assert!(message.contains("my.key"), "{message}");
        assert!(!message.contains("swordfish"), "{message}");
    }

    #[test]
    fn debug_shows_no_keys() {
        for &format in KeyFormat::ALL {
            let shown = format!("{:?}", KeyMaterial::generate(format).unwrap());
            assert!(shown.contains("redacted"), "{shown}");
        }
    }

    #[test]
    fn other_files_are_told_apart() {
        let identity = "# created: today\nAGE-SECRET-KEY-1QQQQ\n";
        let cases = [
            ("", MalformedKey::Empty),
            (" \n\n", MalformedKey::Empty),
            ("hello", MalformedKey::Unknown),
            (identity, MalformedKey::AgeIdentity),
            ("age-encryption.org/v1\n", MalformedKey::AgeEncrypted),
            ("-----BEGIN AGE ENCRYPTED FILE-----\n", MalformedKey::AgeEncrypted),
        ];
        for (text, expected) in cases {
            assert_eq!(KeyMaterial::parse(text.as_bytes()).unwrap_err(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(KeyMaterial::parse(&text).is_err());
        }
    }
}
