//! GCM (NIST SP 800-38D) of one message after another under one key.

use std::marker::PhantomData;

use evener_core::{Direction, wipe_stack};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{End, Pad, Piece, Rest, Text};
use crate::kernels::{Kernel, Keyed};

/// Length of a tag in bytes; shorter tags are its beginning.
pub const TAG_LENGTH: usize = 16;

/// The unit of AES.
pub(super) type Block = [u8; BLOCK];

/// AES in GCM with one key, for messages that come in pieces of any length: [`Gcm::start`],
/// additional data, text, and at the end [`Gcm::tag`] or [`Gcm::verify`]. Decryption returns the
/// text before the message is known to be genuine.
///
/// Each IV may be used once with a key; the caller must ensure that. Keys and everything derived
/// from them are wiped on drop, and from the stack (in a release build) before a call returns.
pub struct Gcm {
    keyed: Keyed,
    message: Message,
}

/// The position in a message.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Message {
    #[zeroize(skip)]
    phase: Phase,
    /// The first counter block, as two big-endian numbers.
    first: (u64, u64),
    has_secret_counters: bool,
    /// The hash so far, in the kernel's form.
    hash: Block,
    /// The block that hides the tag, once it was made.
    tag_pad: Block,
    has_tag_pad: bool,
    /// The first bytes of the next block to hash, additional data or ciphertext, then zeros; and
    /// their number, up to 16.
    buffer: Block,
    buffered: usize,
    /// The cipher of the counter of the text's last block, if that block is incomplete.
    pad: Block,
    /// In bytes.
    aad_length: u64,
    text_length: u64,
}

/// The input that a message accepts next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no message.
    None,
    /// Additional data, or text.
    Data,
    Text,
}

impl Gcm {
    /// Sets a key of 16, 24 or 32 bytes; `None` if it has another length, the kernel does not
    /// support GCM, or there is no memory.
    pub fn new(kernel: Kernel, key: &[u8]) -> Option<Gcm> {
        Some(Gcm { keyed: Keyed::new(kernel, key)?, message: Message::none() })
    }

    /// A copy that continues independently from the same position; `None` if there is no memory for
    /// it.
    pub fn try_clone(&self) -> Option<Gcm> {
        Some(Gcm { keyed: self.keyed.try_clone()?, message: self.message.clone() })
    }

    /// Replaces the key by one of the same length and abandons the message; `None`, without a
    /// change, if the length differs.
    pub fn set_key(&mut self, key: &[u8]) -> Option<()> {
        self.keyed.set(key)?;
        self.message = Message::none();
        Some(())
    }

    /// Starts a message and abandons the one before. `None`, without a change, if the IV is empty.
    pub fn start(&mut self, iv: &[u8]) -> Option<()> {
        match *iv {
            [] => return None,
            [a, b, c, d, e, f, g, h, i, j, k, l] => {
                let low = u64::from(u32::from_be_bytes([i, j, k, l]));
                let first = (u64::from_be_bytes([a, b, c, d, e, f, g, h]), low << 32 | 1);
                self.message.start(first, false);
            }
            _ => {
                self.start_hashed(iv);
                wipe_stack::<STACK>();
            }
        }
        Some(())
    }

    /// Starts a message with an IV whose length is not 12 bytes. Its first counter block reveals
    /// the subkey, the only secret in it. A separate function, so that its variables are where the
    /// stack is wiped.
    #[inline(never)]
    fn start_hashed(&mut self, iv: &[u8]) {
        let mut hash = Block::default();
        self.keyed.hash(&mut hash, iv);
        let lengths = lengths(0, iv.len() as u64);
        let hash = self.keyed.finish(&End { hash: &hash, rest: None, lengths, pad: Pad::None });
        let first = u128::from_be_bytes(hash);
        self.message.start(((first >> 64) as u64, first as u64), true);
    }

