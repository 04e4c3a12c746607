//! A hard link from an output to a further name.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use evener_core::shown_error;
use rustix::fs::{AtFlags, linkat, unlinkat};
use rustix::io::Errno;

use crate::FileError;
use crate::identity::Identity;
use crate::naming::has_no_links;
use crate::temporary::{MOST_TRIES, rename_over, temporary_name};

/// A link to be made: from an output's name into a directory.
pub(crate) struct Link<'a> {
    pub(crate) from: BorrowedFd<'a>,
    pub(crate) existing: &'a OsStr,
    pub(crate) into: BorrowedFd<'a>,
    pub(crate) output: Identity,
}

/// The result of making a link under a name.
pub(crate) enum Attempt {
    Made,
    /// It can't be made, for this reason.
    Apart(String),
    /// The name belongs to another file.
    Taken,
    /// The link lost its name at once.
    Gone,
}

impl Link<'_> {
    /// Makes the link under an unused name.
    pub(crate) fn make(&self, name: &OsStr) -> Result<Attempt, FileError> {
        match linkat(self.from, self.existing, self.into, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(Attempt::Taken),
            Err(errno) if has_no_links(errno, self.into) => {
                return Ok(Attempt::Apart(shown_error(&errno.into())));
            }
            Err(errno) => return Err(FileError::system("link its output")(errno)),
        }
        // Somebody may have put another file in the output's place meanwhile.
        let there = Identity::of_name(self.into, name);
        if there == Ok(Some(self.output)) {
            return Ok(Attempt::Made);
        }
        let _ = unlinkat(self.into, name, AtFlags::empty());
        Ok(match there? {
            Some(_) => Attempt::Apart(OTHER_NUMBER.to_owned()),
            None => Attempt::Gone,
        })
    }

    /// Makes the link in the place of the entry with this name. It first has a temporary name,
    /// under which another run's `sweep` may remove it. Returns the reason if it can't be made.
    pub(crate) fn make_over(&self, name: &OsStr) -> Result<Option<String>, FileError> {
        let system = FileError::system("link its output");
        for _ in 0..MOST_TRIES {
            let temporary = temporary_name();
            match self.make(&temporary)? {
                Attempt::Made => {}
                Attempt::Apart(reason) => return Ok(Some(reason)),
                Attempt::Taken | Attempt::Gone => continue,
            }
            match rename_over(self.into, &temporary, name) {
                Err(Errno::NOENT) => {}
                renamed => return renamed.map(|()| None).map_err(system),
            }
        }
        Err(system(Errno::BUSY))
    }
}

pub(crate) const OTHER_NUMBER: &str = "the inode number of an output changed when it got its name";
