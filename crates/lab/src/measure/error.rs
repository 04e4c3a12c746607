//! Why measuring came to nothing.

use std::io;
use std::path::PathBuf;

use evener_core::{Cipher, Direction, EngineError};

/// Why measuring came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// An engine is not there, or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// There is nothing to measure.
    #[error("none of the engines {direction}s {cipher}")]
    NotOffered {
        /// What was asked for.
        cipher: Cipher,
        /// What was asked for.
        direction: Direction,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", evener_core::shown(path))]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A profile is to be kept, and there is no place for it.
    #[error("there is no home directory to keep the profile in")]
    NoHome,
    /// Standard output could not be written to.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}
