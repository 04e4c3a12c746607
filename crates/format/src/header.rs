//! The header of a file.

use std::fmt;

use super::FormatError;

/// The bytes at the start of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; Header::MAX_LENGTH],
    length: u8,
}

impl Header {
    /// The longest header of any format, in bytes.
    pub const MAX_LENGTH: usize = 64;

    /// The bytes; none for a raw key of `openssl enc`.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Joins the parts, which fit into [`Header::MAX_LENGTH`].
    pub(super) fn new(parts: &[&[u8]]) -> Header {
        let mut header = Header { bytes: [0; Header::MAX_LENGTH], length: 0 };
        for part in parts {
            let start = usize::from(header.length);
            header.bytes[start..start + part.len()].copy_from_slice(part);
            header.length += part.len() as u8;
        }
        header
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header({} bytes)", self.length)
    }
}

/// Fresh bytes from the operating system.
pub(super) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], FormatError> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| FormatError::Random(error.to_string()))?;
    Ok(bytes)
}
