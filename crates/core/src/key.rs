//! Keys, wiped when dropped.

use std::fmt;

use zeroize::Zeroizing;

/// A key of 1 to 64 bytes, zeroised on drop and never printed.
///
/// ```
/// # extern crate evener_core as evener;
/// use evener::Key;
///
/// let key = Key::new(&[7; 32])?; // (A real key is random.)
/// assert_eq!(format!("{key:?}"), "Key(32 bytes, redacted)");
/// assert!(Key::new(&[7; 100]).is_err());
/// # Ok::<(), evener::InvalidKey>(())
/// ```
///
/// There is no `PartialEq`: comparing keys in variable time would leak them.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; Key::MAX_LENGTH]>, u8);

impl Key {
    /// The longest key of any cipher (both keys of AES-256-XTS), in bytes.
    pub const MAX_LENGTH: usize = 64;

    /// Copies a key. The caller wipes its own copy.
    ///
    /// # Errors
    /// When the length is not between 1 and [`Key::MAX_LENGTH`].
    pub fn new(bytes: &[u8]) -> Result<Key, InvalidKey> {
        if bytes.is_empty() || bytes.len() > Key::MAX_LENGTH {
            return Err(InvalidKey { length: bytes.len() });
        }
        let mut kept = Zeroizing::new([0; Key::MAX_LENGTH]);
        kept[..bytes.len()].copy_from_slice(bytes);
        Ok(Key(kept, bytes.len() as u8))
    }

    /// The key's bytes. The caller wipes the copies that it makes.
    pub fn bytes(&self) -> &[u8] {
        &self.0[..usize::from(self.1)]
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a key is never empty")]
    pub fn len(&self) -> usize {
        usize::from(self.1)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes, redacted)", self.len())
    }
}

/// A key that is too short or too long for every cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to {} bytes, not {length}", Key::MAX_LENGTH)]
#[non_exhaustive]
pub struct InvalidKey {
    /// In bytes.
    pub length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_bytes() {
        let key = Key::new(&[0xAB; 16]).unwrap();
        assert_eq!(format!("{key:?}"), "Key(16 bytes, redacted)");
    }

    #[test]
    fn length_is_bounded() {
        assert_eq!(Key::new(&[]).unwrap_err(), InvalidKey { length: 0 });
        assert_eq!(Key::new(&[0; 65]).unwrap_err().to_string(), "a key has 1 to 64 bytes, not 65");
        assert_eq!(Key::new(&[1; 64]).unwrap().bytes(), &[1; 64]);
    }
}
