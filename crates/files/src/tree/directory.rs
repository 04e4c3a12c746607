//! A directory at work, on both sides.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

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

/// Opens a directory by its path below another, which may be longer than one call takes.
/// Unless `follow` allows it, no symbolic link on the way is followed.
pub(super) fn open_path(
    below: BorrowedFd<'_>,
    path: &Path,
    follow: bool,
) -> Result<OwnedFd, Errno> {
    let mut opened = openat(below, c".", DIRECTORY, Mode::empty())?;
    let mut names = path.iter().peekable();
    while names.peek().is_some() {
        let mut stretch = PathBuf::new();
        while let Some(name) = names.next_if(|name| fits(&stretch, name)) {
            stretch.push(name);
        }
        opened = open_stretch(opened.as_fd(), &stretch, follow)?;
    }
    Ok(opened)
}

fn fits(stretch: &Path, name: &OsStr) -> bool {
    stretch.as_os_str().is_empty() || stretch.as_os_str().len() + 1 + name.len() <= LONGEST_STRETCH
}

fn open_stretch(below: BorrowedFd<'_>, path: &Path, follow: bool) -> Result<OwnedFd, Errno> {
    if follow {
        return openat(below, path, DIRECTORY, Mode::empty());
    }
    match openat2(below, path, DIRECTORY, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Linux before 5.6, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened,
    }
    let mut opened = openat(below, c".", DIRECTORY, Mode::empty())?;
    for name in path {
        opened = openat(&opened, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(opened)
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Well below PATH_MAX, in bytes.
const LONGEST_STRETCH: usize = 3072;
