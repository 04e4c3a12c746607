//! Keys, wiped when dropped.

use std::fmt;

use zeroize::Zeroizing;

/// A key: between 1 and 64 bytes that are zeroised on drop and never printed.
///
/// There is no `PartialEq`: comparing keys in variable time would leak them.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; Key::MAX_LENGTH]>, u8);

impl Key {
    /// The longest key of any cipher (both keys of AES-256-XTS), in bytes.
    pub const MAX_LENGTH: usize = 64;

    /// Copies a key. The caller wipes its own copy.
    ///
    /// Returns `None` unless the length is between 1 and [`Key::MAX_LENGTH`].
    pub fn new(bytes: &[u8]) -> Option<Key> {
        if bytes.is_empty() || bytes.len() > Key::MAX_LENGTH {
            return None;
        }
        let mut kept = Zeroizing::new([0; Key::MAX_LENGTH]);
        kept[..bytes.len()].copy_from_slice(bytes);
        Some(Key(kept, bytes.len() as u8))
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
        assert!(Key::new(&[]).is_none());
        assert!(Key::new(&[0; 65]).is_none());
        assert_eq!(Key::new(&[1; 64]).unwrap().bytes(), &[1; 64]);
    }
}
