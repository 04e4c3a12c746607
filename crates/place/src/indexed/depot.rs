//! The small files of a sealed tree in the place where it lies.

use evener_core::shown;
use evener_format::Recipe;
use evener_format::index::StorageName;
use sha2::{Digest, Sha256};

use crate::place::{Assembly, Entry, MOST_LISTED, Metadata, NewObject, Origin, Store};
use crate::temporary::is_temporary_name;
use crate::{Fault, Name};
use crate::{FileError, KeyRing, Refusal, RunSettings, buffer};

/// The place where a sealed tree lies, and what computes.
#[derive(Clone, Copy)]
pub(super) struct Depot<'a> {
    pub(super) origin: &'a dyn Origin,
    /// For writers.
    pub(super) store: Option<&'a dyn Store>,
    pub(super) run: &'a RunSettings,
}

/// The result of creating a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    /// It has the bytes that were given.
    Ours,
    /// Another file had the name before.
    Taken,
}

impl<'a> Depot<'a> {
    /// A place that is written to.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn of(store: &'a dyn Store, run: &'a RunSettings) -> Result<Depot<'a>, FileError> {
        let origin = store.origin().ok_or(Fault::Unread)?;
        Ok(Depot { origin, store: Some(store), run })
    }

    /// The content of a file of at most so many bytes; `None` if there is none.
    pub(super) fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>, FileError> {
        let mut bytes = vec![0; most.min(READ_FIRST) as usize];
        let (blob, read) = match self.origin.open(&name(path)?, &mut bytes) {
            Err(Fault::Missing(_)) => return Ok(None),
            opened => opened?,
        };
        let length = blob.length();
        if length > most {
            return Err(refused(format!("`{path}` has {length} bytes, more than it may have")));
        }
        bytes.resize(length as usize, 0);
        if let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
            blob.read_at(rest, read as u64)?;
        }
        Ok(Some(bytes))
    }

    /// The SHA-256 of a file of any length; `None` if there is none.
    pub(super) fn digest(&self, path: &str) -> Result<Option<[u8; 32]>, FileError> {
        let (blob, _) = match self.origin.open(&name(path)?, &mut []) {
            Err(Fault::Missing(_)) => return Ok(None),
            opened => opened?,
        };
        let (mut hash, mut buffer, mut at) = (Sha256::new(), vec![0; READ_AT_ONCE], 0);
        while at < blob.length() {
            if self.run.control.is_stopped() {
                return Err(FileError::Interrupted);
            }
            let length = (blob.length() - at).min(READ_AT_ONCE as u64) as usize;
            blob.read_at(&mut buffer[..length], at)?;
            hash.update(&buffer[..length]);
            at += length as u64;
        }
        Ok(Some(hash.finalize().into()))
    }

    /// Creates a file. One that has the same bytes already is this one: an earlier attempt made it.
    pub(super) fn create(&self, path: &str, bytes: &[u8]) -> Result<Created, FileError> {
        self.create_with_version(path, bytes).map(|(created, _)| created)
    }

    /// As [`Depot::create`]; also returns the version of the new file, where the place tells it.
    pub(super) fn create_with_version(
        &self,
        path: &str,
        bytes: &[u8],
    ) -> Result<(Created, Option<String>), FileError> {
        match self.write(path, bytes) {
            Ok(version) => Ok((Created::Ours, version)),
            Err(Fault::Exists(_)) => match self.read(path, bytes.len() as u64) {
                Ok(Some(there)) if there == bytes => Ok((Created::Ours, None)),
                Ok(_) | Err(FileError::Refused(_)) => Ok((Created::Taken, None)),
                Err(error) => Err(error),
            },
            Err(fault) => Err(fault.into()),
        }
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<Option<String>, Fault> {
        let store = self.store()?;
        let (name, metadata) = (name(path)?, Metadata::default());
        let longest = bytes.len() as u64;
        let object = NewObject { longest, ..NewObject::new(&name, &metadata) };
        let part = store.abilities().part();
        let mut draft = Assembly::new(store.begin(&object)?, part, longest)?;
        draft.write_at(bytes, 0)?;
        draft.publish(longest)
    }

    pub(super) fn store(&self) -> Result<&'a dyn Store, Fault> {
        self.store.ok_or_else(|| Fault::Refused("the place is only read".to_owned()))
    }

    /// The entries of a directory. Roots, wrapped keys and writers are not without number.
    pub(super) fn list(&self, directory: &str) -> Result<Vec<Entry>, FileError> {
        let name = directory_name(directory)?;
        let listed = match directory {
            "" | "tree" | "keys" | "writers" => self.origin.list_at_most(&name, MOST_LISTED),
            _ => self.origin.list(&name),
        };
        listed.map_err(|fault| match fault {
            Fault::Entry { name, reason } => refused(format!("`{}`: {reason}", shown(name.path()))),
            fault => fault.into(),
        })
    }

    /// Removes the unfinished files of killed runs from a directory. Running ones hold locks on
    /// theirs.
    pub(super) fn sweep(&self, directory: &str) -> Result<(), FileError> {
        let Some(tree) = self.store()?.tree() else { return Ok(()) };
        let is_unfinished = |entry: &Entry| {
            let name = entry.name.path().file_name().unwrap_or_default();
            is_temporary_name(name.as_encoded_bytes())
        };
        if self.list(directory)?.iter().any(is_unfinished) {
            let (name, metadata) = (directory_name(directory)?, Metadata::default());
            tree.make_directory(&NewObject::new(&name, &metadata))?;
        }
        Ok(())
    }

    pub(super) fn remove(&self, path: &str) -> Result<(), FileError> {
        match self.store()?.remove(&name(path)?) {
            Err(Fault::Missing(_)) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// The bytes of a sealed file.
    pub(super) fn seal(&self, recipe: Recipe, plaintext: &[u8]) -> Result<Vec<u8>, FileError> {
        let keys = KeyRing::new(recipe);
        let mut sealed = vec![0; buffer::sealed_length(&keys, plaintext.len() as u64)? as usize];
        let length = buffer::seal(&keys, plaintext, &mut sealed, self.run)?;
        sealed.truncate(length);
        Ok(sealed)
    }

    /// The plaintext of a sealed file.
    pub(super) fn open(&self, recipe: Recipe, sealed: &[u8]) -> Result<Vec<u8>, FileError> {
        let mut plaintext = vec![0; sealed.len()];
        let length = buffer::open(&KeyRing::new(recipe), sealed, &mut plaintext, self.run)?;
        plaintext.truncate(length);
        Ok(plaintext)
    }
}

/// The name of a file of the tree.
pub(super) fn name(path: &str) -> Result<Name, Fault> {
    Name::new(path).map_err(|error| Fault::Refused(error.to_string()))
}

fn directory_name(path: &str) -> Result<Name, Fault> {
    if path.is_empty() { Ok(Name::root()) } else { name(path) }
}

/// The name of a file in `data/`.
pub(super) fn name_of(file: StorageName) -> Name {
    Name::found(file.path().into())
}

/// The number of bytes to read with the request that opens a file.
const READ_FIRST: u64 = 16 << 10;

/// The number of bytes to read at once while hashing a file.
const READ_AT_ONCE: usize = 1 << 20;

/// The error for a root or marker that is not authentic.
pub(super) fn damaged(path: &str, reason: impl Into<String>) -> FileError {
    Fault::Damaged { name: Name::found(path.into()), reason: reason.into() }.into()
}

/// The error for a key that is missing.
pub(super) fn no_key(reason: impl Into<String>) -> FileError {
    Refusal::NoKey(reason.into()).into()
}

pub(super) fn refused(reason: impl Into<String>) -> FileError {
    Refusal::Other(reason.into()).into()
}
