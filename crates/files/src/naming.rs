//! Giving a complete file its name, on filesystems of every kind.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, linkat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use crate::FileError;

/// How well a name was given without replacing another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The filesystem itself refuses a name that is taken.
    Exclusive,
    /// The filesystem can neither link files nor rename them without replacing others. Whether
    /// the name was free was checked just before, under a lock that other processes of Evener
    /// take too; a file that another program makes in that moment is replaced.
    Checked,
}

impl Naming {
    /// What the user should know of it.
    pub fn notice(self) -> Option<&'static str> {
        match self {
            Naming::Exclusive => None,
            Naming::Checked => Some(
                "the filesystem can neither link files nor rename them without replacing \
                 others: whether a name is free was checked just before it was given, so a file \
                 that another program made in that moment is lost",
            ),
        }
    }
}

/// Renames the file `from` to `to`, both in `directory`.
///
/// # Errors
/// [`Errno::EXIST`] when there is anything of the name `to`.
pub(crate) fn rename_to_free(
    directory: BorrowedFd<'_>,
    from: &OsStr,
    to: &OsStr,
) -> Result<Naming, Errno> {
    let flags = RenameFlags::NOREPLACE;
    match retry_on_intr(|| renameat_with(directory, from, directory, to, flags)) {
        // What kernels and filesystems without this way of renaming answer.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return renamed.map(|()| Naming::Exclusive),
    }
    match retry_on_intr(|| linkat(directory, from, directory, to, AtFlags::empty())) {
        Ok(()) => {
            // If this fails, `sweep` takes the file next time.
            let _ = unlinkat(directory, from, AtFlags::empty());
            return Ok(Naming::Exclusive);
        }
        // What filesystems without links answer.
        Err(Errno::PERM | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::MLINK) => {}
        Err(errno) => return Err(errno),
    }
    // Opened anew, so that it keeps threads of this process apart as well.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lock = retry_on_intr(|| openat(directory, c".", flags, Mode::empty()))?;
    // Where there are no locks either, the check alone has to do.
    let _ = retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive));
    match statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        Ok(_) => return Err(Errno::EXIST),
        Err(errno) => return Err(errno),
    }
    retry_on_intr(|| renameat(directory, from, directory, to))?;
    Ok(Naming::Checked)
}

/// Refuses a name that anything but a regular file has: devices, FIFOs and symbolic links are
/// not replaced by files.
pub(crate) fn refuse_special(directory: BorrowedFd<'_>, name: &OsStr) -> Result<(), FileError> {
    let Ok(there) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
    let kind = match FileType::from_raw_mode(there.st_mode) {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Socket => "a socket",
        FileType::Directory => "a directory",
        _ => return Ok(()),
    };
    Err(FileError::Special { name: evener_core::shown(name).to_string(), kind })
}

/// Whether a path leads to what bytes go into, and not to a name that can be given on.
pub(crate) fn is_device(directory: BorrowedFd<'_>, path: &Path) -> bool {
    let there = statat(directory, path, AtFlags::SYMLINK_NOFOLLOW);
    there.is_ok_and(|there| {
        matches!(
            FileType::from_raw_mode(there.st_mode),
            FileType::Fifo | FileType::CharacterDevice | FileType::BlockDevice | FileType::Socket
        )
    })
}

/// The file that a path names, which may be a symbolic link to it, or to where it is to be made.
pub(crate) fn behind_links(path: &Path) -> Result<PathBuf, FileError> {
    let failed = |errno| FileError::System { action: "follow its symbolic links", errno };
    if path.is_symlink() {
        // The kernel refuses to follow links that strangers have put into a common directory.
        match std::fs::metadata(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)));
            }
            _ => {}
        }
    }
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(text) = std::fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(text);
    }
    Err(failed(Errno::LOOP))
}

/// As many as the kernel follows.
const MOST_LINKS: u32 = 40;
