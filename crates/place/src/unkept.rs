//! Metadata that the outputs' file system does not keep: modes and times, owners and extended
//! attributes. `cp` still stores such a file, and so does Evener: a run reports once what it could
//! not keep.

use std::sync::OnceLock;

use rustix::io::Errno;

use crate::{FileError, Refusal, SystemError};
use evener_seal::IntoSystemError;
use evener_seal::in_brackets;

/// The properties that a run's outputs lack.
#[derive(Debug, Default)]
pub(crate) struct Unkept {
    pub(crate) modes: Lack,
    pub(crate) times: Lack,
    pub(crate) link_times: Lack,
    pub(crate) owners: Lack,
    pub(crate) xattrs: Lack,
    pub(crate) syncs: Lack,
}

/// A property that outputs may lack: holds the system's error for the first, or none if the system
/// accepted the call and did nothing.
#[derive(Debug, Default)]
pub(crate) struct Lack(OnceLock<Option<Errno>>);

impl Lack {
    /// Accepts an error that says that the file system does not keep this.
    ///
    /// # Errors
    /// Any other error.
    pub(crate) fn forgive(&self, errno: Errno) -> Result<(), Errno> {
        let is_unsupported = matches!(
            errno,
            Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL
        );
        if !is_unsupported {
            return Err(errno);
        }
        self.0.get_or_init(|| Some(errno));
        Ok(())
    }

    /// Notes a lack that no call has reported.
    pub(crate) fn note(&self) {
        self.0.get_or_init(|| None);
    }

    pub(crate) fn is_noted(&self) -> bool {
        self.0.get().is_some()
    }

    /// The system's error, if it gave one, if anything is lacking.
    fn answer(&self) -> Option<Option<SystemError>> {
        self.0.get().map(|errno| errno.map(Errno::system))
    }
}

impl Unkept {
    /// Notices for the user about metadata that is always kept where possible.
    pub(crate) fn notices(&self) -> impl Iterator<Item = String> {
        let modes = self.modes.answer().map(|answer| {
            let answer = in_brackets(answer);
            format!(
                "the file system sets no modes{answer}, so outputs have those that it gives them"
            )
        });
        let times = self.times.answer().map(|answer| {
            let answer = in_brackets(answer);
            format!(
                "the file system sets no times{answer}, so a later run can't tell which outputs \
                 are up to date"
            )
        });
        let link_times = self.link_times.answer().map(|_| NO_TIMES_OF_LINKS.to_owned());
        modes.into_iter().chain(times).chain(link_times)
    }

    /// Requested properties that could not be had, though the outputs are stored.
    pub(crate) fn failures(&self) -> impl Iterator<Item = FileError> {
        let owners = self.owners.answer().map(Refusal::NoOwners);
        let xattrs = self.xattrs.answer().map(Refusal::NoXattrs);
        let syncs = self.syncs.answer().map(Refusal::NotSynced);
        [owners, xattrs, syncs].into_iter().flatten().map(FileError::from)
    }
}

pub(crate) const NO_TIMES_OF_LINKS: &str = "this file system keeps no times of symbolic links";
