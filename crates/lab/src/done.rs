//! Whether a run did all of its work: a run that did less has no figures.

use crate::LabError;

/// An amount of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Files or messages.
    pub files: u64,
    /// Their bytes together.
    pub bytes: u64,
}

impl Amount {
    /// This many files of one length.
    pub(crate) fn of(files: u64, length: usize) -> Amount {
        Amount { files, bytes: files.saturating_mul(length as u64) }
    }
}

/// Compares what a run did with what it was to do, which is something.
///
/// # Errors
/// [`LabError::Undone`] where they differ; `run` says whose it was, such as `polling, 8 bytes`.
pub(crate) fn all_done(run: &str, done: Amount, wanted: Amount) -> Result<(), LabError> {
    if done == wanted && wanted.files > 0 {
        return Ok(());
    }
    Err(LabError::Undone { run: run.to_owned(), done, wanted })
}
