//! The length checks directly at the call into a backend.
//!
//! A backend reads as many bytes of an IV or key as the cipher has. A shorter one may have any
//! effect: cryptodev-linux continues with the previous IV if it gets an empty one, and returns
//! success. Jobs were checked long before, so a wrong length here is a bug of the engine. It must
//! be an error, and no result may be passed on.

use std::io;

/// A length that must not reach a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Evener was about to pass {what} of {actual} bytes instead of {expected}, which is a bug in \
     Evener; nothing was passed on"
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

/// Checks that a slice has the length that the backend will read or write.
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
        assert!(error.to_string().contains("an IV of 0 bytes instead of 16"), "{error}");
    }
}
