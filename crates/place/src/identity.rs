//! The identity and state of a file, to detect changes between two reads.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, Stat, Statx, StatxFlags, fstat, statat, statx};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::FileError;

/// A file's identity: its filesystem and its number there. It is unique only while the file exists
/// or is open: numbers are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

/// A file's identity and state. A program that writes to a file can set its time back afterwards,
/// but not its time of change: only the kernel sets that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileState {
    identity: Identity,
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
impl Identity {
    pub(crate) fn of(status: &Stat) -> Identity {
        Identity { device: status.st_dev as u64, inode: status.st_ino as u64 }
    }

    /// Returns whether it is on the same filesystem as the other.
    pub(crate) fn is_beside(self, other: Identity) -> bool {
        self.device == other.device
    }

    /// The identity of an open file.
    pub(crate) fn of_open(file: impl AsFd) -> Result<Identity, FileError> {
        fstat(file)
            .map(|status| Identity::of(&status))
            .map_err(FileError::system("read its output's status"))
    }

    /// The identity of the file that a name in a directory leads to, through no symbolic link;
    /// `None` when there is none.
    pub(crate) fn of_name<N: Arg>(
        directory: impl AsFd,
        name: N,
    ) -> Result<Option<Identity>, FileError> {
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(Identity::of(&status))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(FileError::system("look at its output")(errno)),
        }
    }
}

/// The status of an open file as it is now. The kernel's cached status of a file behind FUSE or a
/// network can be old: there, a new or lost name changes a file's status without the kernel's
/// knowledge.
pub(crate) fn status_now(file: impl AsFd) -> Result<Stat, Errno> {
    let _ = ask_anew(file.as_fd(), c"", AtFlags::EMPTY_PATH);
    fstat(file)
}

/// The same for the file that a name in a directory leads to, through no symbolic link.
pub(crate) fn status_of_name_now<N: Arg + Copy>(
    directory: impl AsFd,
    name: N,
) -> Result<Stat, Errno> {
    let _ = ask_anew(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

fn ask_anew<N: Arg>(directory: impl AsFd, name: N, flags: AtFlags) -> Result<Statx, Errno> {
    statx(directory, name, flags | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS)
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
impl FileState {
    pub(crate) fn of(status: &Stat) -> FileState {
        FileState {
            identity: Identity::of(status),
            size: status.st_size as i64,
            modified: (status.st_mtime as i64, status.st_mtime_nsec as i64),
            changed: (status.st_ctime as i64, status.st_ctime_nsec as i64),
        }
    }

    /// The same state for any file of its file system: on some, each name of a file has its own
    /// number.
    pub(crate) fn without_number(self) -> FileState {
        FileState { identity: Identity { inode: 0, ..self.identity }, ..self }
    }

    /// Returns whether a file has the size, the time and the number of this state.
    pub(crate) fn is_but_for_change_time(self, status: &Stat) -> bool {
        FileState { changed: self.changed, ..FileState::of(status) } == self
    }
}

/// The permission bits of a status, set-id and sticky bits included.
pub(crate) fn permissions(status: &Stat) -> Mode {
    Mode::from_raw_mode(status.st_mode) & Mode::from_raw_mode(0o7777)
}
