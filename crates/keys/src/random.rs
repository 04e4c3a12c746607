//! Randomness for new keys, from the operating system.

use zeroize::Zeroizing;

use super::KeyError;

/// Random bytes for a key.
pub(super) fn bytes<const LENGTH: usize>() -> Result<Zeroizing<[u8; LENGTH]>, KeyError> {
    let mut bytes = Zeroizing::new([0; LENGTH]);
    getrandom::fill(bytes.as_mut()).map_err(|error| KeyError::Random(error.into()))?;
    Ok(bytes)
}

/// A random nonzero number, for an identifier.
pub(super) fn nonzero_u32() -> Result<u32, KeyError> {
    loop {
        match getrandom::u32().map_err(|error| KeyError::Random(error.into()))? {
            0 => {}
            number => return Ok(number),
        }
    }
}
