//! Sizes that depend on the cipher.

use evener_core::{Cipher, Direction, Mode};

use crate::kernels::{BLOCK, CHACHA_BLOCK, MESSAGE, STRIPE};

/// The properties of a cipher that matter for the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of a key.
    pub(crate) key: usize,
    /// Bytes of text that a thread processes at a time; `None` if a thread processes a whole
    /// message.
    pub(crate) unit: Option<usize>,
    /// True if the last unit also covers an incomplete one after it (XTS).
    pub(super) steals: bool,
    /// True if a thread can process a slice instead (decryption of 3DES).
    pub(super) slices: bool,
    /// Bytes of a tag; 0 if there is none.
    pub(crate) tag: usize,
    pub(super) opens: bool,
}

impl Shape {
    pub(crate) fn of(cipher: Cipher, direction: Direction) -> Shape {
        let unit = match (cipher.mode(), direction) {
            (Mode::Cbc, Direction::Encrypt) => None,
            (Mode::Cbc, Direction::Decrypt) => Some(cipher.block_length()),
            (Mode::Poly1305, _) => Some(CHACHA_BLOCK),
            _ => Some(BLOCK),
        };
        let steals = cipher.mode() == Mode::Xts;
        let is_decrypted = direction == Direction::Decrypt;
        Shape {
            key: cipher.key_length(),
            unit,
            steals,
            slices: cipher == Cipher::DesEde3Cbc && is_decrypted,
            tag: cipher.tag_length(),
            opens: is_decrypted,
        }
    }

    /// Units of a text of `length` bytes.
    pub(super) fn units(self, length: usize) -> u64 {
        match self.unit {
            None => 1,
            Some(unit) if self.steals => (length / unit) as u64,
            Some(unit) => length.div_ceil(unit) as u64,
        }
    }

    /// Stripes of a message's hash: its blocks, those of the additional data, and one with their
    /// lengths.
    pub(super) fn stripes(self, length: usize, aad: usize) -> u64 {
        match self.tag {
            0 => 0,
            _ => (length.div_ceil(BLOCK) + aad.div_ceil(BLOCK) + 1).div_ceil(STRIPE) as u64,
        }
    }

    /// Bytes of a message that go to the device.
    pub(super) fn up(self, length: usize) -> Option<usize> {
        if self.opens { length.checked_add(self.tag) } else { Some(length) }
    }

    /// Bytes of its result.
    pub(super) fn down(self, length: usize) -> Option<usize> {
        if self.opens { Some(length) } else { length.checked_add(self.tag) }
    }

    /// The most bytes of arena, and of input and output, that a message needs.
    pub(crate) fn need(self, length: usize, aad: usize) -> Option<usize> {
        let text = length.checked_add(self.tag)?.checked_next_multiple_of(BLOCK)?;
        let aad = aad.checked_next_multiple_of(BLOCK)?;
        text.checked_add(aad)?.checked_add(MESSAGE + self.key.next_multiple_of(BLOCK) + 2 * BLOCK)
    }
}
