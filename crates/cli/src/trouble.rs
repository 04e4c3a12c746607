//! Errors of the program, and its exit status.

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

use crate::hints;
use crate::sys::stdout_was_closed;

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

/// Why a command could not begin, or could not print its result.
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
    #[error("{}", hints::line(.0))]
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

    /// The error as an entry of a JSON report.
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

    /// Prints the error on standard error and returns the exit status. If the reader of standard
    /// output has gone, it prints nothing, like other programs.
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

/// Ends the program like the signal for writing to a pipe without a reader.
pub(crate) fn end_by_broken_pipe() {
    // Returns only if the signal can't be raised; then the caller ends the program.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
}

/// Prints a message with the prefix `evener: ` on standard error. Control characters are escaped,
/// because the message may contain text of a device. Does nothing if standard error is closed.
pub(crate) fn complain(text: &dyn std::fmt::Display) {
    use io::Write;
    let _ = writeln!(io::stderr().lock(), "evener: {}", shown_text(&text.to_string()));
}

/// A path, safe to print.
pub(crate) fn shown(path: &Path) -> evener::Shown<'_> {
    evener::shown(path)
}

/// The message for an error of standard output.
fn output_words(error: &io::Error) -> String {
    if stdout_was_closed() { "it is closed".to_owned() } else { words(error) }
}

/// The system's error message without the number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

pub(crate) const INTERRUPTED: u8 = 130;
