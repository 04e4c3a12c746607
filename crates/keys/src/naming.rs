//! Gives a complete file its name, on every kind of filesystem.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, RenameFlags, flock, fstatfs, linkat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

/// How safely a name was given without replacing another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The filesystem itself refuses a name that is taken.
    Exclusive,
    /// The filesystem can neither link files nor rename them without replacing others. The name was
    /// checked to be free just before, under a lock that other processes of Evener take too; a file
    /// that another program makes in that moment is replaced.
    Checked,
}

impl Naming {
    /// A notice for the user about it.
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
/// [`Errno::EXIST`] when anything has the name `to`.
pub fn rename_to_free(
    directory: BorrowedFd<'_>,
    from: &OsStr,
    to: &OsStr,
) -> Result<Naming, Errno> {
    let flags = RenameFlags::NOREPLACE;
    match retry_on_intr(|| renameat_with(directory, from, directory, to, flags)) {
        // The answers of kernels and filesystems that can't rename in this way.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        renamed => return renamed.map(|()| Naming::Exclusive),
    }
    match retry_on_intr(|| linkat(directory, from, directory, to, AtFlags::empty())) {
        Ok(()) => {
            // If this fails, the next `sweep` removes the file.
            let _ = unlinkat(directory, from, AtFlags::empty());
            return Ok(Naming::Exclusive);
        }
        Err(errno) if has_no_links(errno, directory) => {}
        Err(errno) => return Err(errno),
    }
    // Opened again, so that the lock also excludes threads of this process.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lock = retry_on_intr(|| openat(directory, c".", flags, Mode::empty()))?;
    // Where there are no locks either, only the check remains.
    let _ = retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive));
    match statat(directory, to, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => {}
        Ok(_) => return Err(Errno::EXIST),
        Err(errno) => return Err(errno),
    }
    retry_on_intr(|| renameat(directory, from, directory, to))?;
    Ok(Naming::Checked)
}

/// Returns whether a filesystem's error says that it can't make this link: that it has no links, or
/// none to another part of it. Filesystems behind FUSE also answer with an I/O error.
pub fn has_no_links(errno: Errno, directory: BorrowedFd<'_>) -> bool {
    match errno {
        Errno::PERM
        | Errno::INVAL
        | Errno::NOSYS
        | Errno::OPNOTSUPP
        | Errno::MLINK
        | Errno::XDEV => true,
        Errno::IO => fstatfs(directory).is_ok_and(|there| there.f_type as u32 == FUSE),
        _ => false,
    }
}

/// The number of FUSE for `statfs`.
const FUSE: u32 = 0x6573_5546;
