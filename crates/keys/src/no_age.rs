//! The module `age` of a build without the feature of that name: the same types and functions, each
//! of which fails with an error that says so. No identity and no recipient exists.

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use evener_format::{AgeFileKey, AgeHeaders, FormatError, Recipe};
use zeroize::Zeroizing;

use super::{KeyError, Passphrase, Unlock};

pub use super::age_text::{is_armoured, is_encrypted};
pub use super::dialogue::{Dialogue, NoDialogue};

/// The secret that opens files encrypted for its recipient.
#[derive(Clone, Debug)]
pub enum Identity {}

/// A recipient of encrypted data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {}

impl Identity {
    /// Reads no file.
    ///
    /// # Errors
    /// Always [`KeyError::NeedsAge`].
    pub fn read_file(path: &Path, _unlock: &dyn Unlock) -> Result<Vec<Identity>, KeyError> {
        Err(needs_age(path))
    }

    /// The recipient whose files this identity opens.
    pub fn recipient(&self) -> Option<Recipient> {
        match *self {}
    }
}

impl Recipient {
    /// Reads no file.
    ///
    /// # Errors
    /// Always [`KeyError::NeedsAge`].
    pub fn read_file(path: &Path, _unlock: &dyn Unlock) -> Result<Vec<Recipient>, KeyError> {
        Err(needs_age(path))
    }
}

impl FromStr for Recipient {
    type Err = KeyError;

    fn from_str(_text: &str) -> Result<Self, KeyError> {
        Err(KeyError::NoAge)
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// The headers of age files, of which there are none.
#[derive(Debug)]
pub struct FileHeaders(());

impl FileHeaders {
    /// Opens nothing.
    pub fn opened_by(_identities: Vec<Identity>, _passphrase: Option<Passphrase>) -> FileHeaders {
        FileHeaders(())
    }

    /// Changes nothing.
    #[must_use]
    pub fn speaking(self, _dialogue: Arc<dyn Dialogue>) -> FileHeaders {
        self
    }

    /// Encrypts nothing.
    ///
    /// # Errors
    /// Always [`KeyError::NoAge`].
    pub fn for_recipients(self, _recipients: Vec<Recipient>) -> Result<FileHeaders, KeyError> {
        Err(KeyError::NoAge)
    }

    /// Encrypts nothing.
    ///
    /// # Errors
    /// Always [`KeyError::NoAge`].
    pub fn for_passphrase(self, _passphrase: Passphrase) -> Result<FileHeaders, KeyError> {
        Err(KeyError::NoAge)
    }

    /// Tries no passphrase at all.
    #[must_use]
    pub fn giving_up_after(self, _refusals: u32) -> FileHeaders {
        self
    }

    /// Writes no header.
    ///
    /// # Errors
    /// Always.
    pub fn rewrap(&self, _header: &[u8]) -> Result<Vec<u8>, FormatError> {
        Err(FormatError::Age(KeyError::NoAge.to_string()))
    }

    /// A format that neither creates nor opens a file.
    pub fn recipe(self) -> Recipe {
        Recipe::age(self)
    }
}

impl AgeHeaders for FileHeaders {
    fn create(&self) -> Result<(AgeFileKey, Vec<u8>), FormatError> {
        Err(FormatError::Age(KeyError::NoAge.to_string()))
    }

    fn open(&self, _header: &[u8]) -> Result<AgeFileKey, FormatError> {
        Err(FormatError::Age(KeyError::NoAge.to_string()))
    }

    fn longest(&self) -> usize {
        0
    }
}

/// Encrypts nothing.
///
/// # Errors
/// Always [`KeyError::NoAge`].
pub fn wrap(_text: &[u8], _recipients: &[Recipient]) -> Result<Vec<u8>, KeyError> {
    Err(KeyError::NoAge)
}

/// Encrypts nothing.
///
/// # Errors
/// Always [`KeyError::NoAge`].
pub fn wrap_with(
    _text: &[u8],
    _recipients: &[Recipient],
    _dialogue: Arc<dyn Dialogue>,
) -> Result<Vec<u8>, KeyError> {
    Err(KeyError::NoAge)
}

/// Encrypts nothing.
///
/// # Errors
/// Always [`KeyError::NoAge`].
pub fn wrap_with_passphrase(_text: &[u8], _passphrase: &Passphrase) -> Result<Vec<u8>, KeyError> {
    Err(KeyError::NoAge)
}

/// Decrypts nothing.
///
/// # Errors
/// Always [`KeyError::NeedsAge`].
pub fn unwrap(
    _bytes: &[u8],
    path: &Path,
    _unlock: &dyn Unlock,
) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    Err(needs_age(path))
}

/// Reads armour as it is.
pub fn unarmoured<'a>(armoured: Box<dyn Read + 'a>) -> Box<dyn Read + 'a> {
    armoured
}

/// Tells nothing of a file without reading its header.
pub(super) fn has_passphrase(_bytes: &[u8]) -> bool {
    false
}

/// Counts nothing without reading the header.
pub(super) fn recipients(_bytes: &[u8]) -> Option<usize> {
    None
}

fn needs_age(path: &Path) -> KeyError {
    KeyError::NeedsAge { path: path.to_owned() }
}
