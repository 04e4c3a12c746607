//! Source files.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::{Errno, pread, retry_on_intr};

use crate::identity::{FileState, status_now};
use crate::{FileError, Refusal};
use evener_seal::{Blob, ReadAt, ReadBack};

/// A regular file, open for reading, with its status at opening.
pub(crate) struct Source {
    file: OwnedFd,
    status: Stat,
}

impl Source {
    /// Opens a file below a directory; `follow` says whether a symbolic link in its place is
    /// followed.
    ///
    /// # Errors
    /// When it can't be opened or is not a regular file.
    pub(crate) fn open(
        directory: BorrowedFd<'_>,
        name: &OsStr,
        follow: bool,
    ) -> Result<Source, FileError> {
        // NONBLOCK: a FIFO that has taken the file's place must not block us.
        let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, !follow);
        let opened = retry_on_intr(|| openat(directory, name, flags, Mode::empty()));
        let file = opened.map_err(|errno| match errno {
            // A socket.
            Errno::NXIO => Refusal::NotRegular.into(),
            errno => FileError::system("open it")(errno),
        })?;
        let status = status_now(&file).map_err(FileError::system("read its status"))?;
        if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
            return Err(Refusal::NotRegular.into());
        }
        Ok(Source { file, status })
    }

    /// Its status at opening.
    pub(crate) fn status(&self) -> &Stat {
        &self.status
    }

    /// Checks that the file has not changed since it was opened.
    ///
    /// # Errors
    /// [`FileError::Changed`] when its size, its time or its time of change differs, and
    /// [`FileError::WrongSize`] when it has content but shows no size, as in /proc.
    pub(crate) fn check_unchanged(&self) -> Result<(), FileError> {
        let is_empty = if self.length() == 0 { self.check_empty() } else { Ok(()) };
        self.check_state().and(is_empty)
    }

    fn check_state(&self) -> Result<(), FileError> {
        let now = fstat(&self.file).map_err(FileError::system("read its status"))?;
        match FileState::of(&self.status) == FileState::of(&now) {
            true => Ok(()),
            false => Err(FileError::Changed),
        }
    }

    fn check_empty(&self) -> Result<(), FileError> {
        match retry_on_intr(|| pread(&self.file, &mut [0], 0)) {
            Ok(0) => Ok(()),
            Ok(_) => Err(FileError::WrongSize),
            Err(errno) => Err(FileError::system("read it")(errno)),
        }
    }
}

impl ReadAt for Source {
    /// # Errors
    /// Also [`FileError::WrongSize`] if it never had the size that it shows, as in /sys.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
        match read_exact_at(self.file.as_fd(), buffer, offset) {
            Err(FileError::Changed) if self.check_state().is_ok() => Err(FileError::WrongSize),
            read => read,
        }
    }
}

impl ReadBack for Source {
    fn ends_at(&self, offset: u64) -> Result<bool, FileError> {
        ends_at(self.as_fd(), offset)
    }
}

impl Blob for Source {
    fn length(&self) -> u64 {
        self.status.st_size as u64
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Fills `buffer` from a file's `offset` on, however short the individual reads are.
pub(crate) fn read_exact_at(
    file: BorrowedFd<'_>,
    mut buffer: &mut [u8],
    mut offset: u64,
) -> Result<(), FileError> {
    while !buffer.is_empty() {
        match pread(file, &mut *buffer, offset) {
            Ok(0) => return Err(FileError::Changed),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(FileError::system("read it")(errno)),
        }
    }
    Ok(())
}

/// Returns whether a file ends at `offset`. It is read there, since a store's word for its length may
/// not be that of its content.
pub(crate) fn ends_at(file: BorrowedFd<'_>, offset: u64) -> Result<bool, FileError> {
    let has_byte_at = |offset| match read_exact_at(file, &mut [0], offset) {
        Ok(()) => Ok(true),
        Err(FileError::Changed) => Ok(false),
        Err(error) => Err(error),
    };
    Ok(offset.checked_sub(1).map_or(Ok(true), has_byte_at)? && !has_byte_at(offset)?)
}
