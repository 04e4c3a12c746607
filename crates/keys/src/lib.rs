//! Keys and their files.
//!
//! A key file is one of
//! - a line `evener-key:v1:cobblestone-256:BASE64URL` (or `cobblestone-128`),
//! - a Tink keyset in JSON with AES-GCM-HKDF streaming keys,
//! - either of them encrypted with age, for recipients or with a passphrase.
//!
//! [`load`] reads all of them. The caller supplies passphrases and identities through [`Unlock`];
//! this crate never asks the user. To create a key file, call [`KeyMaterial::generate`], then its
//! [text](KeyMaterial::to_text), [`age::wrap`] to encrypt it, and [`create`] to write the file.

#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "age"), allow(dead_code, reason = "age alone uses some of it"))]

#[cfg(feature = "age")]
pub mod age;
#[cfg(not(feature = "age"))]
#[path = "no_age.rs"]
pub mod age;
mod age_text;
mod dialogue;
mod error;
pub mod faults;
mod key_file;
mod key_format;
mod key_line;
mod malformed;
pub mod mounts;
pub mod naming;
mod new_file;
mod passphrase;
mod pipe_head;
mod privacy;
mod process;
mod random;
mod recognise;
mod ring;
pub mod signing;
mod text;
mod tink_json;
mod tink_keyset;
mod unlock;
mod wrapped_key;

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use evener_core::Key;
use evener_format::{FormatError, Recipe};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

pub use error::KeyError;
pub use evener_format::{CobblestoneSuite, HkdfHash, TinkKey};
pub use key_format::{KeyFormat, UnknownKeyFormat};
pub use malformed::MalformedKey;
pub use naming::Naming;
pub use new_file::{NewKeyFile, create};
pub use passphrase::{Oddity, Passphrase};
pub use pipe_head::PipeHead;
pub use privacy::{Exposed, check_private, check_secret_file};
pub use process::{Protection, protect_process};
pub use recognise::{Guess, recognise};
pub use ring::{Candidates, KeyRing};
pub use text::plain_text;
pub use tink_keyset::{TinkKeyset, TinkTemplate};
pub use unlock::{NoUnlock, Unlock};
pub use wrapped_key::{
    has_wrapped_key_name, is_wrapped_key, is_wrapped_key_in, is_wrapped_key_name, wrapped_key_name,
};

/// Reads a key file, after decrypting it if age encrypted it.
///
/// The file must be a regular file of at most 1 MiB, and accessible to its owner only unless it is
/// encrypted.
///
/// # Errors
/// Says which file failed, why, and what to do next.
pub fn load(path: &Path, unlock: &dyn Unlock) -> Result<KeyMaterial, KeyError> {
    KeyFile::read(path)?.open(unlock)
}

/// A key file that has been read but not opened.
pub struct KeyFile {
    path: PathBuf,
    contents: key_file::Contents,
}

impl KeyFile {
    /// Reads a regular file of at most 1 MiB.
    ///
    /// # Errors
    /// Says why the file could not be read.
    pub fn read(path: &Path) -> Result<KeyFile, KeyError> {
        let contents = key_file::read(path, "read the key file")?;
        Ok(KeyFile { path: path.to_owned(), contents })
    }

    /// As [`KeyFile::read`], for a path that the user gave: `-` is standard input, and a descriptor
    /// of this process (`/dev/fd/3`, which a shell substitutes for `<(command)`) may be a pipe,
    /// which is read to its end.
    ///
    /// # Errors
    /// Says why the source could not be read.
    pub fn read_given(path: &Path) -> Result<KeyFile, KeyError> {
        let contents = key_file::read_given(path, "read the key file")?;
        Ok(KeyFile { path: key_file::name_of(path).to_owned(), contents })
    }

    /// Reads another source, such as a program's output, to its end: at most 1 MiB. `name` names
    /// the source in errors.
    ///
    /// # Errors
    /// [`KeyError::Endless`], and [`KeyError::Io`] when the operating system refuses.
    pub fn read_from(source: &mut impl Read, name: &str) -> Result<KeyFile, KeyError> {
        let path = PathBuf::from(name);
        match key_file::read_to_end(source) {
            Ok(Some(bytes)) => {
                Ok(KeyFile { path, contents: key_file::Contents::of_no_file(bytes) })
            }
            Ok(None) => Err(KeyError::Endless { path }),
            Err(cause) => Err(KeyError::Io { action: "read", path, cause }),
        }
    }

    /// Returns whether the file is empty.
    pub fn is_empty(&self) -> bool {
        self.contents.bytes.is_empty()
    }

