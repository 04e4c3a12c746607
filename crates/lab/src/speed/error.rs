//! Why speeds could not be measured or shown.

use std::io;
use std::path::PathBuf;

use evener_core::{Cipher, EngineError, shown_error};

/// Why speeds could not be measured or shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpeedError {
    /// An engine that was asked for by name is not there.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// An engine that was asked for by name has none of the ciphers.
    #[error(
        "engine `{engine}` offers none of {}; `evener engines` lists what engines offer",
        list(ciphers)
    )]
    OffersNone {
        /// The engine's name.
        engine: String,
        /// What was asked for.
        ciphers: Vec<Cipher>,
    },
    /// A length is none of a cipher's.
    #[error("{cipher} can't be measured with messages of {bytes} bytes: {reason}")]
    Length {
        /// The cipher.
        cipher: Cipher,
        /// The length.
        bytes: usize,
        /// What it takes.
        reason: &'static str,
    },
    /// No engine did anything; each engine's reason is told.
    #[error("nothing could be measured: {0}")]
    Nothing(String),
    /// A file of results can't be read.
    #[error("can't compare with {}: {reason}", evener_core::shown(path))]
    Compare {
        /// The file.
        path: PathBuf,
        /// The error and its place.
        reason: String,
    },
    /// A chart could not be written.
    #[error("can't write {}: {}", evener_core::shown(path), shown_error(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Standard output can't be written to.
    #[error("can't write the report: {}", shown_error(.0))]
    Output(io::Error),
}

impl SpeedError {
    /// Whether what was asked for makes no sense, and nothing was measured.
    pub fn is_usage(&self) -> bool {
        !matches!(self, SpeedError::Nothing(_) | SpeedError::Write { .. } | SpeedError::Output(_))
    }
}

fn list(ciphers: &[Cipher]) -> String {
    ciphers.iter().map(Cipher::to_string).collect::<Vec<_>>().join(", ")
}
