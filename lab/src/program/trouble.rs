//! Errors of the program, and its exit status.

use std::io;
use std::process::ExitCode;

use evener_cli::arguments::WRONG_USAGE;
use evener_cli::end;
use evener_cli::messages::{self, complain};
use evener_lab::LabError;
use evener_lab::processes::ProcessesError;
use evener_lab::speed::SpeedError;

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Benchmark(#[from] LabError),
    #[error(transparent)]
    Processes(#[from] ProcessesError),
    #[error(transparent)]
    Speed(#[from] SpeedError),
    #[error("can't start the process that works with the named engines: {0}; see `ulimit -u`")]
    Process(io::Error),
    #[error("{}", messages::words_of_output(.0))]
    Output(io::Error),
}

impl Trouble {
    /// Prints the error on standard error and returns the exit status.
    pub(crate) fn tell(&self) -> ExitCode {
        match self {
            Trouble::Output(cause) | Trouble::Speed(SpeedError::Output(cause)) => {
                end::output_failed(cause)
            }
            Trouble::Benchmark(LabError::Interrupted) => {
                complain(self);
                ExitCode::from(INTERRUPTED)
            }
            Trouble::Usage(_) | Trouble::Benchmark(LabError::NoDevice { .. }) => {
                complain(self);
                ExitCode::from(WRONG_USAGE)
            }
            Trouble::Speed(error) if error.is_usage() => {
                complain(self);
                ExitCode::from(WRONG_USAGE)
            }
            _ => {
                complain(self);
                ExitCode::FAILURE
            }
        }
    }
}

const INTERRUPTED: u8 = 130;
