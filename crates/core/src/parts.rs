//! Divides messages of ECB, CBC and CTR into parts of a size that a backend accepts.
//!
//! The IV of the next part is computed here, because not every driver returns it.

use zeroize::Zeroizing;

use crate::{Cipher, Direction, Iv, Job, Mode, Padding, Rejection, padding};

/// The progress of a message.
pub struct Parts {
    cipher: Cipher,
    direction: Direction,
    /// The finished part of the output, in bytes.
    done: usize,
    length: usize,
    iv: Iv,
    /// The end of the part that was taken last, and the IV of the next part if that IV is a block
    /// of the input. It is copied early because a backend in this process may overwrite its input.
    following: Option<(usize, Iv)>,
}

/// A part of a message: whole blocks, unless it is the last.
pub struct Part<'m> {
    /// The IV that continues the part before.
    pub iv: Iv,
    /// The message's bytes in this part.
    pub message: &'m [u8],
    /// As long as the message, plus the padding, if any. Never empty.
    pub output: &'m mut [u8],
    block: usize,
}

impl Parts {
    /// The parts of a checked job.
    pub fn of(job: &Job<'_>, cipher: Cipher, direction: Direction) -> Parts {
        let length = job.output_length(cipher, direction);
        Parts { cipher, direction, done: 0, length, iv: job.iv, following: None }
    }

    /// The next part, of at most `most` bytes, which is a number of whole blocks.
    pub fn next<'m>(&mut self, job: &'m mut Job<'_>, most: usize) -> Option<Part<'m>> {
        let end = self.length.min(self.done.saturating_add(most));
        self.following = match (self.cipher.mode(), self.direction) {
            (Mode::Cbc, Direction::Decrypt) => {
                Some((end, last_block(&job.input[..end], self.cipher.block_length())))
            }
            _ => None,
        };
        self.ready(job, most).next()
    }

    /// The parts that can be processed now, in any order: all remaining ones, or only the next if
    /// each part needs the previous result.
    pub fn ready<'m>(&self, job: &'m mut Job<'_>, most: usize) -> impl Iterator<Item = Part<'m>> {
        let &Parts { cipher, direction, done, length, iv, .. } = self;
        let (mode, block) = (cipher.mode(), cipher.block_length());
        let is_chain = (mode, direction) == (Mode::Cbc, Direction::Encrypt);
        let input = job.input;
        let parts = job.output[done..length].chunks_mut(most).enumerate();
        parts.take(if is_chain { 1 } else { usize::MAX }).map(move |(index, output)| {
            let start = done + index * most;
            let end = input.len().min(start + output.len());
            let iv = match mode {
                _ if index == 0 => iv,
                Mode::Ctr => iv.advanced((index * (most / COUNTER_BLOCK)) as u64),
                Mode::Cbc => last_block(&input[..start], block),
                _ => iv,
            };
            Part { iv, message: &input[start.min(end)..end], output, block }
        })
    }

    /// Advances by `length` bytes that were processed. With 0, as for a message that must wait,
    /// nothing changes.
    pub fn advance(&mut self, job: &Job<'_>, length: usize) {
        self.done += length;
        if length == 0 || self.done == self.length {
            return;
        }
        let block = self.cipher.block_length();
        self.iv = match (self.cipher.mode(), self.direction) {
            (Mode::Ctr, _) => self.iv.advanced((length / COUNTER_BLOCK) as u64),
            (Mode::Cbc, Direction::Encrypt) => last_block(&job.output[..self.done], block),
            (Mode::Cbc, Direction::Decrypt) => match self.following {
                Some((end, iv)) if end == self.done => iv,
                _ => last_block(&job.input[..self.done], block),
            },
            _ => self.iv,
        };
    }

    /// The IV of the next part.
    pub fn iv(&self) -> Iv {
        self.iv
    }

    /// Removes the padding from a message whose parts are all done, and returns its length.
    pub fn finish(&self, job: &Job<'_>) -> Result<usize, Rejection> {
        let length = self.length;
        if job.padding == Padding::None || self.direction == Direction::Encrypt {
            return Ok(length);
        }
        let last = &job.output[length - self.cipher.block_length()..length];
        Ok(length - padding::padding_length(last).ok_or(Rejection::Padding)?)
    }
}

impl<'m> Part<'m> {
    /// Returns whether the output is longer than the message.
    pub fn is_padded(&self) -> bool {
        self.message.len() < self.output.len()
    }

    /// The part's input in two slices: whole blocks of the message, and the block with the padding,
    /// which is built in `last` (empty without padding).
    pub fn input<'i>(&self, last: &'i mut LastBlock) -> [&'i [u8]; 2]
    where
        'm: 'i,
    {
        if !self.is_padded() {
            return [self.message, &[]];
        }
        let (whole, tail) = self.message.split_at(self.output.len() - self.block);
        let last = &mut last[..self.block];
        padding::fill_last_block(last, tail);
        [whole, last]
    }

    /// Copies the part's input to a buffer of the output's length.
    pub fn copy_input(&self, data: &mut [u8]) {
        copy(self.message, self.block, data);
    }

    /// Copies the part's input to its output.
    pub fn copy_input_to_output(&mut self) {
        copy(self.message, self.block, self.output);
    }
}

/// Buffer for a block with padding.
pub type LastBlock = Zeroizing<[u8; LONGEST_BLOCK]>;

fn copy(message: &[u8], block: usize, data: &mut [u8]) {
    if message.len() == data.len() {
        return data.copy_from_slice(message);
    }
    let (whole, last) = data.split_at_mut(data.len() - block);
    let (blocks, tail) = message.split_at(whole.len());
    whole.copy_from_slice(blocks);
    padding::fill_last_block(last, tail);
}

/// The last block of the previous part, as an IV.
fn last_block(before: &[u8], block: usize) -> Iv {
    Iv::new(&before[before.len().saturating_sub(block)..]).unwrap_or(Iv::NONE)
}

/// The length of a counter block in bytes.
pub const COUNTER_BLOCK: usize = 16;

/// The longest block of a cipher that pads, in bytes.
const LONGEST_BLOCK: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_waits_keeps_its_iv() {
        let iv = Iv::new(&[7; 16]).unwrap();
        let (input, mut output) = ([5; 64], [0; 64]);
        for cipher in [Cipher::Aes128Cbc, Cipher::Aes128Ctr] {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let mut job = Job::new(iv, &input, &mut output);
                let mut parts = Parts::of(&job, cipher, direction);
                parts.advance(&job, 0);
                assert_eq!(parts.iv(), iv, "{cipher} {direction}");
                assert_eq!(parts.next(&mut job, 32).unwrap().iv, iv);
                parts.advance(&job, 32);
                let next = parts.iv();
                parts.advance(&job, 0);
                assert_eq!(parts.iv(), next);
                assert_eq!(next.bytes().len(), 16);
            }
        }
    }
}
