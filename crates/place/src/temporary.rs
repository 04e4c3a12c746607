//! Files with a temporary name until they are complete, and the removal of those left behind.

use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, flock, openat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use crate::entries::any_entry;
use crate::naming::is_device;
use crate::{FileError, Refusal};

/// Gives the file with the temporary name `from` the name `to`, replacing the file with that name.
pub(crate) fn rename_over(
    directory: BorrowedFd<'_>,
    from: &OsStr,
    to: &OsStr,
) -> Result<(), Errno> {
    rename_or_remove(directory, from.as_ref(), to.as_ref())
}

/// Makes a symbolic link to `text`, replacing anything but a directory of that name.
pub(crate) fn symlink_over(
    directory: BorrowedFd<'_>,
    text: &CStr,
    name: &OsStr,
) -> Result<(), Errno> {
    let mut renamed = Err(Errno::NOENT);
    // Another run's `sweep` may remove the new link, which can't be locked, before it has its name.
    for _ in 0..MOST_TRIES {
        let temporary = temporary_name();
        symlinkat(text, directory, &temporary)?;
        renamed = rename_or_remove(directory, temporary.as_ref(), name.as_ref());
        if renamed != Err(Errno::NOENT) {
            break;
        }
    }
    renamed
}

fn rename_or_remove(directory: BorrowedFd<'_>, temporary: &Path, to: &Path) -> Result<(), Errno> {
    let renamed = if is_device(directory, to) {
        Err(Errno::EXIST)
    } else {
        renameat(directory, temporary, directory, to)
    };
    renamed.inspect_err(|_| {
        // If this fails, the next `sweep` removes the file.
        let _ = unlinkat(directory, temporary, AtFlags::empty());
    })
}

/// Removes temporary files that killed processes left in a directory. Those of running processes
/// are locked and stay. So do entries that only have such a name (a directory, a device), or can't
/// be removed: they are in nobody's way.
pub(crate) fn sweep(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    any_entry(directory, |name, _| {
        if is_temporary_name(name.to_bytes())
            && let Some(_lock) = take_abandoned(directory, name)
        {
            // Another process may be quicker, or give the file its name.
            let _ = unlinkat(directory, name, AtFlags::empty());
        }
        false
    })
    .map(drop)
}

/// Takes a temporary file that nobody uses. For a regular file, returns its lock too, which must be
/// held until the file is removed, so that the process that has just made the file sees that it is
/// taken.
fn take_abandoned(directory: BorrowedFd<'_>, name: &CStr) -> Option<Option<OwnedFd>> {
    // Opening a device could have an effect.
    let status = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    match FileType::from_raw_mode(status.st_mode) {
        // Nobody uses a symbolic link for long.
        FileType::Symlink => Some(None),
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = openat(directory, name, flags, Mode::empty()).ok()?;
            flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
            Some(Some(file))
        }
        _ => None,
    }
}

/// Refuses an output whose name later runs would take for an unfinished output's, and remove.
pub(crate) fn refuse_temporary(name: &OsStr) -> Result<(), FileError> {
    match is_temporary_name(name.as_bytes()) {
        true => Err(Refusal::NameOfUnfinished.into()),
        false => Ok(()),
    }
}

/// Returns whether a name is one that [`Outputs`](crate::output::Outputs) gives to unfinished
/// files: its prefix, 16 hexadecimal digits and its suffix.
pub(crate) fn is_temporary_name(name: &[u8]) -> bool {
    let middle = name.strip_prefix(TEMPORARY_PREFIX.as_bytes());
    middle
        .and_then(|rest| rest.strip_suffix(TEMPORARY_SUFFIX.as_bytes()))
        .is_some_and(|digits| digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit))
}

const TEMPORARY_PREFIX: &str = ".evener-";
const TEMPORARY_SUFFIX: &str = ".part";

/// Makes a temporary file for its owner alone, and locks it.
pub(crate) fn create_temporary(
    directory: BorrowedFd<'_>,
) -> Result<(OwnedFd, OsString), FileError> {
    let failed = FileError::system("create its output");
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    for _ in 0..MOST_TRIES {
        let name = temporary_name();
        let create = || openat(directory, &*name, flags, Mode::RUSR | Mode::WUSR);
        let file = match retry_on_intr(create) {
            Ok(file) => file,
            Err(Errno::EXIST) => continue,
            Err(errno) => return Err(failed(errno)),
        };
        let kept = is_kept(directory, &name, &file);
        if kept == Ok(true) {
            return Ok((file, name));
        }
        let _ = unlinkat(directory, &*name, AtFlags::empty());
        kept.map_err(&failed)?;
    }
    Err(failed(Errno::BUSY))
}

/// Locks a file that was just made, which tells `sweep` that it is in use; a filesystem without
/// locks has no sweep. Returns whether no other run's `sweep` came first.
fn is_kept(directory: BorrowedFd<'_>, name: &OsStr, file: &OwnedFd) -> Result<bool, Errno> {
    if flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Ok(false);
    }
    // Not by its link count, which some filesystems leave at one while a file is open.
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The most attempts to make a temporary file after another run has taken it.
pub(crate) const MOST_TRIES: u32 = 100;

/// A name for an unfinished file, which nothing else has.
pub(crate) fn temporary_name() -> OsString {
    let mut random = [0; 8];
    // Only uniqueness matters; `O_EXCL` catches a collision.
    if getrandom::fill(&mut random).is_err() {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        random = (now.as_nanos() as u64).to_be_bytes();
    }
    format!("{TEMPORARY_PREFIX}{:016x}{TEMPORARY_SUFFIX}", u64::from_be_bytes(random)).into()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_temporary_file_that_has_its_lock_is_never_swept() {
        let home = tempfile::tempdir().unwrap();
        let directory = File::open(home.path()).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    sweep(directory.as_fd()).unwrap();
                }
            });
            let lost = (0..600).find(|_| {
                let (_file, name) = create_temporary(directory.as_fd()).unwrap();
                std::thread::yield_now();
                unlinkat(&directory, &*name, AtFlags::empty()).is_err()
            });
            ended.store(true, Ordering::Relaxed);
            assert_eq!(lost, None);
        });
    }
}
