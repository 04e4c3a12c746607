//! Why the benchmark could not be run.

use std::io;

use evener_core::EngineError;
use evener_gate::GateError;

/// Why the benchmark could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessesError {
    /// None of the engines is there.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The gate could not be used.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// A process could not be started or waited for.
    #[error("cannot run {processes} processes: {cause}")]
    Process {
        /// How many were to run.
        processes: usize,
        /// What the system said.
        cause: io::Error,
    },
    /// There is nothing to report, because processes failed each time; the first time's account.
    #[error("{0}")]
    Failed(String),
    /// The report could not be written.
    #[error("cannot write the report: {cause}")]
    Report {
        /// What the system said.
        cause: io::Error,
    },
}
