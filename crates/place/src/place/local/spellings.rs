//! Directories that take two spellings of a name for one. An output must not replace another one
//! of the same source.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use evener_core::shown;

use crate::FileError;
use crate::identity::Identity;
use crate::tree::{Made, folds, in_small_letters};

/// The names that were made in such directories.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    /// True for directories that fold names.
    folding: HashMap<Identity, bool>,
    /// The paths of what was made there, by their small letters.
    made: HashMap<Vec<u8>, PathBuf>,
}

impl Spellings {
    /// Makes what has this path in a directory, unless something that was made there has it in
    /// another spelling.
    pub(super) fn make<T>(
        &mut self,
        directory: &Made,
        path: &Path,
        make: impl FnOnce() -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let known = self.folding.get(&directory.identity).copied();
        if known == Some(false) {
            return make();
        }
        let small = in_small_letters(path.as_os_str());
        let name = path.file_name().unwrap_or_default();
        if self.made.get(&small).is_some_and(|other| other != path) {
            return Err(FileError::SameName(shown(name).to_string()));
        }
        let made = make()?;
        // A name without letters does not tell.
        if let Some(is_folding) = known.or_else(|| folds(directory.as_fd(), name)) {
            self.folding.insert(directory.identity, is_folding);
            if is_folding {
                self.made.insert(small, path.to_owned());
            }
        }
        Ok(made)
    }
}
