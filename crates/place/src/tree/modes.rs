//! Checks that the file systems for plaintext accept the modes of its sources. Each is tried once,
//! before anything is written there, with a file that has no name or loses it again.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, fstat, statat, unlinkat};

use rustix::io::Errno;

use super::directory::Made;
use super::endpoints::Endpoints;
use super::work::TreeWork;
use crate::exposure::{exposes, has_mode_of_mount, refuse_exposed};
use crate::identity::permissions;
use crate::{Failure, FileError, Operation};

impl TreeWork<'_> {
    /// Checks the file system of the target before the run. `path` is the user's name for the
    /// target.
    ///
    /// # Errors
    /// [`FileError::Exposed`] if plaintext would be open to others. A directory that this run has
    /// made is then removed again.
    pub(super) fn look_at_target(&self, endpoints: &Endpoints, path: &Path) -> Result<(), Failure> {
        let (target, wanted) = match endpoints {
            Endpoints::Tree { root, .. } => (&root.target, PRIVATE),
            Endpoints::File { directory, item, .. } => {
                let status = statat(&directory.source, &item.name, AtFlags::empty());
                let wanted = status.map_or(PRIVATE, |status| self.metadata.wanted_mode(&status));
                (&directory.target, wanted)
            }
        };
        let Some(target) = target else { return Ok(()) };
        self.look_at_modes(target.as_fd(), wanted).map_err(|error| {
            if let (Endpoints::Tree { .. }, true) = (endpoints, target.is_new) {
                let _ = unlinkat(CWD, path, AtFlags::REMOVEDIR);
            }
            Failure { path: path.to_owned(), error }
        })
    }

    /// Checks the file system of a directory that is mounted below the target.
    pub(super) fn look_at_mounted(&self, parent: &Made, target: &Made) -> Result<(), FileError> {
        match target.identity.is_beside(parent.identity) {
            true => Ok(()),
            false => self.look_at_modes(target.as_fd(), PRIVATE),
        }
    }

    fn look_at_modes(&self, directory: BorrowedFd<'_>, wanted: Mode) -> Result<(), FileError> {
        if self.operation != Operation::Decrypt || self.options.insecure_modes {
            return Ok(());
        }
        if self.options.dry_run {
            let system = FileError::system("read its output directory's status");
            let there = fstat(directory).map_err(system)?;
            let (mode, owner) = (permissions(&there).bits(), there.st_uid);
            return match has_mode_of_mount(directory) && exposes(&there, wanted) {
                true => Err(FileError::Exposed { mode, owner }),
                false => Ok(()),
            };
        }
        match self.outputs.create(directory, OsStr::new(""), PRIVATE) {
            Ok(trial) => refuse_exposed(&trial, wanted),
            // Perhaps nothing is to be made there. An output that is will report the reason.
            Err(FileError::System { errno, .. }) if CLOSED.iter().any(|&it| errno.is(it)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The errors of directories in which nothing can be made.
const CLOSED: [Errno; 3] = [Errno::ACCESS, Errno::PERM, Errno::ROFS];

/// The mode of a file for its owner alone.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);
