//! Recognises a key that a backend holds already.

use std::hint::black_box;

use zeroize::Zeroizing;

use crate::Key;

/// A copy of the key that the backend holds, to recognise a repeated key. (A key's address is no
/// proof: another key may be stored there later.)
pub struct LoadedKey {
    /// Words, because comparing bytes would take longer than a key schedule. All keys are whole
    /// words; any other key would never count as repeated.
    words: Zeroizing<[u64; Key::MAX_LENGTH / 8]>,
    /// In bytes; 0 when nothing is loaded.
    length: usize,
}

impl LoadedKey {
    /// Nothing is loaded yet.
    pub fn none() -> LoadedKey {
        LoadedKey { words: Zeroizing::new([0; Key::MAX_LENGTH / 8]), length: 0 }
    }

    /// Returns whether the loaded key has these bytes, in a time that depends on the lengths only.
    pub fn is(&self, key: &[u8]) -> bool {
        let (words, rest) = key.as_chunks();
        let pairs = self.words.iter().zip(words);
        let differences =
            pairs.fold(0, |bits, (loaded, &word)| bits | (loaded ^ u64::from_ne_bytes(word)));
        self.length == key.len() && rest.is_empty() && black_box(differences) == 0
    }

    /// Remembers a key, which is now loaded.
    pub fn set(&mut self, key: &[u8]) {
        // Keys of a session have one length, so the old words are all overwritten.
        for (loaded, &word) in self.words.iter_mut().zip(key.as_chunks().0) {
            *loaded = u64::from_ne_bytes(word);
        }
        self.length = key.len();
    }

    /// Forgets the key, which is no longer loaded.
    pub fn clear(&mut self) {
        self.length = 0;
    }
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
