//! Errors of measuring and showing speeds.

use std::io;
use std::path::PathBuf;

use evener_core::{Cipher, EngineError, shown_error};

/// The reason why speeds could not be measured or shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpeedError {
    /// A named engine is not available.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A named engine supports none of the ciphers.
    #[error(
        "engine `{engine}` offers none of {}; `evener engines` lists what engines offer",
        list(ciphers)
    )]
    OffersNone {
        /// The engine's name.
        engine: String,
        /// The requested ciphers.
        ciphers: Vec<Cipher>,
    },
    /// A cipher does not accept messages of a length.
    #[error("{cipher} can't be measured with messages of {bytes} bytes: {reason}")]
    Length {
        /// The cipher.
        cipher: Cipher,
        /// The length.
        bytes: usize,
        /// The lengths that it accepts.
        reason: &'static str,
    },
    /// No engine could be measured; the text has each engine's reason.
    #[error("nothing could be measured: {0}")]
    Nothing(String),
    /// A file of results can't be read.
    #[error("can't compare with {}: {reason}", evener_core::shown(path))]
    Compare {
        /// The file.
        path: PathBuf,
        /// The error and its location.
        reason: String,
    },
    /// A chart or page could not be written.
    #[error("can't write {}: {}", evener_core::shown(path), shown_error(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Standard output can't be written to.
    #[error("can't write the report: {}", shown_error(.0))]
    Output(io::Error),
}

impl SpeedError {
    /// Returns whether the request was invalid, so that nothing was measured.
    pub fn is_usage(&self) -> bool {
        !matches!(self, SpeedError::Nothing(_) | SpeedError::Write { .. } | SpeedError::Output(_))
    }
}

fn list(ciphers: &[Cipher]) -> String {
    ciphers.iter().map(Cipher::to_string).collect::<Vec<_>>().join(", ")
}
