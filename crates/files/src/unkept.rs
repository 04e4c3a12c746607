//! What the file system of the outputs does not keep of their sources: modes and times, owners and extended
//! attributes. `cp` stores a file all the same, and so does Evener: a run says once what it could not do.

use std::sync::OnceLock;

use evener_core::shown_error;
use rustix::io::Errno;

use crate::FileError;

/// What outputs of a run are without.
#[derive(Debug, Default)]
pub(crate) struct Unkept {
    pub(crate) modes: Lack,
    pub(crate) times: Lack,
    pub(crate) owners: Lack,
    pub(crate) xattrs: Lack,
    pub(crate) syncs: Lack,
}

/// Whether outputs are without one of these: the system's answer for the first, or none where it has taken
/// the call and done nothing.
#[derive(Debug, Default)]
pub(crate) struct Lack(OnceLock<Option<Errno>>);

impl Lack {
    /// Takes an error that says that the file system does not keep this.
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

    /// Notes what no call has told.
    pub(crate) fn note(&self) {
        self.0.get_or_init(|| None);
    }

    /// If anything is lacking, the answer in words, such as " (Operation not permitted)".
    fn answer(&self) -> Option<String> {
        let answer = |errno: &Errno| format!(" ({})", shown_error(&(*errno).into()));
        self.0.get().map(|errno| errno.as_ref().map_or(String::new(), answer))
    }
}

impl Unkept {
    /// Notices for the user about what is kept always where it can be.
    pub(crate) fn notices(&self) -> impl Iterator<Item = String> {
        let modes = self.modes.answer().map(|answer| {
            format!(
                "the file system sets no modes{answer}, so outputs have those that it gives them"
            )
        });
        let times = self.times.answer().map(|answer| {
            format!(
                "the file system sets no times{answer}, so a later run can't tell which outputs \
                 are up to date"
            )
        });
        modes.into_iter().chain(times)
    }

    /// What was asked for and could not be done, though the outputs are there.
    pub(crate) fn failures(&self) -> impl Iterator<Item = FileError> {
        let all = [
            (&self.owners, "owners could not be kept"),
            (&self.xattrs, "extended attributes could not be kept"),
            (&self.syncs, "what was written could not be synced"),
        ];
        all.into_iter().filter_map(|(lack, what)| {
            let answer = lack.answer()?;
            let reason = format!("{what}{answer}; the outputs were stored all the same");
            Some(FileError::Refused(reason))
        })
    }
}
