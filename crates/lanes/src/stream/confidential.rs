//! The modes of NIST SP 800-38A, which keep a message secret but do not authenticate it.

use evener_core::{Direction, Mode};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Text;
use super::gcm::{BLOCK, Block};
use crate::kernels::{Kernel, ModeKey};

/// AES in ECB, CBC or CTR with one key, for messages that come in pieces; a [`Chain`] holds the
/// position in a message. The key and everything derived from it are wiped on drop.
pub struct Confidential {
    kernel: Kernel,
    mode: Mode,
    direction: Direction,
    expanded: ModeKey,
    key: RawKey,
}

/// The key as it was given, for the other direction.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct RawKey {
    bytes: [u8; LONGEST_KEY],
    length: usize,
}

/// The position in a message: the input that its next block needs from earlier ones.
#[derive(Clone, Default, Zeroize, ZeroizeOnDrop)]
pub struct Chain {
    /// The IV, and then CBC's last block of ciphertext, or CTR's next counter.
    pub block: Block,
    /// Number of bytes used of CTR's last block, up to 15; 0 if the block is complete.
    pub used: usize,
    /// The cipher of that block's counter.
    pad: Block,
}

impl Chain {
    /// The beginning of a message with this IV or first counter.
    pub fn new(iv: [u8; BLOCK]) -> Chain {
        Chain { block: iv, ..Chain::default() }
    }
}

impl Confidential {
    /// Sets a key of 16, 24 or 32 bytes; `None` if it has another length, the kernel does not
    /// support the mode, or there is no memory.
    pub fn new(
        kernel: Kernel,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<Confidential> {
        let mut place = None;
        Confidential::put(&mut place, kernel, mode, direction, key)?;
        place
    }

    /// Does the same as [`Confidential::new`] in place, and leaves `None` there on failure. A
    /// return value would be moved, and moving leaves copies of the key behind.
    pub fn put(
        place: &mut Option<Confidential>,
        kernel: Kernel,
        mode: Mode,
        direction: Direction,
        key: &[u8],
    ) -> Option<()> {
        *place = None;
        let expanded = ModeKey::empty(kernel, mode, direction, key.len())?;
        let key_room = RawKey { bytes: [0; LONGEST_KEY], length: key.len() };
        let confidential = Confidential { kernel, mode, direction, expanded, key: key_room };
        let is_set = place.insert(confidential).set_key(direction, key);
        if is_set.is_none() {
            *place = None;
        }
        is_set
    }

    /// A copy; `None` if there is no memory for it.
    pub fn try_clone(&self) -> Option<Confidential> {
        let (expanded, key) = (self.expanded.try_clone()?, self.key.clone());
        Some(Confidential { expanded, key, ..*self })
    }

    /// Replaces the key and the direction; `None`, without a change, if the key's length differs
    /// from the old one's.
    pub fn set_key(&mut self, direction: Direction, key: &[u8]) -> Option<()> {
        if key.len() != self.key.length {
            return None;
        }
        self.expanded.set(self.kernel, self.mode, direction, key)?;
        self.key.bytes.get_mut(..key.len())?.copy_from_slice(key);
        self.direction = direction;
        Some(())
    }

    /// Changes the direction.
    pub fn set_direction(&mut self, direction: Direction) -> Option<()> {
        if direction != self.direction && self.mode != Mode::Ctr {
            let key = self.key.bytes.get(..self.key.length)?;
            self.expanded.set(self.kernel, self.mode, direction, key)?;
        }
        self.direction = direction;
        Some(())
    }

    /// Encrypts or decrypts the next part of a message, which is whole blocks except for CTR;
    /// `None`, without a change, if it is not, or if there is no room for the result.
    pub fn transform(&self, chain: &mut Chain, mut text: Text<'_>) -> Option<()> {
        let length = text.length()?;
        if self.mode == Mode::Ctr {
            self.count(chain, &mut text, length);
            return Some(());
        }
        if !length.is_multiple_of(BLOCK) {
            return None;
        }
        let Some(last) = length.checked_sub(BLOCK) else { return Some(()) };
        let before = chain.block;
        if self.mode == Mode::Cbc && self.direction == Direction::Decrypt {
            chain.block = *text.input()[last..].first_chunk()?;
        }
        self.expanded.transform(before, &mut text, 0, length);
        if self.mode == Mode::Cbc && self.direction == Direction::Encrypt {
            chain.block = *text.output()[last..].first_chunk()?;
        }
        Some(())
    }

    /// CTR: first the rest of the last block, then whole blocks, then a part of one.
    fn count(&self, chain: &mut Chain, text: &mut Text<'_>, length: usize) {
        let mut done = 0;
        if chain.used > 0 {
            done = length.min(BLOCK - chain.used);
            text.add(0, &chain.pad[chain.used..][..done], |_, _, _| {});
            chain.used = (chain.used + done) % BLOCK;
        }
        let whole = (length - done) / BLOCK * BLOCK;
        if whole > 0 {
            self.expanded.transform(chain.block, text, done, whole);
            chain.advance((whole / BLOCK) as u128);
            done += whole;
        }
        if done < length {
            chain.pad = Block::default();
            let counter = chain.block;
            self.expanded.transform(counter, &mut Text::InPlace(&mut chain.pad), 0, BLOCK);
            chain.advance(1);
            chain.used = length - done;
            text.add(done, &chain.pad[..chain.used], |_, _, _| {});
        }
    }
}

impl Chain {
    fn advance(&mut self, blocks: u128) {
        self.block = u128::from_be_bytes(self.block).wrapping_add(blocks).to_be_bytes();
    }
}

/// Length of AES's longest key in bytes.
const LONGEST_KEY: usize = 32;
