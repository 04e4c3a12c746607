//! One message of GCM: its remaining work, and its end, which is hashed without an intermediate
//! reduction.

use super::first_rounds::FirstRounds;
use super::ghash::{MAX_SHORT_POWER, Powers, STRIDES, Sum};
use super::rounds::encrypt;
use super::schedule::SharedKeys;
use super::vector::{BLOCK, Carryless, MAX_BLOCKS, Vector};

/// The tables for one key, made at first use.
pub(super) struct Tables {
    pub(super) powers: Powers,
    pub(super) first_rounds: FirstRounds,
}

impl Tables {
    pub(super) fn new() -> Tables {
        Tables { powers: Powers::new(), first_rounds: FirstRounds::new() }
    }
}

/// The remaining work of one message.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) input: *const u8,
    pub(super) output: *mut u8,
    /// Length of the message without its tag, in bytes.
    pub(super) length: usize,
    pub(super) aad: *const u8,
    pub(super) aad_length: usize,
    /// The first counter block, as two big-endian numbers.
    pub(super) first: (u64, u64),
    /// Number of bytes done of the text, and of the additional data.
    pub(super) done: usize,
    pub(super) aad_done: usize,
}

/// The state at the rest of a message.
pub(super) struct Start<V> {
    /// The cipher of its first counters: of one register, or, if a register has one block, of as
    /// many registers as the array has.
    pub(super) pads: [V; MAX_BLOCKS],
    /// The message's first counter block and those after it.
    pub(super) base: V,
    /// The hash of the data before it.
    pub(super) sum: Sum<V>,
}

impl Message {
    pub(super) const NONE: Message = Message {
        input: std::ptr::null(),
        output: std::ptr::null_mut(),
        length: 0,
        aad: std::ptr::null(),
        aad_length: 0,
        first: (0, 0),
        done: 0,
        aad_done: 0,
    };

    /// Returns whether it is longer than [`Message::finish`] can process.
    #[inline(always)]
    pub(super) fn is_long<V: Vector>(&self) -> bool {
        self.length > longest_rest::<V>() || self.aad_length > LONGEST_AAD
    }

    /// The highest power of the subkey that [`Message::finish`] needs.
    #[inline(always)]
    pub(super) fn powers(&self) -> usize {
        let blocks = (self.length - self.done).div_ceil(BLOCK);
        (self.aad_length - self.aad_done).div_ceil(BLOCK) + blocks + 1
    }

    /// Processes the rest of the message except the block of lengths, and returns the hash.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. Input, output and additional data are valid for their
    /// lengths.
    #[inline(always)]
    pub(super) unsafe fn finish<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
        &self,
        keys: &SharedKeys,
        powers: &Powers,
        start: Start<V>,
    ) -> Sum<V> {
        let width = V::BLOCKS * BLOCK;
        let mut power = self.powers();
        // SAFETY: all accesses are to bytes that are left; the power has been reached.
        unsafe {
            let mut sum = start.sum;
            let mut aad_done = self.aad_done;
            while aad_done < self.aad_length {
                let count = (self.aad_length - aad_done).min(width);
                let data = V::load_bytes(self.aad.add(aad_done), count).swap_bytes();
                sum.add(Sum::product(data, powers.load(power)));
                power -= count.div_ceil(BLOCK);
                aad_done += count;
            }
            let (mut pads, mut next, mut done) = (start.pads, 0, self.done);
            while done < self.length {
                let (input, output) = (self.input.add(done), self.output.add(done));
                let count = self.length - done;
                let text = if count >= width {
                    let data = V::load(input);
                    let result = data.xor(pads[next]);
                    result.store(output);
                    if ENCRYPT { result } else { data }
                } else {
                    let data = V::load_bytes(input, count);
                    let result = data.xor(pads[next]);
                    result.store_bytes(output, count);
                    if ENCRYPT { result.truncated(count) } else { data }
                };
                sum.add(Sum::product(text.swap_bytes(), powers.load(power)));
                if count <= width {
                    break;
                }
                power -= V::BLOCKS;
                done += width;
                if V::BLOCKS == 1 && next + 1 < MAX_BLOCKS {
                    next += 1;
                    continue;
                }
                next = 0;
                let counters = start.base.add_to_counters(1 + (done / BLOCK) as u64);
                pads = more_pads::<V, ROUNDS>(keys, counters);
            }
            sum
        }
    }
}

/// The cipher of a register of counters; if a register has one block, of as many registers as the
/// result has, so that some blocks are in flight.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn more_pads<V: Vector, const ROUNDS: usize>(
    keys: &SharedKeys,
    counters: V,
) -> [V; MAX_BLOCKS] {
    let mut pads = [counters.swap_bytes(); MAX_BLOCKS];
    // SAFETY: the caller's promise.
    unsafe {
        if V::BLOCKS == 1 {
            for step in 1..MAX_BLOCKS {
                pads[step] = counters.add_to_counters(step as u64).swap_bytes();
            }
            encrypt::<V, MAX_BLOCKS, ROUNDS>(keys, &mut pads);
        } else {
            let mut first = [pads[0]];
            encrypt::<V, 1, ROUNDS>(keys, &mut first);
            pads[0] = first[0];
        }
    }
    pads
}

/// Greatest length of a message, and of its additional data, that is hashed without an intermediate
/// reduction, in bytes: with the block of lengths it needs at most the stored powers. Registers of
/// such a message are encrypted one after another, so with one block in each it is shorter.
pub(super) const fn longest_rest<V: Vector>() -> usize {
    longest_rest_of(V::BLOCKS)
}

/// The same for registers of this many blocks.
pub(super) const fn longest_rest_of(blocks: usize) -> usize {
    if blocks == 1 { STRIDES * BLOCK } else { LONGEST_REST }
}
pub(super) const LONGEST_REST: usize = 32 * BLOCK;
pub(super) const LONGEST_AAD: usize = 4 * BLOCK;

const _: () = assert!(LONGEST_REST / BLOCK + LONGEST_AAD / BLOCK < MAX_SHORT_POWER);
