//! What is checked at the call into a backend itself.
//!
//! A backend reads an IV or a key by the cipher's length, not by ours, and what it does with a
//! shorter one is its own affair: cryptodev-linux takes an empty IV to mean "go on with the last
//! one", and returns success. Jobs have been checked long before, so a misfit is a mistake of the
//! engine; it must be loud, and nothing may be passed on.

use std::io;

/// A length that a backend must not be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it was about to be given {what} of {actual} bytes, where {expected} are right; this is a \
     mistake of Evener's, and nothing was passed on"
)]
pub(crate) struct Misfit {
    what: &'static str,
    expected: usize,
    actual: usize,
}

impl From<Misfit> for io::Error {
    fn from(misfit: Misfit) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, misfit)
    }
}

/// Checks that something has the length that the backend is going to read or write.
pub(crate) fn check(what: &'static str, actual: usize, expected: usize) -> Result<(), Misfit> {
    if actual == expected { Ok(()) } else { Err(Misfit { what, expected, actual }) }
}

/// Checks that a message is whole blocks.
pub(crate) fn check_blocks(length: usize, block: usize) -> Result<(), Misfit> {
    check("a message", length, length / block * block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misfit_says_what_it_is() {
        assert_eq!(check("an IV", 16, 16), Ok(()));
        assert_eq!(check_blocks(48, 16), Ok(()));
        assert!(check_blocks(47, 16).is_err());
        let error = io::Error::from(check("an IV", 0, 16).unwrap_err());
        assert!(error.to_string().contains("an IV of 0 bytes, where 16 are right"), "{error}");
    }
}
