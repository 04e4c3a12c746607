//! An encrypted file as its plaintext.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;

use crate::place::{Blob, Metadata};
use crate::random_access::RandomAccess;
use crate::{Fault, FileError, Name};

/// An open file.
pub(super) struct Opened {
    pub(super) file: Arc<Content>,
    /// `None` if nothing is to be done.
    pub(super) plain: Option<RandomAccess>,
    pub(super) name: Name,
    pub(super) errors: Arc<Errors>,
}

impl Blob for Opened {
    fn length(&self) -> u64 {
        self.plain.as_ref().map_or(self.file.length(), RandomAccess::len)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        let plain = self.plain.as_ref().ok_or(Fault::Unread)?;
        match plain.read_at(buffer, at).map_err(|error| self.errors.note(&self.name, error))? {
            read if read == buffer.len() => Ok(()),
            _ => Err(Fault::Changed),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        self.file.check()
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.file.metadata()
    }

    fn needs_nothing(&self) -> bool {
        self.plain.is_none()
    }
}

/// The encrypted content of a file, without the head before it.
pub(super) struct Content {
    pub(super) file: Box<dyn Blob>,
    /// The length of the head in bytes.
    pub(super) head: u64,
}

impl Blob for Content {
    fn length(&self) -> u64 {
        self.file.length().saturating_sub(self.head)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        self.file.read_at(buffer, self.head + at)
    }

    fn check(&self) -> Result<(), Fault> {
        self.file.check()
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.file.metadata()
    }
}

/// The same content, for two owners.
pub(super) struct Shared(pub(super) Arc<Content>);

impl Blob for Shared {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        self.0.read_at(buffer, at)
    }

    fn check(&self) -> Result<(), Fault> {
        self.0.check()
    }
}

/// The errors of files, of which a [`Fault`] keeps only the words.
#[derive(Default)]
pub(super) struct Errors(Mutex<HashMap<PathBuf, FileError>>);

impl Errors {
    /// Notes the error of a file, and returns it as a fault.
    pub(super) fn note(&self, name: &Name, error: FileError) -> Fault {
        if let FileError::Place(fault) = error {
            return fault;
        }
        let fault = Fault::Failed(error.to_string());
        self.0.lock().ignore_poison().insert(name.path().to_owned(), error);
        fault
    }

    /// Takes the error of a file.
    pub(super) fn take(&self, path: &Path) -> Option<FileError> {
        self.0.lock().ignore_poison().remove(path)
    }
}
