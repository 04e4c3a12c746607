//! Errors of engines.

use crate::{Cipher, Direction};

/// The reason why an engine could not open a session or process a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine does not offer the cipher in this direction.
    #[error("engine `{engine}` does not {direction} {cipher}")]
    NotOffered {
        /// The engine's name.
        engine: String,
        /// The cipher requested.
        cipher: Cipher,
        /// The direction requested.
        direction: Direction,
    },
    /// The key's length is not the cipher's.
    #[error("{cipher} takes a key of {expected} bytes, not {actual}")]
    KeyLength {
        /// The cipher that the key is for.
        cipher: Cipher,
        /// Length in bytes.
        expected: usize,
        /// Length in bytes.
        actual: usize,
    },
    /// Neither the job nor the session has a key.
    #[error("engine `{engine}` got a job without a key, and its session has none")]
    NoKey {
        /// The engine's name.
        engine: String,
    },
    /// A job or session has a key, but the engine holds its own.
    #[error("engine `{engine}` uses only the key that it holds; give no other key")]
    HoldsKey {
        /// The engine's name.
        engine: String,
    },
    /// The engine is absent or unusable; the reason says how to fix that.
    #[error("engine `{engine}` is not available: {reason}")]
    Unavailable {
        /// The engine's name.
        engine: String,
        /// The reason as text.
        reason: String,
    },
    /// The operation was stopped while it waited its turn for the engine.
    #[error("the wait for engine `{engine}` was interrupted")]
    Interrupted {
        /// The engine's name.
        engine: String,
    },
    /// The engine computed a wrong result.
    #[error("engine `{engine}` computed a wrong result{}", doubt(*unverified))]
    WrongResult {
        /// The engine's name.
        engine: String,
        /// The number of earlier jobs that were not verified.
        unverified: u64,
    },
    /// The engine failed while working.
    #[error("engine `{engine}` failed: {reason}")]
    Failed {
        /// The engine's name.
        engine: String,
        /// The reason as text.
        reason: String,
    },
}

/// The part of the message about earlier jobs.
fn doubt(unverified: u64) -> String {
    match unverified {
        0 => String::new(),
        1 => "; one earlier job was not verified and may be wrong too".to_owned(),
        jobs => format!("; {jobs} earlier jobs were not verified and may be wrong too"),
    }
}
