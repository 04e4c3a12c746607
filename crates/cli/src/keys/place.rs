//! Where wrapped keys lie: `evener-key.age`, `evener-key-2.age` and so on in a tree,
//! `NAME.evener-key.age` beside a single file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use evener::{WRAPPED_KEY_PREFIX, WRAPPED_KEY_SUFFIX};

use crate::ends::directory_of;

/// A directory and what the names of its wrapped keys begin with.
pub(crate) struct KeyPlace {
    pub(super) directory: PathBuf,
    pub(super) stem: OsString,
}

impl KeyPlace {
    /// For a tree.
    pub(crate) fn in_tree(root: &Path) -> KeyPlace {
        KeyPlace { directory: root.to_owned(), stem: WRAPPED_KEY_PREFIX.into() }
    }

    /// For a single encrypted file.
    pub(crate) fn beside(file: &Path) -> KeyPlace {
        let mut stem = file.file_name().unwrap_or_default().to_owned();
        stem.push(".");
        stem.push(WRAPPED_KEY_PREFIX);
        KeyPlace { directory: directory_of(file).to_owned(), stem }
    }

    /// The wrapped keys that are there, in the order of their names; none where there is no
    /// directory or it can't be read.
    pub(super) fn existing(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let mut paths: Vec<_> = entries
            .flatten()
            .filter(|entry| self.is_key_name(&entry.file_name()))
            .map(|entry| entry.path())
            .collect();
        paths.sort_unstable_by_key(|path| (path.as_os_str().len(), path.clone()));
        paths
    }

    pub(super) fn is_key_name(&self, name: &OsStr) -> bool {
        let name = name.as_encoded_bytes();
        name.starts_with(self.stem.as_encoded_bytes())
            && name.ends_with(WRAPPED_KEY_SUFFIX.as_bytes())
    }

    /// What tells this place from any other: an absolute path without symbolic links, of what the
    /// names of its keys begin with. The directory has to be there.
    pub(super) fn canonical(&self) -> io::Result<PathBuf> {
        Ok(fs::canonicalize(&self.directory)?.join(&self.stem))
    }

    pub(super) fn path(&self, number: u32) -> PathBuf {
        let mut name = self.stem.clone();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name.push(WRAPPED_KEY_SUFFIX);
        self.directory.join(name)
    }
}
