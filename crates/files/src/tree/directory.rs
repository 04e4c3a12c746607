//! A directory at work, on both sides.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// A directory of the source tree with its counterpart in the target tree. Files are opened
/// relative to it, which is quick and follows no link that somebody puts in the way meanwhile.
pub(super) struct Directory {
    /// The source directory.
    pub(super) source: OwnedFd,
    /// The target directory; `None` when nothing is written.
    pub(super) target: Option<OwnedFd>,
    /// Its path below the root of the tree; empty for the root.
    pub(super) path: PathBuf,
}

/// A file to be done: its name and the name of its output (empty when nothing is written).
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) name: OsString,
    pub(super) target: OsString,
}

/// The target side of a directory, as the place of an output.
#[derive(Clone)]
pub(super) struct TargetDirectory {
    directory: Arc<Directory>,
}

impl TargetDirectory {
    /// `None` when nothing is written to the directory.
    pub(super) fn of(directory: &Arc<Directory>) -> Option<TargetDirectory> {
        directory.target.as_ref()?;
        Some(TargetDirectory { directory: directory.clone() })
    }
}

impl AsFd for TargetDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // `of` has seen that there is a target; the source stands in where that can't be shown.
        self.directory.target.as_ref().unwrap_or(&self.directory.source).as_fd()
    }
}

impl Directory {
    /// A file's path below the root of the tree.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }
}