    /// Adds additional data. `None`, without a change, when there is no message, its text has
    /// begun, or the data are longer than the standard allows (2⁶¹ - 1 bytes).
    pub fn add_data(&mut self, mut data: &[u8]) -> Option<()> {
        let Gcm { keyed, message } = self;
        let length = message.aad_length.checked_add(data.len() as u64)?;
        if message.phase != Phase::Data || length > LONGEST_DATA {
            return None;
        }
        message.aad_length = length;
        if message.buffered + data.len() > BLOCK {
            if message.buffered > 0 {
                let (front, rest) = data.split_at(BLOCK - message.buffered);
                message.buffer[message.buffered..].copy_from_slice(front);
                keyed.hash(&mut message.hash, &message.buffer);
                data = rest;
            }
            // The last block waits for what comes next.
            let whole = data.len().saturating_sub(1) / BLOCK * BLOCK;
            keyed.hash(&mut message.hash, &data[..whole]);
            data = &data[whole..];
            message.take_buffer();
        }
        message.buffer[message.buffered..][..data.len()].copy_from_slice(data);
        message.buffered += data.len();
        Some(())
    }

    /// Encrypts or decrypts the next part of the message, in place or apart. `None`, without a
    /// change, when there is no message, no room for the result or no memory, or when the message
    /// would be longer than the standard allows (2³⁶ - 32 bytes).
    pub fn transform(&mut self, direction: Direction, text: Text<'_>) -> Option<()> {
        let result = self.transform_text(direction, text);
        self.wipe_counters();
        result
    }

    /// A separate function, so that its variables are where the stack is wiped.
    #[inline(never)]
    fn transform_text(&mut self, direction: Direction, mut text: Text<'_>) -> Option<()> {
        let Gcm { keyed, message } = self;
        let length = text.length()?;
        let total = message.text_length.checked_add(length as u64)?;
        let is_down = matches!(text, Text::Down(..));
        if message.phase == Phase::None || total > LONGEST_TEXT || is_down {
            return None;
        }
        if length == 0 {
            return Some(());
        }
        keyed.make_room(length)?;
        let mut done = message.begin_with_block(direction, &mut text, length);
        while done < length {
            // A complete block that precedes this one may be buffered: additional data, or the text
            // before.
            let (counter, until_wrap) = message.next_counter();
            let run = until_wrap.min((length - done) as u64) as usize;
            let (input, output) = text.places(done, run);
            let mut rest = Rest::new();
            let mut piece = Piece {
                input,
                output,
                length: run,
                counter,
                hash: &mut message.hash,
                prefix: (message.buffered > 0).then_some(&message.buffer),
                first: (!message.has_tag_pad).then_some(message.first),
                tag_pad: &mut message.tag_pad,
                rest: &mut rest,
                text: PhantomData,
            };
            keyed.transform(direction, &mut piece);
            message.has_tag_pad = true;
            message.buffered = run % BLOCK;
            if message.buffered > 0 {
                rest.keep(run, keyed.registers(), &mut message.buffer, &mut message.pad);
            } else {
                message.buffer = Block::default();
            }
            message.text_length += run as u64;
            done += run;
        }
        Some(())
    }

