//! CBC encryption of one message, block after block: each waits for the one before.
//!
//! That takes only the latency of AES's rounds: the last round of a block, which adds a round key
//! to its result, also adds the next block's text and first round key, which are ready before. The
//! result is the state in which the next block's rounds begin, and the ciphertext is computed from
//! it in parallel.

use super::parallel::Text;
use super::schedule::{MAX_ROUND_KEYS, OneKey};
use super::vector::{BLOCK, Vector};

/// Encrypts a text.
///
/// # Safety
/// The CPU has the instructions of `V`, which has registers of one block. `length` bytes may be
/// read from the text's input and written to its output, which does not overlap unless it is the
/// same or begins before; they are whole blocks, at least one.
#[inline(always)]
pub(super) unsafe fn encrypt<V: Vector, const ROUNDS: usize>(keys: &impl OneKey<V>, text: &Text) {
    const { assert!(V::BLOCKS == 1) }
    let &Text { input, output, length, .. } = text;
    // SAFETY: each access is to a block of the text, and each block of the input is read before
    // the one before it is written to the output.
    unsafe {
        let (first, last) = (keys.round(0), keys.round(ROUNDS));
        let mut between = [first; MAX_ROUND_KEYS];
        for round in 1..ROUNDS {
            between[round] = keys.round(round);
        }
        let mut state = V::load(input).xor(first).xor(V::splat(&text.iv));
        let mut done = 0;
        loop {
            for round in 1..ROUNDS {
                state = state.encrypt_round(between[round]);
            }
            let to = output.add(done);
            done += BLOCK;
            if done >= length {
                state.encrypt_last(last).store(to);
                return;
            }
            let next = V::load(input.add(done)).xor(first);
            state = state.encrypt_last(last.xor(next));
            state.xor(next).store(to);
        }
    }
}
