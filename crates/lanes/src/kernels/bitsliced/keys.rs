//! AES round keys (FIPS 197, section 5.2) of eight lanes, as bits.
//!
//! The kernel itself computes SubWord, so there are no table look-ups.

use zeroize::Zeroize;

use super::{Eight, LANES, sys};
use crate::kernels::vector::{BLOCK, wipe};

/// Number of round keys of AES-256, the most of all key lengths.
const MAX_ROUND_KEYS: usize = 15;

/// Round keys of eight lanes, zeroised on drop.
#[derive(Clone)]
#[repr(C, align(16))]
pub(in crate::kernels) struct Keys {
    sliced: [Eight; MAX_ROUND_KEYS],
    rounds: usize,
}

impl Keys {
    /// Empty round keys.
    pub(in crate::kernels) fn new() -> Keys {
        Keys { sliced: [[[0; BLOCK]; LANES]; MAX_ROUND_KEYS], rounds: 10 }
    }

    /// Expands `keys`, one to eight of them, into the first lanes; the rest get the last one.
    ///
    /// # Safety
    /// The CPU has NEON. Every key has 16, 24 or 32 bytes, and all have the same length.
    pub(in crate::kernels) unsafe fn expand(&mut self, keys: &[&[u8]]) {
        let length = keys[0].len() / WORD;
        self.rounds = length + 6;
        for (lane, key) in keys.iter().enumerate() {
            for (index, word) in key.chunks_exact(WORD).enumerate() {
                self.word(index, lane).copy_from_slice(word);
            }
        }
        for index in length..4 * (self.rounds + 1) {
            let mut words = [[0; WORD]; LANES];
            for (lane, word) in words.iter_mut().take(keys.len()).enumerate() {
                *word = *self.word(index - 1, lane);
            }
            // SAFETY: the caller's promise.
            unsafe {
                if index % length == 0 {
                    for word in &mut words {
                        word.rotate_left(1);
                    }
                    words = sys::substitute(words);
                    for word in &mut words {
                        word[0] ^= ROUND_CONSTANTS[index / length - 1];
                    }
                } else if length > 6 && index % length == 4 {
                    words = sys::substitute(words);
                }
            }
            for (lane, word) in words.iter().take(keys.len()).enumerate() {
                let before = *self.word(index - length, lane);
                let sum = u32::from_ne_bytes(before) ^ u32::from_ne_bytes(*word);
                *self.word(index, lane) = sum.to_ne_bytes();
            }
            words.as_flattened_mut().zeroize();
        }
        // SAFETY: the caller's promise.
        unsafe { self.slice(keys.len()) }
    }

    /// Word `index` of a lane's expanded key, before it is sliced.
    fn word(&mut self, index: usize, lane: usize) -> &mut [u8; WORD] {
        let (words, _) = self.sliced[index / 4][lane].as_chunks_mut();
        &mut words[index % 4]
    }

    /// Turns the round keys of this many lanes into bits, in the form that the kernel adds: with
    /// SubBytes' complements, and in the order of the state's bytes between the first and the last
    /// ShiftRows.
    ///
    /// # Safety
    /// The CPU has NEON.
    unsafe fn slice(&mut self, count: usize) {
        for (round, lanes) in self.sliced[..=self.rounds].iter_mut().enumerate() {
            for key in lanes.iter_mut().take(count).filter(|_| round > 0) {
                *key = (u128::from_ne_bytes(*key) ^ COMPLEMENTS).to_ne_bytes();
                if round < self.rounds {
                    let columns = *key;
                    for place in 0..BLOCK {
                        key[place] = columns[place % 4 * 4 + place / 4];
                    }
                }
            }
            let last = lanes[count - 1];
            lanes[count..].fill(last);
            // SAFETY: the caller's promise.
            unsafe { sys::slice(lanes) }
        }
    }

    /// The round keys: one more than the cipher has rounds.
    pub(super) fn sliced(&self) -> &[Eight] {
        &self.sliced[..=self.rounds]
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        wipe(self.sliced.as_flattened_mut());
    }
}

/// Length of a word in bytes.
const WORD: usize = 4;

/// The constant that SubBytes adds to each byte.
const COMPLEMENTS: u128 = u128::from_ne_bytes([0x63; BLOCK]);

/// FIPS 197's Rcon, from 1.
const ROUND_CONSTANTS: [u8; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 0x1B, 0x36];
