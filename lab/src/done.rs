//! Checks that a run did all of its work: a run that did less has no figures.

use crate::LabError;

/// An amount of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Files or messages.
    pub files: u64,
    /// Total bytes.
    pub bytes: u64,
}

impl Amount {
    /// This many files of one length.
    pub(crate) fn of(files: u64, length: usize) -> Amount {
        Amount { files, bytes: files.saturating_mul(length as u64) }
    }
}

/// Compares the work of a run with the work required, which must not be empty.
///
/// # Errors
/// [`LabError::Undone`] if they differ; `run` names the run, such as `polling, 8 bytes`.
pub(crate) fn all_done(run: &str, done: Amount, wanted: Amount) -> Result<(), LabError> {
    if done == wanted && wanted.files > 0 {
        return Ok(());
    }
    Err(LabError::Undone { run: run.to_owned(), done, wanted })
}
