//! Keys of ciphers, wiped when freed.

pub(crate) mod sys;

use facade::{Cipher, Key};
use zeroize::Zeroizing;

use crate::status::{Status, Trouble};

/// A raw key of a cipher. `evener_key_free` wipes it.
pub struct KeyHandle {
    pub(crate) key: Key,
}

impl KeyHandle {
    pub(crate) fn copied(bytes: &[u8]) -> Result<KeyHandle, Trouble> {
        let key =
            Key::new(bytes).map_err(|error| Trouble::new(Status::InvalidKey, error.to_string()))?;
        Ok(KeyHandle { key })
    }

    pub(crate) fn generated(cipher: Cipher) -> Result<KeyHandle, Trouble> {
        let mut bytes = Zeroizing::new([0; Key::MAX_LENGTH]);
        let bytes = &mut bytes[..cipher.key_length()];
        getrandom::fill(bytes).map_err(|error| {
            Trouble::new(Status::Internal, format!("the system has no randomness: {error}"))
        })?;
        KeyHandle::copied(bytes)
    }
}