    /// Returns whether the file is encrypted with a passphrase. If it opens, its author knew that
    /// passphrase; anybody can encrypt a file for recipients.
    pub fn has_passphrase(&self) -> bool {
        age::has_passphrase(&self.contents.bytes)
    }

    /// The number of recipients that the header of an age file shows, perhaps one more than there
    /// are; `None` if the file is not one, so that nothing opens it.
    pub fn recipients(&self) -> Option<usize> {
        age::recipients(&self.contents.bytes)
    }

    /// The identity of the file.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.contents.bytes)
    }

    /// Decrypts the file if age encrypted it. An unencrypted file must be accessible to its owner
    /// only.
    ///
    /// # Errors
    /// Says what is wrong with the file and what to do next.
    pub fn open(&self, unlock: &dyn Unlock) -> Result<KeyMaterial, KeyError> {
        let malformed = |reason| KeyError::Malformed { path: self.path.clone(), reason };
        if age_text::is_encrypted(&self.contents.bytes) {
            let text = age::unwrap(&self.contents.bytes, &self.path, unlock)?;
            return KeyMaterial::parse(&text).map_err(|reason| match reason {
                MalformedKey::Unknown | MalformedKey::NoText(_) => {
                    malformed(MalformedKey::NoKeyInAge)
                }
                reason => malformed(reason),
            });
        }
        self.contents.check_private(&self.path, unlock)?;
        KeyMaterial::parse(&self.contents.bytes).map_err(malformed)
    }
}

/// The SHA-256 of a key file as it is on disk, shown as 64 hexadecimal digits. It reveals nothing
/// about an encrypted key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a key file with these bytes.
    pub fn of(contents: &[u8]) -> Fingerprint {
        Fingerprint(Sha256::digest(contents).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The content of a key file: one or more keys, and their format.
#[derive(Clone, Debug)]
pub enum KeyMaterial {
    /// A key for C2SP chunked encryption.
    Cobblestone {
        /// The suite, a variant of the format.
        suite: CobblestoneSuite,
        /// The key, of [`CobblestoneSuite::key_length`] bytes.
        key: Key,
    },
    /// Keys for Tink's streaming AEAD.
    Tink(TinkKeyset),
}

impl KeyMaterial {
    /// Takes a key for C2SP chunked encryption. Its length decides the suite; `None` unless it has 16
    /// or 32 bytes.
    pub fn of_bytes(key: &[u8]) -> Option<KeyMaterial> {
        let suite = CobblestoneSuite::ALL.into_iter().find(|it| it.key_length() == key.len())?;
        Some(KeyMaterial::Cobblestone { suite, key: Key::new(key).ok()? })
    }

    /// Generates a key from the operating system's randomness.
    ///
    /// # Errors
    /// [`KeyError::Random`] when the system supplies none.
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

    /// Reads the text of an unencrypted key file, whose first bytes tell which of the two formats
    /// it has. It ignores a byte-order mark, blanks around the key and line breaks that a mail
    /// program inserted.
    ///
    /// # Errors
    /// Says what is wrong with the text, without quoting it.
    pub fn parse(text: &[u8]) -> Result<KeyMaterial, MalformedKey> {
        if age_text::is_encrypted(text) {
            return Err(MalformedKey::AgeEncrypted);
        }
        let text = plain_text(text).map_err(MalformedKey::NoText)?;
        let start = text.trim_ascii_start();
        if start.starts_with(key_line::MAGIC.as_bytes()) {
            key_line::parse(start).map(|(suite, key)| KeyMaterial::Cobblestone { suite, key })
        } else if start.starts_with(b"{") {
            tink_json::parse(text).map(KeyMaterial::Tink)
        } else if start.is_empty() {
            Err(MalformedKey::Empty)
        } else if age_text::is_identity(text) {
            Err(MalformedKey::AgeIdentity)
        } else {
            Err(MalformedKey::Unknown)
        }
    }

    /// The text of a key file, with its newline, as [`KeyMaterial::parse`] reads it.
    pub fn to_text(&self) -> Zeroizing<String> {
        match self {
            KeyMaterial::Cobblestone { suite, key } => key_line::render(*suite, key),
            KeyMaterial::Tink(keyset) => tink_json::render(keyset),
        }
    }

    /// The key ring that encrypts with this key (of a keyset, with its primary key) and decrypts
    /// with every key. Files open only with the context of their creation, which may be empty; Tink
    /// calls it associated data.
    ///
    /// # Errors
    /// When the key's parameters are invalid for its format.
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
    use proptest::prelude::*;

    use super::*;

    /// Keys have no equality, but their texts do.
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
