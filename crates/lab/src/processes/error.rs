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
    #[error("cannot run {processes} processes: {cause}; see `ulimit -u`")]
    Process {
        /// How many were to run.
        processes: usize,
        /// What the system said.
        cause: io::Error,
    },
    /// A process did not do its work.
    #[error("{failed} of {processes} processes on engine `{engine}` failed; the first says why")]
    Failed {
        /// The engine.
        engine: String,
        /// How many ran.
        processes: usize,
        /// How many of them failed.
        failed: usize,
    },
    /// The report could not be written.
    #[error("cannot write the report: {cause}")]
    Report {
        /// What the system said.
        cause: io::Error,
    },
}
