//! Helpers for sessions that process jobs one after the other, with one key at a time.

use std::hint::black_box;

use evener_core::{EngineError, Job, Key, Outcome, Rejection};
use zeroize::Zeroizing;

/// Processes the pending jobs of a batch with `perform`, which returns the number of bytes that it
/// wrote. Stops at the first failure of the engine; that job and those after it stay pending.
pub(crate) fn perform_each(
    batch: &mut [Job<'_>],
    mut perform: impl FnMut(&mut Job<'_>) -> Result<usize, Stop>,
) -> Result<(), EngineError> {
    for job in batch.iter_mut().filter(|job| job.outcome == Outcome::Pending) {
        job.outcome = match perform(job) {
            Ok(written) => Outcome::Done { written },
            Err(Stop::Rejected(rejection)) => Outcome::Rejected(rejection),
            Err(Stop::Failed(error)) => return Err(*error),
        };
    }
    Ok(())
}

/// The reason why a job was not done. The failure is boxed because this is returned for every job,
/// and moving a large result costs more than some of the calls into a library.
pub(crate) enum Stop {
    /// The message is wrong: no engine can process it.
    Rejected(Rejection),
    /// The engine failed.
    Failed(Box<EngineError>),
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Stop {
        Stop::Rejected(rejection)
    }
}

impl From<EngineError> for Stop {
    fn from(error: EngineError) -> Stop {
        Stop::Failed(Box::new(error))
    }
}

/// A copy of the key that the backend holds, to recognise a repeated key. (A key's address is no
/// proof: another key may be stored there later.)
pub(crate) struct LoadedKey {
    /// Words, because comparing bytes would take longer than a key schedule. All keys are whole
    /// words; any other key would never count as repeated.
    words: Zeroizing<[u64; Key::MAX_LENGTH / 8]>,
    /// In bytes; 0 when nothing is loaded.
    length: usize,
}

impl LoadedKey {
    pub(crate) fn none() -> LoadedKey {
        LoadedKey { words: Zeroizing::new([0; Key::MAX_LENGTH / 8]), length: 0 }
    }

    /// Compares in a time that depends on the lengths only.
    pub(crate) fn is(&self, key: &[u8]) -> bool {
        let (words, rest) = key.as_chunks();
        let pairs = self.words.iter().zip(words);
        let differences =
            pairs.fold(0, |bits, (loaded, &word)| bits | (loaded ^ u64::from_ne_bytes(word)));
        self.length == key.len() && rest.is_empty() && black_box(differences) == 0
    }

    pub(crate) fn set(&mut self, key: &[u8]) {
        // Keys of a session have one length, so the old words are all overwritten.
        for (loaded, &word) in self.words.iter_mut().zip(key.as_chunks().0) {
            *loaded = u64::from_ne_bytes(word);
        }
        self.length = key.len();
    }

    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }
}

/// Compares in a time that depends on the lengths only.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |bits, (left, right)| bits | (left ^ right));
    left.len() == right.len() && black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loaded_key_is_known_by_its_bytes() {
        let mut loaded = LoadedKey::none();
        assert!(!loaded.is(&[1; 16]));
        loaded.set(&[1; 16]);
        assert!(loaded.is(&[1; 16]));
        assert!(!loaded.is(&[1; 15]) && !loaded.is(&[2; 16]));
        loaded.clear();
        assert!(!loaded.is(&[1; 16]));
    }
}
