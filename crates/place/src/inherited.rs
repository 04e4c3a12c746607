//! Attributes that a new file or directory inherits from the directory that it is made in: the
//! group, if that directory is set-group-ID, and an access list, if it has a default one. Whoever
//! made the directory chose those, and the mode of a source was not meant for them.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, Stat, fchown, fgetxattr, fremovexattr, fstat};
use rustix::io::Errno;
use rustix::process::getegid;

use crate::FileError;
use crate::identity::permissions;

/// The attributes that a new entry may inherit from its directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inherited {
    group: bool,
    access_list: bool,
}

impl Inherited {
    /// For a directory of which nothing is known.
    pub(crate) const ANYTHING: Inherited = Inherited { group: true, access_list: true };

    /// Looks at an open directory.
    pub(crate) fn from(directory: BorrowedFd<'_>, status: &Stat) -> Inherited {
        Inherited {
            group: status.st_gid != getegid().as_raw(),
            access_list: fgetxattr(directory, DEFAULT_LIST, &mut [0_u8; 0][..]).is_ok(),
        }
    }

    /// The same without the group, where the group is set anyway.
    pub(crate) fn without_group(self) -> Inherited {
        Inherited { group: false, ..self }
    }

    /// Returns whether anything may be inherited.
    pub(crate) fn is_something(self) -> bool {
        self.group || self.access_list
    }

    /// The mode for making a file or directory that will have `wanted` in the end: while it has
    /// inherited attributes, nobody but its owner has access.
    pub(crate) fn mode_at_first(self, wanted: Mode) -> Mode {
        if self.is_something() { wanted & Mode::RWXU } else { wanted }
    }

    /// Removes all inherited attributes from a new file or directory. Returns the permission bits
    /// that it may be given.
    pub(crate) fn remove_from(self, new: BorrowedFd<'_>, source: &Stat) -> Result<Mode, FileError> {
        if !self.is_something() {
            return Ok(EVERY_BIT);
        }
        let there = fstat(new).map_err(FileError::system("read its output's status"))?;
        if self.access_list {
            remove_list(new, ACCESS_LIST)?;
            if FileType::from_raw_mode(there.st_mode) == FileType::Directory {
                remove_list(new, DEFAULT_LIST)?;
            }
        }
        let is_settled = !self.group || is_meant(there.st_gid, source);
        // Refused where the filesystem has no owners, or another one's.
        if is_settled || fchown(new, None, Some(getegid())).is_ok() {
            return Ok(EVERY_BIT);
        }
        Ok(Mode::RWXU)
    }
}

/// The permission bits that an existing output may be given: no further ones, if its group is not
/// one that they are meant for.
pub(crate) fn bits_for(output: &Stat, source: &Stat) -> Mode {
    match is_meant(output.st_gid, source) {
        true => EVERY_BIT,
        false => permissions(output) | Mode::RWXU,
    }
}

/// Returns whether the bits for a source's group are meant for this group: the source's own, or
/// that of this process, which stands for it as in a copy.
fn is_meant(group: u32, source: &Stat) -> bool {
    group == source.st_gid || group == getegid().as_raw()
}

fn remove_list(new: BorrowedFd<'_>, name: &CStr) -> Result<(), FileError> {
    match fremovexattr(new, name) {
        Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        Err(errno) => Err(FileError::system("remove its output's inherited access list")(errno)),
    }
}

pub(crate) const EVERY_BIT: Mode = Mode::from_raw_mode(0o7777);

const ACCESS_LIST: &CStr = c"system.posix_acl_access";
const DEFAULT_LIST: &CStr = c"system.posix_acl_default";
