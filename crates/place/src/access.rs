//! Checks a directory's permissions without changing anything.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, Mode, Stat, accessat, fstat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Checks whether names can be made in a directory.
///
/// # Errors
/// The system's error for making one.
pub(crate) fn may_make(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    accessat(directory, c".", access, AtFlags::EACCESS)
}

/// Checks whether a file's name can be removed from a directory, or given to another file. In a
/// sticky directory, such as /tmp, only root and the owners of the file and of the directory may.
///
/// # Errors
/// The system's error for removing it.
pub(crate) fn may_remove(directory: BorrowedFd<'_>, file: &Stat) -> Result<(), Errno> {
    may_make(directory)?;
    let status = fstat(directory)?;
    let is_sticky = Mode::from_raw_mode(status.st_mode).contains(Mode::SVTX);
    let user = geteuid();
    let owns = [status.st_uid, file.st_uid].contains(&user.as_raw());
    if is_sticky && !owns && !user.is_root() { Err(Errno::PERM) } else { Ok(()) }
}

/// Checks whether the file at a path can be written to.
///
/// # Errors
/// The system's error for opening it.
pub(crate) fn may_write(path: &Path) -> Result<(), Errno> {
    accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)
}
