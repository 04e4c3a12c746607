//! The entries of a directory.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, openat, statat};
use rustix::io::Errno;

/// The entries of a directory by their names, with their kinds.
pub(crate) struct Entries {
    pub(crate) kinds: HashMap<OsString, FileType>,
}

impl Entries {
    pub(crate) fn of(directory: BorrowedFd<'_>) -> Result<Entries, Errno> {
        let (mut kinds, mut failed) = (HashMap::new(), Ok(()));
        any_entry(directory, |name, listed| {
            let status = || statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
            let kind = match listed {
                FileType::Unknown => status().map(|there| FileType::from_raw_mode(there.st_mode)),
                kind => Ok(kind),
            };
            match kind {
                Ok(kind) => drop(kinds.insert(OsStr::from_bytes(name.to_bytes()).into(), kind)),
                Err(Errno::NOENT) => {}
                Err(errno) => failed = Err(errno),
            }
            failed.is_err()
        })?;
        failed.map(|()| Entries { kinds })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// All names, sorted.
    pub(crate) fn names(&self) -> Vec<&OsStr> {
        let mut names: Vec<_> = self.kinds.keys().map(OsString::as_os_str).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn kind(&self, name: &OsStr) -> Option<FileType> {
        self.kinds.get(name).copied()
    }
}

/// Calls `is_it` with the name and the kind of each entry, in the directory's order, until it
/// returns true. Returns whether it did. The kind is unknown where the file system does not tell it.
pub(crate) fn any_entry(
    directory: impl AsFd,
    is_it: impl FnMut(&CStr, FileType) -> bool,
) -> Result<bool, Errno> {
    // It may have been read before, and not every file system reads it again after a seek.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    any_entry_once(openat(directory, c".", flags, Mode::empty())?, is_it)
}

/// Like [`any_entry`], for a directory that nobody has read since it was opened.
pub(crate) fn any_entry_once(
    directory: impl AsFd,
    mut is_it: impl FnMut(&CStr, FileType) -> bool,
) -> Result<bool, Errno> {
    let mut buffer = [MaybeUninit::uninit(); NAMES_AT_ONCE];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            // The directory was removed meanwhile.
            Err(Errno::NOENT) => break,
            entry => entry?,
        };
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") && is_it(name, entry.file_type()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a directory is empty.
pub(crate) fn is_empty(directory: impl AsFd) -> Result<bool, Errno> {
    any_entry(directory, |_, _| true).map(|found| !found)
}

/// The bytes of a directory that are read at once.
const NAMES_AT_ONCE: usize = 32 << 10;
