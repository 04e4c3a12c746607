//! Errors of the program, and its exit status.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use evener::format::FormatError;
use evener::gate::GateError;
use evener::keys::KeyError;
use evener::program::shown_error;
use evener::{EngineError, Failure, FileError, MalformedGlob, Refusal};
pub(crate) use evener_cli::end::end_by_broken_pipe;
pub(crate) use evener_cli::messages::complain;
use evener_cli::{end, messages};

use crate::hints;

/// The result of a command that could begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Everything is done.
    Done,
    /// Some files failed; they were named.
    SomeFailed,
    /// All files failed, because the key is wrong.
    WrongKey,
    /// A signal stopped it.
    Interrupted,
    /// Another worker has done the shard.
    Already,
    /// A file of another origin has the name of one of its own.
    Conflict,
    /// The program that it ran failed, with this status.
    ProgramFailed(u8),
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(match ending {
            Ending::Done => 0,
            Ending::SomeFailed => 1,
            Ending::WrongKey => 2,
            Ending::Already => 3,
            Ending::Conflict => 4,
            Ending::Interrupted => INTERRUPTED,
            Ending::ProgramFailed(status) => status,
        })
    }
}

/// The reason why a command could not begin, or could not print its result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{0}")]
    Usage(String),
    #[error("{}", hints::of_key(.0))]
    Key(#[from] KeyError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Glob(#[from] MalformedGlob),
    #[error("{}", hints::line(.0, hints::Given::default()))]
    Failure(#[from] Failure),
    #[error("{}: can't {action} it: {}", shown(path), shown_error(cause))]
    File { action: &'static str, path: PathBuf, cause: io::Error },
    #[error("nothing could be measured: {0}")]
    Unmeasured(String),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error("can't keep the calibration: {}", shown_error(.0))]
    Calibration(io::Error),
    #[error("can't have PINs tried again: {}", shown_error(.0))]
    Pins(io::Error),
    #[error(
        "can't serve metrics at {address}: {}; give --metrics another address, or port 0 for one \
         that is free",
        shown_error(cause)
    )]
    Metrics { address: SocketAddr, cause: io::Error },
    #[error("can't handle signals: {0}")]
    Signals(io::Error),
    #[error(
        "can't start the process that works with the named engines: {}; see `ulimit -u`",
        shown_error(.0)
    )]
    Process(io::Error),
    #[error("{}", messages::words_of_output(.0))]
    Output(io::Error),
}

impl Trouble {
    pub(crate) fn usage(text: impl Into<String>) -> Trouble {
        Trouble::Usage(text.into())
    }

    /// The error as an entry of a JSON report.
    pub(crate) fn as_failure(&self) -> Failure {
        match self {
            Trouble::Failure(failure) => failure.clone(),
            Trouble::File { action, path, cause } => Failure {
                path: path.clone(),
                error: refused(format!("can't {action} it: {}", shown_error(cause))),
            },
            Trouble::Key(error) => Failure {
                path: error.path().map(Path::to_owned).unwrap_or_default(),
                error: refused(self.to_string()),
            },
            _ => Failure { path: PathBuf::new(), error: refused(self.to_string()) },
        }
    }

    /// Prints the error on standard error and returns the exit status. If the reader of standard
    /// output has gone, it prints nothing, like other programs.
    pub(crate) fn tell(&self) -> ExitCode {
        if let Trouble::Output(cause) = self {
            return end::output_failed(cause);
        }
        complain(self);
        ExitCode::from(if matches!(self, Trouble::Unmeasured(_)) { 1 } else { 2 })
    }
}

/// The error for a reason of the program's own.
pub(crate) fn refused(reason: impl Into<String>) -> FileError {
    Refusal::Other(reason.into()).into()
}

/// A path, safe to print.
pub(crate) fn shown(path: &Path) -> evener::program::Shown<'_> {
    evener::program::shown(path)
}

pub(crate) const INTERRUPTED: u8 = 130;
