//! Directories that a run has made and not finished, or made temporarily writable.
//!
//! Where owners are kept, a new directory is private to this user until everything in it is done. A
//! directory left by a killed run looks like a private directory of the user's, so it has a mark by
//! which the next run knows it: an extended attribute that says what it is to become. A directory
//! that was moved to another's place does not become that. Where the filesystem has no attributes
//! there is no mark, and such a directory stays as it is. A read-only directory that a run has made
//! writable has the mark too, with the mode that it is to get back.
//!
//! A directory that is made with less access than its final mode gives has the sticky bit, which
//! nobody sets on a private directory: a run may be killed before the mark or the mode is set.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, Stat, XattrFlags, fgetxattr, fremovexattr, fsetxattr, fstat};
use rustix::process::geteuid;

use crate::FileError;
use crate::entries::{self, any_entry_once};
use crate::identity::permissions;
use crate::metadata::{Metadata, while_writable};

impl Metadata {
    /// The mode for making a directory that has `at_first` until it gets another mark or `mode`.
    pub(crate) fn mode_to_make(&self, at_first: Mode, mode: Mode) -> Mode {
        let gains_access = self.owner || at_first != mode || mode.bits() & self.umask != 0;
        if gains_access { at_first | Mode::SVTX } else { at_first }
    }

    /// Returns whether a run made this directory with the mode `at_first` just before it was
    /// killed.
    pub(crate) fn is_just_made(
        &self,
        directory: &OwnedFd,
        at_first: Mode,
    ) -> Result<bool, FileError> {
        let there = fstat(directory).map_err(FileError::system("read its status"))?;
        let mode = permissions(&there);
        let is_made = mode.contains(Mode::SVTX)
            && (at_first | Mode::SVTX | Mode::SGID).contains(mode)
            && there.st_uid == geteuid().as_raw();
        // It may have been read before.
        let is_empty = || entries::is_empty(directory);
        let system = FileError::system("read its output directory");
        Ok(is_made && is_empty().map_err(system)?)
    }

    /// Marks a directory that this run has made, the counterpart of one with the status `source`.
    pub(crate) fn mark(&self, directory: BorrowedFd<'_>, source: &Stat) {
        if self.owner {
            let _ = fsetxattr(directory, MARK, &become_of(source), XattrFlags::empty());
        }
    }

    /// Returns whether a killed run has left this directory of the user's, to become the same.
    /// Whoever may write to a directory can mark it, so nobody else must have access to it.
    pub(crate) fn is_marked(&self, directory: BorrowedFd<'_>, source: &Stat) -> bool {
        let expected = become_of(source);
        // A longer mark is a different one.
        let mut value = [0; LONGEST];
        self.owner
            && fgetxattr(directory, MARK, &mut value[..])
                .is_ok_and(|length| value[..length] == *expected)
            && fstat(directory).is_ok_and(|status| {
                status.st_uid == geteuid().as_raw() && status.st_mode & 0o077 == 0
            })
    }

    /// Removes the mark from a finished directory, even one that came from its source.
    pub(crate) fn unmark(&self, directory: BorrowedFd<'_>) {
        if self.owner {
            unmark(directory);
        }
    }
}

/// Returns whether a directory is empty. The name of a directory just made may lead to another one:
/// whoever may write beside it can put one there. A directory with entries was not made now.
pub(crate) fn is_empty(directory: &OwnedFd) -> Result<bool, FileError> {
    let found = any_entry_once(directory, |_, _| true);
    found.map(|found| !found).map_err(FileError::system("read its output directory"))
}

/// Marks a directory that was made writable and is to get this mode back.
pub(crate) fn mark_mode(directory: BorrowedFd<'_>, mode: Mode) {
    let _ = fsetxattr(directory, MARK, &mode_mark(mode), XattrFlags::empty());
}

/// Returns whether a killed run has left this directory of the user's, which is to get this mode
/// back. Whoever has marked it can only take access from its owner.
pub(crate) fn has_mode_mark(directory: BorrowedFd<'_>, mode: Mode) -> bool {
    let mut value = [0; LONGEST];
    fgetxattr(directory, MARK, &mut value[..])
        .is_ok_and(|length| value[..length] == *mode_mark(mode))
        && fstat(directory).is_ok_and(|status| status.st_uid == geteuid().as_raw())
}

/// Removes the mark from a directory, whatever it says.
pub(crate) fn unmark(directory: BorrowedFd<'_>) {
    let _ = while_writable(directory, || fremovexattr(directory, MARK));
}

fn mode_mark(mode: Mode) -> Vec<u8> {
    format!("{:o}", mode.bits()).into_bytes()
}

fn become_of(source: &Stat) -> Vec<u8> {
    format!("{}:{}:{:o}", source.st_uid, source.st_gid, source.st_mode & 0o7777).into_bytes()
}

const MARK: &str = "user.evener.unfinished";

/// More than two numbers of 32 bits, a mode and their separators, in bytes.
const LONGEST: usize = 28;
