//! The operations on files.

use evener_core::Direction;

/// An operation on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Encrypt files.
    Encrypt,
    /// Decrypt files.
    Decrypt,
    /// Decrypt files and write nothing.
    Verify,
}

impl Operation {
    /// The direction in which engines work.
    pub fn direction(self) -> Direction {
        match self {
            Operation::Encrypt => Direction::Encrypt,
            Operation::Decrypt | Operation::Verify => Direction::Decrypt,
        }
    }

    /// The name, such as `encrypt`.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Encrypt => "encrypt",
            Operation::Decrypt => "decrypt",
            Operation::Verify => "verify",
        }
    }
}
