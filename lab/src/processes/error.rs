//! Errors of the benchmark.

use std::io;

use evener_core::{EngineError, shown_error};
use evener_gate::GateError;

/// The reason why the benchmark could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessesError {
    /// None of the engines is available.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The gate could not be used.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// A process could not be started or waited for.
    #[error("can't run {processes} processes: {}", shown_error(cause))]
    Process {
        /// Number of processes.
        processes: usize,
        /// The system's error.
        cause: io::Error,
    },
    /// Processes failed in every run; the text describes the first failure.
    #[error("{0}")]
    Failed(String),
    /// The report could not be written.
    #[error("can't write the report: {}", shown_error(cause))]
    Report {
        /// The system's error.
        cause: io::Error,
    },
}