    /// The counter block of the next text, if another engine can encrypt or decrypt this many bytes
    /// of it, whole blocks, in CTR; call [`Gcm::add_ciphertext`] for them afterwards. `None` if it
    /// can't: there is no message, its text ends within a block, the lower 32 bits of the counter
    /// would wrap, or the message would be too long.
    pub fn counter(&self, length: usize) -> Option<[u8; BLOCK]> {
        let message = &self.message;
        let length = length as u64;
        let total = message.text_length.checked_add(length)?;
        let ((high, low), until_wrap) = message.next_counter();
        let is_whole =
            message.text_length.is_multiple_of(BLOCK as u64) && length.is_multiple_of(BLOCK as u64);
        let can_be_done = message.phase != Phase::None
            && is_whole
            && length <= until_wrap
            && total <= LONGEST_TEXT;
        can_be_done.then(|| (u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }

    /// The block that CTR adds to the block of text with this counter block.
    pub fn pad(&mut self, counter: [u8; BLOCK]) -> [u8; BLOCK] {
        let counter = u128::from_be_bytes(counter);
        let pad = Pad::Of(((counter >> 64) as u64, counter as u64));
        // The kernel adds the hash of nothing, which is zero.
        self.keyed.finish(&End { hash: &Block::default(), rest: None, lengths: (0, 0), pad })
    }

    /// Continues after text that another engine has encrypted or decrypted from [`Gcm::counter`]
    /// on. `None`, without a change, if that returns `None`.
    pub fn add_ciphertext(&mut self, ciphertext: &[u8]) -> Option<()> {
        self.counter(ciphertext.len())?;
        let Gcm { keyed, message } = self;
        message.phase = Phase::Text;
        if let Some(block) = message.take_buffer() {
            keyed.hash(&mut message.hash, &block);
        }
        keyed.hash(&mut message.hash, ciphertext);
        message.text_length += ciphertext.len() as u64;
        Some(())
    }

    /// Wipes counter blocks from the stack if they are secret.
    fn wipe_counters(&self) {
        if self.message.has_secret_counters {
            wipe_stack::<STACK>();
        }
    }

    /// Ends the message and returns its tag; `None` when there is no message.
    pub fn tag(&mut self) -> Option<[u8; TAG_LENGTH]> {
        let tag = self.make_tag();
        self.wipe_counters();
        tag
    }

    /// A separate function, so that its variables are where the stack is wiped.
    #[inline(never)]
    fn make_tag(&mut self) -> Option<[u8; TAG_LENGTH]> {
        let Gcm { keyed, message } = self;
        if message.phase == Phase::None {
            return None;
        }
        let pad = match message.has_tag_pad {
            false => Pad::Of(message.first),
            true => Pad::Made(&message.tag_pad),
        };
        let tag = keyed.finish(&End {
            hash: &message.hash,
            rest: (message.buffered > 0).then_some(&message.buffer),
            lengths: lengths(message.aad_length, message.text_length),
            pad,
        });
        message.take_buffer();
        message.phase = Phase::None;
        Some(tag)
    }

    /// Ends the message and returns whether this is the beginning of its tag, in a time that does
    /// not depend on the answer. A tag of no bytes, or of more than [`TAG_LENGTH`], never is.
    /// `None` when there is no message.
    pub fn verify(&mut self, tag: &[u8]) -> Option<bool> {
        let is_genuine = self.compare(tag)?;
        self.wipe_counters();
        if !is_genuine {
            // Wipes the right tag, which the author of a wrong one does not know.
            wipe_stack::<STACK>();
        }
        Some(is_genuine)
    }

    /// A separate function, so that its variables are where the stack is wiped.
    #[inline(never)]
    fn compare(&mut self, tag: &[u8]) -> Option<bool> {
        let mut right = self.make_tag()?;
        let difference = right.iter().zip(tag).fold(0, |sum, (right, tag)| sum | (right ^ tag));
        right.zeroize();
        let is_zero = std::hint::black_box(difference) == 0;
        Some(is_zero && (1..=TAG_LENGTH).contains(&tag.len()))
    }
}

impl Message {
    fn none() -> Message {
        Message {
            phase: Phase::None,
            first: (0, 0),
            has_secret_counters: false,
            hash: Block::default(),
            tag_pad: Block::default(),
            has_tag_pad: false,
            buffer: Block::default(),
            buffered: 0,
            pad: Block::default(),
            aad_length: 0,
            text_length: 0,
        }
    }

    /// Starts again. The other fields of the message before are overwritten later.
    fn start(&mut self, first: (u64, u64), has_secret_counters: bool) {
        self.phase = Phase::Data;
        self.first = first;
        self.has_secret_counters = has_secret_counters;
        self.hash = Block::default();
        self.take_buffer();
        self.has_tag_pad = false;
        (self.aad_length, self.text_length) = (0, 0);
    }

    /// Processes the bytes that complete a block begun by the text before. Returns their number.
    fn begin_with_block(
        &mut self,
        direction: Direction,
        text: &mut Text<'_>,
        length: usize,
    ) -> usize {
        if self.phase == Phase::Data {
            self.phase = Phase::Text;
            return 0;
        }
        let start = (self.text_length % BLOCK as u64) as usize;
        if start == 0 {
            return 0;
        }
        let count = length.min(BLOCK - start);
        let buffer = &mut self.buffer[start..];
        text.add(0, &self.pad[start..][..count], |place, before, after| {
            buffer[place] = match direction {
                Direction::Encrypt => after,
                Direction::Decrypt => before,
            };
        });
        self.buffered = start + count;
        self.text_length += count as u64;
        count
    }

    /// Returns the buffered bytes, padded with zeros, and empties the buffer.
    fn take_buffer(&mut self) -> Option<Block> {
        let block = std::mem::take(&mut self.buffer);
        (std::mem::take(&mut self.buffered) > 0).then_some(block)
    }

    /// The counter of the next block, and the number of bytes from its beginning until its lower 32
    /// bits wrap.
    fn next_counter(&self) -> ((u64, u64), u64) {
        let (high, low) = self.first;
        let blocks = (self.text_length / BLOCK as u64) as u32;
        let counter = (low as u32).wrapping_add(1).wrapping_add(blocks);
        let until_wrap = (1 << 32) - u64::from(counter);
        ((high, low & !u64::from(u32::MAX) | u64::from(counter)), until_wrap * BLOCK as u64)
    }
}

/// The block of lengths, given in bytes, as two big-endian numbers.
fn lengths(aad: u64, text: u64) -> (u64, u64) {
    (aad << 3, text << 3)
}

/// Length of a block in bytes.
pub(super) const BLOCK: usize = 16;

/// The number of bytes of the stack on which its functions leave counter blocks and tags.
const STACK: usize = 2 << 10;

/// The most additional data and text of a message, in bytes (NIST SP 800-38D, section 5.2.1.1).
const LONGEST_DATA: u64 = (1 << 61) - 1;
const LONGEST_TEXT: u64 = (1 << 36) - 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::available;

    #[test]
    fn a_message_ends_once_and_takes_no_data_after_its_text() {
        let Some(mut gcm) = available().into_iter().find_map(|kernel| Gcm::new(kernel, &[1; 16]))
        else {
            evener_core::skipped!("no kernel does GCM on this CPU");
            return;
        };
        assert!(gcm.add_data(b"data").is_none() && gcm.tag().is_none());
        assert!(gcm.start(&[]).is_none());
        gcm.start(&[2; 12]).unwrap();
        gcm.transform(Direction::Encrypt, Text::InPlace(&mut [0; 20])).unwrap();
        assert!(gcm.add_data(b"late").is_none());
        assert!(gcm.tag().is_some() && gcm.tag().is_none());
        let mut text = [7; 20];
        assert!(gcm.transform(Direction::Encrypt, Text::InPlace(&mut text)).is_none());
        assert_eq!(text, [7; 20]);
        assert!(gcm.set_key(&[1; 24]).is_none());
        gcm.start(&[2; 12]).unwrap();
        assert!(
            gcm.transform(Direction::Encrypt, Text::Apart(&[0; 20], &mut text[..19])).is_none()
        );
        assert_eq!(gcm.verify(&[]), Some(false));
    }

    #[test]
    fn the_counter_wraps_at_32_bits() {
        let mut message = Message { first: (5, 6 << 32 | 0xFFFF_FFFE), ..Message::none() };
        assert_eq!(message.next_counter(), ((5, 6 << 32 | 0xFFFF_FFFF), 16));
        message.text_length = 16;
        assert_eq!(message.next_counter(), ((5, 6 << 32), 16 << 32));
    }
}
