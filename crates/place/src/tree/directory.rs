//! A directory in the source tree with its directory in the target tree.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, statat};
use rustix::io::Errno;

use super::descent::{Descent, Ways};
use super::names::Claims;
use crate::FileError;
use crate::identity::{Identity, permissions};
use crate::inherited::Inherited;
use crate::location::Location;
use crate::metadata::Metadata;
use crate::naming::no_output_directory;
use crate::unfinished::is_empty;

/// A directory of the source tree with its counterpart in the target tree. Files are opened
/// relative to it, which is quick and follows no link that somebody inserts meanwhile.
pub(super) struct Directory {
    /// The source directory.
    pub(super) source: OwnedFd,
    /// Its status when it was opened.
    pub(super) status: Stat,
    /// The target directory, which outputs share; `None` when nothing is written, or a plan finds
    /// none.
    pub(super) target: Option<Arc<Made>>,
    /// Its location below the root of the tree.
    pub(super) location: Arc<Location>,
    /// True if a file that is a symbolic link is followed.
    pub(super) follows: bool,
    /// The outputs made in it so far.
    pub(super) claims: Arc<Claims>,
}

/// A directory of the target tree, and whether it was made by this run, or by a killed run for the
/// same purpose.
#[derive(Debug)]
pub(crate) struct Made {
    directory: OwnedFd,
    pub(crate) identity: Identity,
    pub(crate) is_new: bool,
    /// Its permission bits when it was opened.
    pub(super) mode: Mode,
    /// The attributes that new entries inherit from it.
    pub(crate) inherited: Inherited,
}

/// A file to process: its name and its output's name (empty when nothing is written).
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) name: OsString,
    pub(super) target: OsString,
    /// The number of times that it has changed while it was read.
    pub(super) changes: u32,
    /// True if it may have been begun before: it changed, or an engine failed on it.
    pub(super) is_again: bool,
}

impl Item {
    pub(super) fn new(name: &OsStr, target: OsString) -> Item {
        Item { name: name.to_owned(), target, changes: 0, is_again: false }
    }
}

impl Directory {
    /// The root of the tree that a path leads to.
    pub(super) fn at(path: &Path, follows: bool) -> Result<Directory, FileError> {
        let opened = open_directory(CWD, path.as_os_str(), true);
        Directory::root(opened.map_err(FileError::system("read the directory"))?, follows)
    }

    /// The root of a tree, or a single file's directory, without a target.
    pub(super) fn root(source: OwnedFd, follows: bool) -> Result<Directory, FileError> {
        Directory::of(source, Location::root(), follows)
    }

    /// A directory below this one, without a target.
    pub(super) fn below(
        &self,
        source: OwnedFd,
        location: &Arc<Location>,
    ) -> Result<Directory, FileError> {
        Directory::of(source, location.clone(), self.follows)
    }

    fn of(source: OwnedFd, location: Arc<Location>, follows: bool) -> Result<Directory, FileError> {
        let status = fstat(&source).map_err(FileError::system("read its status"))?;
        Ok(Directory { source, status, target: None, location, follows, claims: Arc::default() })
    }

    pub(super) fn identity(&self) -> Identity {
        Identity::of(&self.status)
    }

    /// Its own identity, and that of its target.
    pub(super) fn identities(&self) -> (Identity, Option<Identity>) {
        (self.identity(), self.target.as_ref().map(|made| made.identity))
    }

    /// The paths down from the roots of both trees, of which this is one; `None` without a target.
    pub(super) fn ways(&self) -> Option<Ways<'_>> {
        let targets = Descent::new(self.target.as_ref()?.as_fd(), false);
        Some(Ways { sources: Descent::new(self.source.as_fd(), self.follows), targets })
    }

    /// The status of the file to which a name in it leads.
    pub(super) fn status_of(&self, name: &OsStr) -> Result<Stat, Errno> {
        let flags = if self.follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        statat(&self.source, name, flags)
    }

    /// A file's path below the root of the tree.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.location.path_of(name)
    }
}

impl AsFd for Made {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Made {
    /// Takes an open directory of the target tree; `is_new` says whether this run has just made it.
    ///
    /// # Errors
    /// When it is not a directory or has no status.
    pub(crate) fn of(directory: OwnedFd, is_new: bool) -> Result<Made, FileError> {
        let status = fstat(&directory).map_err(FileError::system("read its status"))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::Directory {
            return Err(FileError::system(OPEN_OUTPUT)(Errno::NOTDIR));
        }
        let inherited = Inherited::from(directory.as_fd(), &status);
        let (identity, mode) = (Identity::of(&status), permissions(&status));
        Ok(Made { directory, identity, is_new, mode, inherited })
    }

    /// Removes from a directory that this run has made what it inherited from its parent, and gives
    /// it the mode for the work, whatever the process's file mode creation mask.
    pub(crate) fn settle(
        &mut self,
        inherited: Inherited,
        source: &Stat,
        metadata: &Metadata,
    ) -> Result<(), FileError> {
        if !self.is_new {
            return Ok(());
        }
        metadata.mark(self.as_fd(), source);
        let mode = metadata.directory_mode(source);
        let granted = metadata.settle(inherited, self.as_fd(), source)?;
        if mode.bits() & metadata.umask != 0 || inherited.mode_at_first(mode) != mode {
            metadata.widen(self.as_fd(), mode & granted)?;
        }
        if inherited.is_something() {
            let status = fstat(&self.directory).map_err(FileError::system("read its status"))?;
            self.inherited = Inherited::from(self.as_fd(), &status);
        }
        Ok(())
    }
}

/// Makes (or finds) a directory of the target tree, the counterpart of one with the status
/// `source`. A new one is to be [settled](Made::settle) once its owner is known; an existing one
/// keeps its mode.
pub(crate) fn make_below(
    parent: &Made,
    name: &OsStr,
    source: &Stat,
    metadata: &Metadata,
) -> Result<Made, FileError> {
    let mode = metadata.directory_mode(source);
    let (inherited, parent) = (parent.inherited, parent.as_fd());
    let at_first = inherited.mode_at_first(mode);
    let made = match mkdirat(parent, name, metadata.mode_to_make(at_first, mode)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(FileError::system("make its output directory")(errno)),
    };
    let directory = open_directory(parent, name, false)
        .map_err(|errno| no_output_directory(parent, name, errno))?;
    let is_new = made && is_empty(&directory)?
        || metadata.is_marked(directory.as_fd(), source)
        || metadata.is_just_made(&directory, at_first)?;
    Made::of(directory, is_new)
}

/// Opens a directory in another. Unless `follow` allows it, no symbolic link is followed.
pub(crate) fn open_directory(
    above: BorrowedFd<'_>,
    name: &OsStr,
    follow: bool,
) -> Result<OwnedFd, Errno> {
    let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    flags.set(OFlags::NOFOLLOW, !follow);
    openat(above, name, flags, Mode::empty())
}

const OPEN_OUTPUT: &str = "open its output directory";
