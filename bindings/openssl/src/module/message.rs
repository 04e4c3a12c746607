//! A message that the CPU computes, and of which a module can compute a part.

use evener_core::{Cipher, Direction, Mode};
use evener_lanes::stream::{Chain, Confidential, Gcm, Text};

use super::route::BLOCK;

/// An AES block.
pub(super) type Block = [u8; BLOCK];

/// The part of a kind of message that a module computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// AES in CTR. The CPU computes the tag.
    Gcm,
    /// AES in CBC.
    Cbc(Direction),
}

impl Work {
    pub(super) const ALL: [Work; 3] =
        [Work::Gcm, Work::Cbc(Direction::Encrypt), Work::Cbc(Direction::Decrypt)];

    /// Its place in [`Work::ALL`].
    pub(super) fn index(self) -> usize {
        match self {
            Work::Gcm => 0,
            Work::Cbc(Direction::Encrypt) => 1,
            Work::Cbc(Direction::Decrypt) => 2,
        }
    }

    /// The module's cipher for keys of this many bytes.
    pub(super) fn cipher(self, key_length: usize) -> Option<Cipher> {
        Some(match (self, key_length) {
            (Work::Gcm, 16) => Cipher::Aes128Ctr,
            (Work::Gcm, 24) => Cipher::Aes192Ctr,
            (Work::Gcm, 32) => Cipher::Aes256Ctr,
            (Work::Cbc(_), 16) => Cipher::Aes128Cbc,
            (Work::Cbc(_), 24) => Cipher::Aes192Cbc,
            (Work::Cbc(_), 32) => Cipher::Aes256Cbc,
            _ => return None,
        })
    }

    /// The mode of its messages.
    pub(super) fn mode(self) -> Mode {
        match self {
            Work::Gcm => Mode::Gcm,
            Work::Cbc(_) => Mode::Cbc,
        }
    }

    /// CTR decryption is the same as encryption.
    pub(super) fn direction(self) -> Direction {
        match self {
            Work::Gcm => Direction::Encrypt,
            Work::Cbc(direction) => direction,
        }
    }
}

/// A message in the middle of its text.
pub(crate) trait Message {
    /// The IV for a module that computes the next `length` bytes; `None` if no module can.
    fn iv(&self, length: usize) -> Option<Block>;

    /// Returns whether one block of a module's result, which began with this IV, is right. The tag
    /// does not show this: it is computed from the ciphertext, wrong or right.
    fn is_right(&mut self, iv: Block, input: &[Block], output: &[Block], index: usize) -> bool;

    /// Advances past bytes that a module has computed. `None`, without advancing, where
    /// [`Message::iv`] is `None`.
    fn go_on(&mut self, input: &[u8], output: &[u8]) -> Option<()>;

    /// Encrypts or decrypts the next bytes on the CPU.
    fn transform(&mut self, text: Text<'_>) -> Option<()>;
}

/// A message in GCM.
pub(crate) struct InGcm<'g>(pub(crate) &'g mut Gcm, pub(crate) Direction);

impl Message for InGcm<'_> {
    fn iv(&self, length: usize) -> Option<Block> {
        self.0.counter(length)
    }

    fn is_right(&mut self, iv: Block, input: &[Block], output: &[Block], index: usize) -> bool {
        let counter = u128::from_be_bytes(iv).wrapping_add(index as u128);
        let pad = self.0.pad(counter.to_be_bytes());
        let sum = u128::from_ne_bytes(input[index]) ^ u128::from_ne_bytes(pad);
        // A single comparison, since plaintext is secret.
        sum == u128::from_ne_bytes(output[index])
    }

    fn go_on(&mut self, input: &[u8], output: &[u8]) -> Option<()> {
        self.0.add_ciphertext(match self.1 {
            Direction::Encrypt => output,
            Direction::Decrypt => input,
        })
    }

    fn transform(&mut self, text: Text<'_>) -> Option<()> {
        self.0.transform(self.1, text)
    }
}

/// A message in CBC.
pub(crate) struct InCbc<'c> {
    pub(crate) cipher: &'c Confidential,
    pub(crate) chain: &'c mut Chain,
    pub(crate) direction: Direction,
}

impl InCbc<'_> {
    /// The blocks of ciphertext.
    fn ciphertext<'t, T: ?Sized>(&self, input: &'t T, output: &'t T) -> &'t T {
        match self.direction {
            Direction::Encrypt => output,
            Direction::Decrypt => input,
        }
    }
}

impl Message for InCbc<'_> {
    fn iv(&self, length: usize) -> Option<Block> {
        length.is_multiple_of(BLOCK).then_some(self.chain.block)
    }

    fn is_right(&mut self, iv: Block, input: &[Block], output: &[Block], index: usize) -> bool {
        let ciphertext = self.ciphertext(input, output);
        let before = index.checked_sub(1).map_or(iv, |before| ciphertext[before]);
        let mut chain = Chain::new(before);
        let mut block = input[index];
        let done = self.cipher.transform(&mut chain, Text::InPlace(&mut block));
        done.is_some() && u128::from_ne_bytes(block) == u128::from_ne_bytes(output[index])
    }

    fn go_on(&mut self, input: &[u8], output: &[u8]) -> Option<()> {
        self.chain.block = *self.ciphertext(input, output).last_chunk()?;
        Some(())
    }

    fn transform(&mut self, text: Text<'_>) -> Option<()> {
        self.cipher.transform(self.chain, text)
    }
}
