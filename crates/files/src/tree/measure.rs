//! Measuring a tree beforehand, so that progress can tell how much is left.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use super::Operation;
use super::directory::open_path;
use super::endpoints::target_name;
use super::walk::is_wrapped_key;
use crate::Options;
use crate::identity::Identity;
use crate::output::is_temporary_name;

/// How much there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Files, with every name of those that have several.
    pub files: u64,
    /// The bytes of the files that are to be read.
    pub bytes: u64,
}

/// Adds up the files of a tree that an operation would take, and their bytes. It looks at each file
/// once and reads none, so on a disk it takes about as long as `du`; run it on a thread beside the
/// operation. What changes meanwhile makes the total a little wrong.
///
/// Returns `None` where the tree can't be read, and where the operation was stopped before the end
/// or `is_over` says that nobody needs the total any more.
pub fn measure(
    operation: Operation,
    source: &Path,
    options: &Options,
    is_over: impl Fn() -> bool,
) -> Option<Total> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, source, flags, Mode::empty()).ok()?;
    let mut walk = Walk {
        operation,
        options,
        entered: HashSet::new(),
        linked: HashSet::new(),
        total: Total::default(),
    };
    let mut directories = vec![PathBuf::new()];
    while let Some(path) = directories.pop() {
        if is_over() || options.control.is_stopped() {
            return None;
        }
        // The operation itself tells what can't be read.
        let _ = walk.add(&root, path, &mut directories);
    }
    Some(walk.total)
}

struct Walk<'a> {
    operation: Operation,
    options: &'a Options,
    /// Where links are followed, the directories entered so far.
    entered: HashSet<Identity>,
    /// Files with several names that were met.
    linked: HashSet<Identity>,
    total: Total,
}

impl Walk<'_> {
    /// Adds the files of a directory, and the directories in it to those that are to be entered.
    fn add(
        &mut self,
        root: &OwnedFd,
        path: PathBuf,
        directories: &mut Vec<PathBuf>,
    ) -> Result<(), Errno> {
        let follows = self.options.follow_symlinks;
        let directory = open_path(root.as_fd(), &path, follows)?;
        // Where links lead in a circle, the operation ends it.
        if follows && !self.entered.insert(Identity::of(&rustix::fs::fstat(&directory)?)) {
            return Ok(());
        }
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            if let Ok(Some(below)) = self.look_at(&directory, &path, &entry) {
                directories.push(below);
            }
        }
        Ok(())
    }

    /// Adds an entry if it is a file that is taken; returns its path if it is a directory that is
    /// entered.
    fn look_at(
        &mut self,
        directory: &OwnedFd,
        path: &Path,
        entry: &DirEntry,
    ) -> Result<Option<PathBuf>, Errno> {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let below = || path.join(name);
        let selection = &self.options.selection;
        if entry.file_type() == FileType::Directory {
            return Ok(selection.takes_directory(&below()).then(below));
        }
        let follow = self.options.follow_symlinks;
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let status = statat(directory, name, flags)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => return Ok(selection.takes_directory(&below()).then(below)),
            FileType::RegularFile if self.takes(path, name) => {}
            _ => return Ok(None),
        }
        self.total.files += 1;
        // Further names are linked to the output of the first.
        let is_new = self.operation == Operation::Verify
            || status.st_nlink < 2
            || self.linked.insert(Identity::of(&status));
        if is_new {
            self.total.bytes += status.st_size as u64;
        }
        Ok(None)
    }

    fn takes(&self, path: &Path, name: &OsStr) -> bool {
        let Some(target) = target_name(self.operation, name, &self.options.suffix) else {
            return false;
        };
        if is_temporary_name(name.as_bytes()) {
            return false;
        }
        let seals = self.operation == Operation::Encrypt;
        if !seals && path.as_os_str().is_empty() && is_wrapped_key(name) {
            return false;
        }
        let plain = path.join(if seals { name } else { &target });
        self.options.selection.takes_file(&plain)
    }
}
