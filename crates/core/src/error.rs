//! Errors of engines.

use crate::{Cipher, Direction};

/// The reason why an engine could not open a session or process a batch.
///
/// An engine need not name itself: the functions below make errors without a name, and a guard, the
/// registry and the workers [add it](EngineError::of).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine does not offer the cipher in this direction.
    #[error("{} does not {direction} {cipher}", named(engine))]
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
    #[error("{} got a job without a key, and its session has none", named(engine))]
    NoKey {
        /// The engine's name.
        engine: String,
    },
    /// A job or session has a key, but the engine holds its own.
    #[error("{} uses only the key that it holds; give no other key", named(engine))]
    HoldsKey {
        /// The engine's name.
        engine: String,
    },
    /// The engine is absent or unusable; the reason says how to fix that.
    #[error("{} is not available: {reason}", named(engine))]
    Unavailable {
        /// The engine's name.
        engine: String,
        /// The reason as text.
        reason: String,
    },
    /// The operation was stopped while it waited its turn for the engine.
    #[error("the wait for {} was interrupted", named(engine))]
    Interrupted {
        /// The engine's name.
        engine: String,
    },
    /// The engine computed a wrong result.
    #[error("{} computed a wrong result{}", named(engine), doubt(*unverified))]
    WrongResult {
        /// The engine's name.
        engine: String,
        /// The number of earlier jobs that were not verified.
        unverified: u64,
    },
    /// The engine failed while working.
    #[error("{} failed: {reason}", named(engine))]
    Failed {
        /// The engine's name.
        engine: String,
        /// The reason as text.
        reason: String,
    },
}

impl EngineError {
    /// The engine does not offer the cipher in this direction.
    pub fn not_offered(cipher: Cipher, direction: Direction) -> EngineError {
        EngineError::NotOffered { engine: String::new(), cipher, direction }
    }

    /// Neither the job nor the session has a key.
    pub fn no_key() -> EngineError {
        EngineError::NoKey { engine: String::new() }
    }

    /// A job or session has a key, but the engine holds its own.
    pub fn holds_key() -> EngineError {
        EngineError::HoldsKey { engine: String::new() }
    }

    /// The engine is absent or unusable; the reason says how to fix that.
    pub fn unavailable(reason: impl Into<String>) -> EngineError {
        EngineError::Unavailable { engine: String::new(), reason: reason.into() }
    }

    /// The engine failed while working.
    pub fn failed(reason: impl Into<String>) -> EngineError {
        EngineError::Failed { engine: String::new(), reason: reason.into() }
    }

    /// The error with the engine's name, unless it has one.
    #[must_use]
    pub fn of(mut self, name: &str) -> EngineError {
        match &mut self {
            EngineError::KeyLength { .. } => {}
            EngineError::NotOffered { engine, .. }
            | EngineError::NoKey { engine }
            | EngineError::HoldsKey { engine }
            | EngineError::Unavailable { engine, .. }
            | EngineError::Interrupted { engine }
            | EngineError::WrongResult { engine, .. }
            | EngineError::Failed { engine, .. } => {
                if engine.is_empty() {
                    name.clone_into(engine);
                }
            }
        }
        self
    }
}

/// The engine in a message.
fn named(engine: &str) -> String {
    if engine.is_empty() { "the engine".to_owned() } else { format!("engine `{engine}`") }
}

/// The part of the message about earlier jobs.
fn doubt(unverified: u64) -> String {
    match unverified {
        0 => String::new(),
        1 => "; one earlier job was not verified and may be wrong too".to_owned(),
        jobs => format!("; {jobs} earlier jobs were not verified and may be wrong too"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_stays() {
        let error = EngineError::failed("it is gone");
        assert_eq!(error.to_string(), "the engine failed: it is gone");
        let named = error.of("token").of("worker");
        assert_eq!(named.to_string(), "engine `token` failed: it is gone");
    }
}
