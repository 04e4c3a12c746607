//! The header of a file.

use std::fmt;

use super::FormatError;

/// The bytes at the start of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    bytes: Box<[u8]>,
}

impl Header {
    /// The bytes; none for a raw key of `openssl enc`.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Joins the parts.
    pub(super) fn new(parts: &[&[u8]]) -> Header {
        Header { bytes: parts.concat().into() }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header({} bytes)", self.bytes.len())
    }
}

/// Fresh bytes from the operating system.
pub(super) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], FormatError> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| FormatError::Random(error.to_string()))?;
    Ok(bytes)
}
