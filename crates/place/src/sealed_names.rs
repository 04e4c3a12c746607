//! The names of encrypted files.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use evener_core::shown;

use crate::{FileError, Operation, Refusal};

/// How encrypted files are named: with a suffix, which encryption appends and decryption strips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedNames {
    suffix: OsString,
}

/// A suffix that can't be a part of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a suffix has at least one character, and neither a slash nor a zero byte")]
pub struct MalformedSuffix;

impl SealedNames {
    /// The default suffix.
    pub const DEFAULT_SUFFIX: &'static str = ".enc";

    /// The names of age's own files.
    pub fn of_age() -> SealedNames {
        SealedNames { suffix: ".age".into() }
    }

    /// Names that stay as they are, in a sealed tree.
    pub(crate) fn kept() -> SealedNames {
        SealedNames { suffix: OsString::new() }
    }

    /// True in a sealed tree: only its index tells what a file is.
    pub(crate) fn are_kept(&self) -> bool {
        self.suffix.is_empty()
    }

    /// The names with this suffix.
    ///
    /// # Errors
    /// When it is empty or has a slash or a zero byte.
    pub fn new(suffix: impl Into<OsString>) -> Result<SealedNames, MalformedSuffix> {
        let suffix = suffix.into();
        let bytes = suffix.as_bytes();
        match bytes.is_empty() || bytes.iter().any(|byte| matches!(byte, b'/' | 0)) {
            true => Err(MalformedSuffix),
            false => Ok(SealedNames { suffix }),
        }
    }

    /// The suffix.
    pub fn suffix(&self) -> &OsStr {
        &self.suffix
    }

    /// The name of a plain file once it is encrypted.
    pub fn seal(&self, name: &OsStr) -> OsString {
        [name, &self.suffix].into_iter().collect()
    }

    /// The name of an encrypted file once it is decrypted.
    ///
    /// # Errors
    /// When the name does not have the suffix, and when no file can have the rest, as of `..enc`.
    pub fn open(&self, name: &OsStr) -> Result<OsString, FileError> {
        match name.as_bytes().strip_suffix(self.suffix.as_bytes()) {
            None => Err(FileError::Suffix(shown(&self.suffix).to_string())),
            Some(b"" | b"." | b"..") => {
                Err(Refusal::NothingButSuffix(shown(&self.suffix).to_string()).into())
            }
            Some(stem) => Ok(OsStr::from_bytes(stem).to_owned()),
        }
    }

    /// The name that a source has, or had, in plain: by it, files are selected. Its own name, if it
    /// is an encrypted file's and can't be opened.
    pub fn plain<'n>(&self, operation: Operation, name: &'n OsStr) -> Cow<'n, OsStr> {
        match operation {
            Operation::Encrypt => Cow::Borrowed(name),
            Operation::Decrypt | Operation::Verify => {
                self.open(name).map_or(Cow::Borrowed(name), Cow::Owned)
            }
        }
    }

    /// The name of a file's output; to verify, the name that the output would have.
    pub(crate) fn output(&self, operation: Operation, name: &OsStr) -> Result<OsString, FileError> {
        match operation {
            Operation::Encrypt => Ok(self.seal(name)),
            Operation::Decrypt | Operation::Verify => self.open(name),
        }
    }
}

impl Default for SealedNames {
    fn default() -> SealedNames {
        SealedNames { suffix: SealedNames::DEFAULT_SUFFIX.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_name_opens_to_its_plain_one() {
        let names = SealedNames::default();
        let sealed = names.seal("letter".as_ref());
        assert_eq!(sealed, "letter.enc");
        assert_eq!(names.open(&sealed).unwrap(), "letter");
        for name in ["letter", "letter.age", ".enc", "..enc", "...enc"] {
            assert!(names.open(name.as_ref()).is_err(), "{name}");
        }
        assert_eq!(names.open("....enc".as_ref()).unwrap(), "...");
    }

    #[test]
    fn a_suffix_is_a_part_of_a_name() {
        for suffix in ["", "/", "a/b", "/../../elsewhere", "\0"] {
            assert_eq!(SealedNames::new(suffix), Err(MalformedSuffix), "{suffix:?}");
        }
        assert_eq!(SealedNames::new(".age").unwrap().suffix(), ".age");
    }
}
