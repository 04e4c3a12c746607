//! Why an engine could not serve.

use crate::{Cipher, Direction};

/// Why an engine could not open a session or process a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine does not offer the cipher in this direction.
    #[error("engine `{engine}` does not {direction} {cipher}")]
    NotOffered {
        /// The engine's name.
        engine: String,
        /// What was asked for.
        cipher: Cipher,
        /// What was asked for.
        direction: Direction,
    },
    /// The key's length is not the cipher's.
    #[error("{cipher} takes a key of {expected} bytes, not {actual}")]
    KeyLength {
        /// What the key was for.
        cipher: Cipher,
        /// In bytes.
        expected: usize,
        /// In bytes.
        actual: usize,
    },
    /// A job brought no key and the session has none.
    #[error("engine `{engine}` was given a job without a key")]
    NoKey {
        /// The engine's name.
        engine: String,
    },
    /// A job or session brought a key to an engine that has one of its own.
    #[error("engine `{engine}` works with the key that it holds and takes no other")]
    HoldsKey {
        /// The engine's name.
        engine: String,
    },
    /// The engine is not there or may not be used; the reason says what to do about it.
    #[error("engine `{engine}` is not available: {reason}")]
    Unavailable {
        /// The engine's name.
        engine: String,
        /// In words.
        reason: String,
    },
    /// The operation was stopped while it waited for its turn at the engine, which is as it was.
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
        /// Jobs handed on before that were not verified.
        unverified: u64,
    },
    /// The engine failed while working.
    #[error("engine `{engine}` failed: {reason}")]
    Failed {
        /// The engine's name.
        engine: String,
        /// In words.
        reason: String,
    },
}

/// What else may be wrong, in words.
fn doubt(unverified: u64) -> String {
    match unverified {
        0 => String::new(),
        1 => "; one job that it did before was not verified and may be wrong too".to_owned(),
        jobs => format!("; {jobs} jobs that it did before were not verified and may be wrong too"),
    }
}
