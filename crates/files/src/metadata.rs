//! Mode, times, owner and extended attributes.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags, fchmod, fchown, fgetxattr,
    flistxattr, fsetxattr, futimens, utimensat,
};
use rustix::io::Errno;

use crate::FileError;

/// What of a file's metadata goes from the source to the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metadata {
    /// Owner and group.
    pub(crate) owner: bool,
    /// Extended attributes.
    pub(crate) xattrs: bool,
    /// The process's file mode creation mask, which `open` applies to new files.
    pub(crate) umask: u32,
}

impl Metadata {
    /// Gives `output` the mode and times of `source`, and what else was chosen.
    /// `created_with` is the mode that the output was created with, if it is known.
    pub(crate) fn apply(
        &self,
        source: BorrowedFd<'_>,
        status: &Stat,
        output: BorrowedFd<'_>,
        created_with: Option<Mode>,
    ) -> Result<(), FileError> {
        if self.owner {
            let (user, group) = (Uid::from_raw(status.st_uid), Gid::from_raw(status.st_gid));
            fchown(output, Some(user), Some(group)).map_err(FileError::system("set its owner"))?;
        }
        if self.xattrs {
            copy_xattrs(source, output)?;
        }
        let mode = permissions(status);
        // A change of owner clears the set-id bits, so those are always set here.
        let special = mode.intersects(Mode::SUID | Mode::SGID | Mode::SVTX);
        if special || created_with != Some(mode) {
            fchmod(output, mode).map_err(FileError::system("set its mode"))?;
        }
        futimens(output, &times(status)).map_err(FileError::system("set its times"))
    }

    /// The mode to create an output with, and the mode that it will then have.
    pub(crate) fn creation_mode(&self, status: &Stat) -> (Mode, Mode) {
        // While the owner may yet change, nobody else is to have access.
        let wanted = permissions(status) & Mode::from_raw_mode(0o777);
        let wanted = if self.owner { wanted & Mode::RWXU } else { wanted };
        (wanted, wanted & !Mode::from_raw_mode(self.umask))
    }
}

/// The permission bits of a status, set-id and sticky bits included.
pub(crate) fn permissions(status: &Stat) -> Mode {
    Mode::from_raw_mode(status.st_mode) & Mode::from_raw_mode(0o7777)
}

/// The process's file mode creation mask, read without changing it; `None` where /proc does
/// not tell.
pub(crate) fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

/// Gives a symbolic link itself the times of another. Where that can't be done it is no loss.
pub(crate) fn set_link_times(directory: BorrowedFd<'_>, name: &CStr, status: &Stat) {
    let _ = utimensat(directory, name, &times(status), AtFlags::SYMLINK_NOFOLLOW);
}

#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between architectures")]
fn times(status: &Stat) -> Timestamps {
    let time =
        |seconds: i64, nanoseconds: i64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
    Timestamps {
        last_access: time(status.st_atime as i64, status.st_atime_nsec as i64),
        last_modification: time(status.st_mtime as i64, status.st_mtime_nsec as i64),
    }
}

fn copy_xattrs(source: BorrowedFd<'_>, output: BorrowedFd<'_>) -> Result<(), FileError> {
    let action = "copy its extended attributes";
    let list = match whole(|buffer| flistxattr(source, buffer)) {
        // The source's filesystem has none.
        Err(Errno::NOTSUP) => return Ok(()),
        list => list.map_err(FileError::system(action))?,
    };
    for name in list.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        match whole(|buffer| fgetxattr(source, name, buffer)) {
            // Removed since it was listed.
            Err(Errno::NODATA) => {}
            value => {
                let value = value.map_err(FileError::system(action))?;
                fsetxattr(output.as_fd(), name, &value, XattrFlags::empty())
                    .map_err(FileError::system(action))?;
            }
        }
    }
    Ok(())
}

/// Calls `read` with buffers that grow until its whole result fits.
fn whole(read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut buffer = vec![0; 1024];
    loop {
        match read(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            Err(errno) => return Err(errno),
        }
    }
}
