//! Errors of measuring.

use std::io;
use std::path::PathBuf;

use evener_core::{Cipher, Direction, EngineError};

/// Why engines could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// An engine is not available, or failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No engine has the cipher.
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
        /// The reason.
        source: io::Error,
    },
    /// There is no directory to save the profile in.
    #[error("no home directory to save the profile in: set XDG_CACHE_HOME or HOME")]
    NoHome,
    /// Standard output could not be written to.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}
