//! How the program ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use evener::format::FormatError;
use evener::gate::GateError;
use evener::keys::KeyError;
use evener::{EngineError, Failure, FileError, MalformedGlob, shown_text};
use evener_lab::LabError;
use evener_lab::measure::MeasureError;
use evener_lab::processes::ProcessesError;
use evener_lab::speed::SpeedError;
use signal_hook::consts::SIGPIPE;

use crate::sys::stdout_was_closed;

/// How a command ended that could begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All is done.
    Done,
    /// Some files could not be done; they were named.
    SomeFailed,
    /// None could be done, since the key is another one.
    WrongKey,
    /// A signal stopped it.
    Interrupted,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(match ending {
            Ending::Done => 0,
            Ending::SomeFailed => 1,
            Ending::WrongKey => 2,
            Ending::Interrupted => INTERRUPTED,
        })
    }
}

/// Why a command could not begin, or could not say what it did.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{0}")]
    Usage(String),
    #[error("{}", key_words(.0))]
    Key(#[from] KeyError),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Glob(#[from] MalformedGlob),
    #[error("{}: {}", shown(&.0.path), .0.error)]
    Failure(#[from] Failure),
    #[error("{}: can't {action} it: {}", shown(path), words(cause))]
    File { action: &'static str, path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Benchmark(#[from] LabError),
    #[error(transparent)]
    Processes(#[from] ProcessesError),
    #[error(transparent)]
    Speed(#[from] SpeedError),
    #[error(transparent)]
    Measure(#[from] MeasureError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error("can't keep the calibration: {}", words(.0))]
    Calibration(io::Error),
    #[error("can't handle signals: {0}")]
    Signals(io::Error),
    #[error("can't write to standard output: {}", output_words(.0))]
    Output(io::Error),
}

impl Trouble {
    pub(crate) fn usage(text: impl Into<String>) -> Trouble {
        Trouble::Usage(text.into())
    }

    /// For the report of what could not begin.
    pub(crate) fn as_failure(&self) -> Failure {
        match self {
            Trouble::Failure(failure) => failure.clone(),
            Trouble::File { action, path, cause } => Failure {
                path: path.clone(),
                error: FileError::Refused(format!("can't {action} it: {}", words(cause))),
            },
            _ => Failure { path: PathBuf::new(), error: FileError::Refused(self.to_string()) },
        }
    }

    /// Says it on standard error and gives the exit status. Where nobody reads standard output
    /// any more, nothing is said, as other programs do.
    pub(crate) fn tell(&self) -> ExitCode {
        if matches!(self, Trouble::Output(cause) if cause.kind() == io::ErrorKind::BrokenPipe) {
            end_by_broken_pipe();
        }
        complain(self);
        ExitCode::from(match self {
            Trouble::Output(_) | Trouble::Benchmark(_) | Trouble::Processes(_) => 1,
            Trouble::Speed(error) if !error.is_usage() => 1,
            _ => 2,
        })
    }
}

/// Ends the program as the system ends one that writes to a pipe which nobody reads.
pub(crate) fn end_by_broken_pipe() {
    // Returns only when the signal can't be raised; then the caller's way to end is as good.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
}

/// Says something on standard error, and lets nothing in it steer the terminal: what a device
/// says of itself may be part of it. Where standard error is closed, nobody wants to know.
pub(crate) fn complain(text: &dyn std::fmt::Display) {
    use io::Write;
    let _ = writeln!(io::stderr().lock(), "evener: {}", shown_text(&text.to_string()));
}

/// A path for people.
pub(crate) fn shown(path: &Path) -> evener::Shown<'_> {
    evener::shown(path)
}

/// What is wrong with a key, or with an identity file, to which the same applies.
fn key_words(error: &KeyError) -> String {
    match error {
        KeyError::NotRegular { path } => format!(
            "{path:?} is not a regular file, as key and identity files must be; \
             write it to a file first"
        ),
        _ => error.to_string(),
    }
}

/// Why standard output can't be written to.
fn output_words(error: &io::Error) -> String {
    if stdout_was_closed() { "it is closed".to_owned() } else { words(error) }
}

/// The system's words without the number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

pub(crate) const INTERRUPTED: u8 = 130;
