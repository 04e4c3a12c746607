//! The error of an operation on files.

use std::fmt;

use crate::{Failure, Report};

/// The reason that an operation on files did not succeed.
///
/// | what happened | result |
/// |---|---|
/// | it could not begin | [`OperationError::NotBegun`] |
/// | a file failed, or its output was refused because one of that name exists | [`OperationError::Incomplete`] |
/// | it was stopped ([`Control::stop`](crate::Control::stop)), even after the last file | `Incomplete`, with [`Report::interrupted`] |
/// | an engine computed wrong results, and files that it did may be wrong | `Incomplete`, with [`Report::doubtful`] |
/// | files were left out: by [`TreeOptions::selection`](crate::TreeOptions::selection), or with a notice, such as sockets and names without the suffix | `Ok`, with [`Report::notices`] |
/// | files were skipped or needed no update | `Ok`, with their numbers |
/// | an engine failed, and other engines did its work | `Ok`, with [`Report::retired`] |
/// | there were no files at all | `Ok`, with [`Report::files`] of 0 |
#[derive(Clone, thiserror::Error)]
pub enum OperationError {
    /// It could not begin. Nothing was done.
    #[error(transparent)]
    NotBegun(#[from] Failure),
    /// It began but was not completed, or some of it may be wrong. Files that were done stay.
    #[error("{}", .0.shortfall().unwrap_or_default())]
    Incomplete(Box<Report>),
}

impl OperationError {
    /// The report, if the operation began.
    pub fn report(&self) -> Option<&Report> {
        match self {
            OperationError::NotBegun(_) => None,
            OperationError::Incomplete(report) => Some(report),
        }
    }

    /// The report, for callers that look at it themselves:
    /// `result.or_else(OperationError::into_report)`.
    ///
    /// # Errors
    /// When the operation could not begin.
    pub fn into_report(self) -> Result<Report, Failure> {
        match self {
            OperationError::NotBegun(failure) => Err(failure),
            OperationError::Incomplete(report) => Ok(*report),
        }
    }
}

impl fmt::Debug for OperationError {
    /// Prints the line of [`Display`](fmt::Display), since a report is long: a `main` that returns
    /// an error prints this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            OperationError::NotBegun(_) => "NotBegun",
            OperationError::Incomplete(_) => "Incomplete",
        };
        write!(f, "{name}({self})")
    }
}
