//! The places of wrapped keys: `evener-key.age`, `evener-key-2.age` and so on in a tree,
//! `NAME.evener-key.age` beside a single file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use evener::keys::{self, KeyError, NewKeyFile};
use evener::{is_wrapped_key_name, wrapped_key_name};

use crate::ends::directory_of;

/// A wrapped key that was written.
pub(super) struct Created {
    pub(super) path: PathBuf,
    pub(super) made: NewKeyFile,
    /// True if it is the only key in its place.
    pub(super) is_first: bool,
}

/// A directory, for the wrapped keys of a tree or of a single file in it.
#[derive(Clone)]
pub(crate) struct KeyPlace {
    pub(super) directory: PathBuf,
    pub(super) file: Option<OsString>,
}

impl KeyPlace {
    /// For a tree.
    pub(crate) fn in_tree(root: &Path) -> KeyPlace {
        KeyPlace { directory: root.to_owned(), file: None }
    }

    /// For a single encrypted file.
    pub(crate) fn beside(file: &Path) -> KeyPlace {
        let name = file.file_name().unwrap_or_default().to_owned();
        KeyPlace { directory: directory_of(file).to_owned(), file: Some(name) }
    }

    /// The wrapped keys that are there, in the order of their names; none if the directory does not
    /// exist or can't be read.
    pub(super) fn existing(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let mut paths: Vec<_> = entries
            .flatten()
            .filter(|entry| is_wrapped_key_name(self.file.as_deref(), &entry.file_name()))
            .map(|entry| entry.path())
            .collect();
        paths.sort_unstable_by_key(|path| (path.as_os_str().len(), path.clone()));
        paths
    }

    /// Identifies this place: the absolute path of its first key, without symbolic links and
    /// without the extension. The directory must exist.
    pub(super) fn canonical(&self) -> io::Result<PathBuf> {
        let first = wrapped_key_name(self.file.as_deref(), 1);
        Ok(fs::canonicalize(&self.directory)?.join(first).with_extension(""))
    }

    pub(super) fn path(&self, number: u32) -> PathBuf {
        self.directory.join(wrapped_key_name(self.file.as_deref(), number))
    }

    /// Writes a wrapped key to disk, synced, under the first free name.
    pub(super) fn create(&self, contents: &[u8]) -> Result<Created, KeyError> {
        let mut number = 1;
        loop {
            let path = self.path(number);
            match keys::create(&path, contents) {
                Ok(made) => return Ok(Created { path, made, is_first: number == 1 }),
                Err(KeyError::Exists { .. }) => number += 1,
                Err(error) => return Err(error),
            }
        }
    }
}
