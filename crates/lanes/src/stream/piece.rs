//! The data that a kernel gets for a message that comes in pieces.

#![cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    allow(dead_code, reason = "no kernel reads them")
)]

use std::marker::PhantomData;

use evener_core::wipe;

use super::gcm::{BLOCK, Block};

/// Bytes of a message, and the destination of their result.
pub enum Text<'a> {
    /// The result replaces them.
    InPlace(&'a mut [u8]),
    /// The result goes to another place, which has room for at least as many bytes.
    Apart(&'a [u8], &'a mut [u8]),
    /// The bytes begin at this offset in the slice, and their result goes to the slice's beginning.
    /// Only [`Confidential`](super::Confidential) accepts this.
    Down(&'a mut [u8], usize),
}

impl Text<'_> {
    /// Number of bytes; `None` when there is no room for the result.
    #[inline]
    pub(super) fn length(&self) -> Option<usize> {
        match self {
            Text::InPlace(text) => Some(text.len()),
            Text::Apart(input, output) => (output.len() >= input.len()).then_some(input.len()),
            Text::Down(all, by) => all.len().checked_sub(*by),
        }
    }

    /// The bytes, until they are replaced.
    pub(super) fn input(&self) -> &[u8] {
        match self {
            Text::InPlace(text) => text,
            Text::Apart(input, _) => input,
            Text::Down(all, by) => &all[*by..],
        }
    }

    /// The result, which may have room after it.
    pub(super) fn output(&self) -> &[u8] {
        match self {
            Text::InPlace(text) => text,
            Text::Apart(_, output) => output,
            Text::Down(all, _) => all,
        }
    }

    /// Adds `pad` to the bytes from `start` on, and passes each old and new byte to `each`.
    pub(super) fn add(&mut self, start: usize, pad: &[u8], mut each: impl FnMut(usize, u8, u8)) {
        for (place, pad) in pad.iter().enumerate() {
            let at = start + place;
            let (before, after) = match self {
                Text::InPlace(text) => {
                    let before = text[at];
                    text[at] ^= pad;
                    (before, text[at])
                }
                Text::Apart(input, output) => {
                    output[at] = input[at] ^ pad;
                    (input[at], output[at])
                }
                Text::Down(all, by) => {
                    let before = all[at + *by];
                    all[at] = before ^ pad;
                    (before, all[at])
                }
            };
            each(place, before, after);
        }
    }

    /// The addresses of `length` bytes from `start` on, which must exist, and of their result,
    /// which is apart from them or does not begin after them.
    #[inline(always)]
    pub(crate) fn places(&mut self, start: usize, length: usize) -> (*const u8, *mut u8) {
        match self {
            Text::InPlace(text) => {
                let output = text[start..][..length].as_mut_ptr();
                (output.cast_const(), output)
            }
            Text::Apart(input, output) => {
                (input[start..][..length].as_ptr(), output[start..][..length].as_mut_ptr())
            }
            Text::Down(all, by) => {
                let output = all[start..][..*by + length].as_mut_ptr();
                (output.wrapping_add(*by).cast_const(), output)
            }
        }
    }
}

/// A part of a message's text that begins with a block, and the message's state there. Blocks stay
/// in the message: a copy of a block just written waits for the write, which took 7 ns of a short
/// record's 120.
pub(crate) struct Piece<'t> {
    /// `length` bytes to read.
    pub(crate) input: *const u8,
    /// `length` bytes to write to: the same ones, or different ones.
    pub(crate) output: *mut u8,
    /// Length in bytes.
    pub(crate) length: usize,
    /// The first block's counter as two big-endian numbers. Its lower 32 bits don't wrap before the
    /// last block's.
    pub(crate) counter: (u64, u64),
    /// The hash so far, ahead and with its bytes reversed; afterwards it includes the whole blocks
    /// of the piece.
    pub(crate) hash: &'t mut Block,
    /// A block to hash before the piece.
    pub(crate) prefix: Option<&'t Block>,
    /// The message's first counter block if its cipher is to be computed too, and the place of that
    /// cipher.
    pub(crate) first: Option<(u64, u64)>,
    pub(crate) tag_pad: &'t mut Block,
    /// Set if the piece does not end with a block.
    pub(crate) rest: &'t mut Rest,
    pub(super) text: PhantomData<&'t mut [u8]>,
}

/// The state after a piece's last whole block.
pub(crate) struct Rest {
    /// The last register of ciphertext, padded with zeros.
    pub(crate) ciphertext: [u8; WIDEST],
    /// The pad that was added to its text.
    pub(crate) pad: [u8; WIDEST],
}

impl Rest {
    pub(super) fn new() -> Rest {
        Rest { ciphertext: [0; WIDEST], pad: [0; WIDEST] }
    }

    /// Moves the ciphertext of the incomplete block, padded with zeros, and the cipher of its
    /// counter to the message's fields. `length` is the piece's number of bytes, and `registers`
    /// that of a kernel's registers.
    pub(super) fn keep(
        &mut self,
        length: usize,
        registers: usize,
        ciphertext: &mut Block,
        pad: &mut Block,
    ) {
        let place = length % registers / BLOCK * BLOCK;
        ciphertext.copy_from_slice(&self.ciphertext[place..][..BLOCK]);
        pad.copy_from_slice(&self.pad[place..][..BLOCK]);
        wipe(&mut self.pad);
    }
}

/// The remaining input of a message after its last piece.
pub(crate) struct End<'m> {
    /// The hash so far, ahead and with its bytes reversed.
    pub(crate) hash: &'m Block,
    /// A block still to be hashed, and the block of lengths, as two big-endian numbers.
    pub(crate) rest: Option<&'m Block>,
    pub(crate) lengths: (u64, u64),
    pub(crate) pad: Pad<'m>,
}

/// The block that hides a tag.
#[derive(Clone, Copy)]
pub(crate) enum Pad<'m> {
    Made(&'m Block),
    /// The cipher of this counter block, as two big-endian numbers.
    Of((u64, u64)),
    /// Nothing: the caller needs the hash itself.
    None,
}

/// Length of the longest registers in bytes, for the search for a block in them.
pub(crate) const WIDEST: usize = 64;
