//! Measures a tree beforehand, so that progress can show the remaining work.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use evener_keys::is_wrapped_key_in;
use rustix::fs::{AtFlags, CWD, Dir, DirEntry, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::Operation;
use super::around::Around;
use super::descent::Descent;
use crate::TreeOptions;
use crate::identity::Identity;
use crate::location::Location;
use crate::temporary::is_temporary_name;

/// The total work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Files, counting every name of those that have several.
    pub files: u64,
    /// The bytes of the files to be read.
    pub bytes: u64,
}

/// Adds up the files of a tree that an operation would take, and their bytes. It examines each file
/// once and reads none, so on a disk it takes about as long as `du`; run it on a thread beside the
/// operation, with the operation's target if there is one. Changes meanwhile make the total a
/// little wrong.
///
/// Returns `None` if the tree can't be read, or if `is_over` says that the total is no longer
/// needed.
pub fn measure(
    operation: Operation,
    source: &Path,
    target: Option<&Path>,
    options: &TreeOptions,
    is_over: impl Fn() -> bool,
) -> Option<Total> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, source, flags, Mode::empty()).ok()?;
    let around = options.follow_symlinks.then(|| Around::of(root.as_fd(), target)).transpose();
    let mut walk = Walk {
        operation,
        options,
        around: around.ok()?,
        device: fstat(&root).ok()?.st_dev,
        entered: HashSet::new(),
        linked: HashSet::new(),
        total: Total::default(),
    };
    let mut descent = Descent::new(root.as_fd(), options.follow_symlinks);
    let mut directories = vec![Location::root()];
    while let Some(location) = directories.pop() {
        if is_over() {
            return None;
        }
        // The operation itself reports entries that can't be read.
        let _ = walk.add(&mut descent, &location, &mut directories);
    }
    Some(walk.total)
}

struct Walk<'a> {
    operation: Operation,
    options: &'a TreeOptions,
    /// The places that followed links must not lead to.
    around: Option<Around>,
    /// The root's device.
    device: u64,
    /// The directories entered so far, if links are followed.
    entered: HashSet<Identity>,
    /// The files with several names that were found.
    linked: HashSet<Identity>,
    total: Total,
}

impl Walk<'_> {
    /// Adds the files of a directory, and its directories that are to be entered.
    fn add(
        &mut self,
        descent: &mut Descent<'_>,
        location: &Arc<Location>,
        directories: &mut Vec<Arc<Location>>,
    ) -> Result<(), Errno> {
        let directory = descent.to(location)?;
        let status = fstat(directory)?;
        if self.options.one_file_system && status.st_dev != self.device {
            return Ok(());
        }
        if let Some(around) = &self.around {
            let is_around = !location.is_root() && around.refuse(&status).is_err();
            // If links form a circle, the operation ends it.
            if is_around || !self.entered.insert(Identity::of(&status)) {
                return Ok(());
            }
        }
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            if let Ok(true) = self.look_at(directory, location, &entry) {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                directories.push(Location::below(location, name));
            }
        }
        Ok(())
    }

    /// Adds an entry if it is a file that is taken; returns whether it is a directory to enter.
    fn look_at(
        &mut self,
        directory: BorrowedFd<'_>,
        location: &Location,
        entry: &DirEntry,
    ) -> Result<bool, Errno> {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let selection = &self.options.selection;
        let takes_directory = || selection.takes_directory(&selection.path_of(location, name));
        if entry.file_type() == FileType::Directory {
            return Ok(takes_directory());
        }
        let follow = self.options.follow_symlinks;
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let status = statat(directory, name, flags)?;
        let is_left_out = || match &self.around {
            Some(around) if entry.file_type() == FileType::Symlink => {
                around.refuse_link(directory, name, &status).is_err()
            }
            _ => false,
        };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => return Ok(takes_directory() && !is_left_out()),
            FileType::RegularFile if self.takes(directory, location, name) && !is_left_out() => {}
            _ => return Ok(false),
        }
        self.total.files += 1;
        // Further names are linked to the output of the first.
        let is_new = self.operation == Operation::Verify
            || status.st_nlink < 2
            || self.linked.insert(Identity::of(&status));
        if is_new {
            self.total.bytes += status.st_size as u64;
        }
        Ok(false)
    }

    fn takes(&self, directory: BorrowedFd<'_>, location: &Location, name: &OsStr) -> bool {
        let Ok(target) = self.options.names.output(self.operation, name) else {
            return false;
        };
        if is_temporary_name(name.as_bytes()) {
            return false;
        }
        let seals = self.operation == Operation::Encrypt;
        let follow = self.options.follow_symlinks;
        if !seals && is_wrapped_key_in(directory, name, follow) {
            return false;
        }
        let selection = &self.options.selection;
        selection.takes_file(&selection.path_of(location, if seals { name } else { &target }))
    }
}
