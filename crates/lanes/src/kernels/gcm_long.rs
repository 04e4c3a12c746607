//! GCM of one long message: the registers of a chunk are encrypted together, and the previous chunk
//! is hashed between their rounds.
//!
//! In the loop the lanes of a register are hashed side by side, each separately: all are multiplied
//! by the same power of the subkey, and reduced once in two chunks. Only the last chunk is
//! multiplied by powers that differ from lane to lane, so that the lanes can be added up.

use std::ops::Range;

use super::cbc_lanes::{Keys, Shared};
use super::first_rounds::{NEXT_ROUND, States};
use super::gcm_message::{LONGEST_AAD, LONGEST_REST, Message, Tables, longest_rest};
#[cfg(target_arch = "aarch64")]
use super::ghash::Pair;
#[cfg(target_arch = "x86_64")]
use super::ghash::Strides;
use super::ghash::{MAX_POWER, Powers, STRIDES, Sum};
use super::rounds::{MIDDLE, is_straight};
use super::schedule::SharedKeys;
use super::vector::{BLOCK, Carryless, MAX_BLOCKS};

/// Processes a long message until [`Message::finish`] can process the rest. Returns the sum of the
/// products so far.
///
/// # Safety
/// The CPU has the instructions of `V`. Input, output and additional data are valid for their
/// lengths. `ROUNDS` is the cipher's.
#[inline(always)]
pub(super) unsafe fn shorten<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    message: &mut Message,
    keys: &SharedKeys,
    Tables { powers, first_rounds }: &mut Tables,
) -> Sum<V> {
    let chunk = STRIDES * V::BLOCKS * BLOCK;
    // SAFETY: the caller's promise. A chunk is read or written only where the text has one, and the
    // first exists, because it is no longer than the longest rest.
    unsafe {
        powers.complete::<V>();
        let carry = hash_aad::<V>(message, powers);
        if message.length <= longest_rest::<V>() {
            return Sum::product(carry, powers.load(message.powers()));
        }
        let blocks = message.length.div_ceil(BLOCK);
        let mut counters = first_rounds.start::<V>(keys, message.first, blocks);
        let hash = Hash::new(powers, carry, message.length / chunk - 1);
        if is_straight::<V>() {
            let keys = Shared::<V>::load::<ROUNDS>(keys);
            chunks::<V, ENCRYPT, ROUNDS>(message, &keys, &mut counters, hash)
        } else {
            chunks::<V, ENCRYPT, ROUNDS>(message, keys, &mut counters, hash)
        }
    }
}

/// Encrypts or decrypts a message's chunks, at least one. Returns the sum of the products so far.
///
/// # Safety
/// As for [`shorten`].
#[inline(always)]
unsafe fn chunks<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    message: &mut Message,
    keys: &impl Keys<V>,
    counters: &mut impl States<V>,
    mut hash: Hash<'_, V>,
) -> Sum<V> {
    let chunk = STRIDES * V::BLOCKS * BLOCK;
    let chunks = message.length / chunk;
    let (mut input, mut output) = (message.input, message.output);
    // SAFETY: the caller's promise: this many chunks exist.
    unsafe {
        encrypt_chunk::<V, ENCRYPT, false, ROUNDS>(keys, counters, input, output, None);
        for _ in 1..chunks {
            (input, output) = (input.add(chunk), output.add(chunk));
            let hash = Some(&mut hash);
            encrypt_chunk::<V, ENCRYPT, false, ROUNDS>(keys, counters, input, output, hash);
        }
        message.done = chunks * chunk;
        let text = if ENCRYPT { output } else { input };
        hash.last(text, message.powers() + STRIDES * V::BLOCKS)
    }
}

/// Hashes the additional data; leaves its end to [`Message::finish`] if that processes all of the
/// text. Returns the hash so far, in the first lane.
///
/// # Safety
/// As for [`shorten`].
#[inline(always)]
unsafe fn hash_aad<V: Carryless>(message: &mut Message, powers: &Powers) -> V {
    let left = if message.length > longest_rest::<V>() { 0 } else { LONGEST_AAD };
    // SAFETY: all accesses are to bytes of the data.
    unsafe {
        let zero = V::splat(&[0; BLOCK]);
        let none = Sum::of(zero);
        let mut carry = zero;
        while message.aad_length - message.aad_done > left {
            let count = (message.aad_length - message.aad_done).min(V::BLOCKS * BLOCK);
            let data = V::load_bytes(message.aad.add(message.aad_done), count).swap_bytes();
            let sum = Sum::product(data.xor(carry), powers.load(count.div_ceil(BLOCK)));
            carry = Sum::across(&[sum, none, none, none]).reduced();
            message.aad_done += count;
        }
        carry
    }
}

/// Encrypts or decrypts a chunk, and between its rounds hashes the previous chunk; or, with `OWN`
/// (for decryption only), its own input, which the output may replace.
///
/// # Safety
/// As for [`shorten`]: a chunk of input and of output exists, and with a hash (except for `OWN`)
/// another one before it.
#[inline(always)]
pub(super) unsafe fn encrypt_chunk<
    V: Carryless,
    const ENCRYPT: bool,
    const OWN: bool,
    const ROUNDS: usize,
>(
    keys: &impl Keys<V>,
    counters: &mut impl States<V>,
    input: *const u8,
    output: *mut u8,
    mut hash: Option<&mut Hash<'_, V>>,
) {
    let width = V::BLOCKS * BLOCK;
    // SAFETY: the caller's promise.
    unsafe {
        let behind = if OWN { 0 } else { STRIDES * width };
        let hashed = if ENCRYPT { output } else { input }.wrapping_sub(behind);
        let mut pads: [V; STRIDES] = counters.next_states();
        if is_straight::<V>() {
            // The loop over the rounds is cut; see `MIDDLE`.
            let between = hash.as_deref_mut();
            encrypt_rounds::<V, ROUNDS>(keys, &mut pads, NEXT_ROUND..MIDDLE, between, hashed);
            let between = hash.as_deref_mut();
            encrypt_rounds::<V, ROUNDS>(keys, &mut pads, MIDDLE..LATE, between, hashed);
            let between = hash.as_deref_mut();
            encrypt_rounds::<V, ROUNDS>(keys, &mut pads, LATE..ROUNDS, between, hashed);
        } else {
            for round in NEXT_ROUND..ROUNDS {
                let key = keys.key(round, 0);
                for step in 0..STRIDES {
                    pads[step] = pads[step].encrypt_round(key);
                }
                // In the last rounds, because reading results that were just written would stall.
                // The first register comes last, because it needs the hash so far.
                let step = (round + STRIDES).saturating_sub(ROUNDS);
                if V::HAS_MANY_REGISTERS
                    && step > 0
                    && step < STRIDES
                    && let Some(hash) = &mut hash
                {
                    hash.add(step, hashed);
                }
            }
        }
        if OWN && let Some(hash) = &mut hash {
            hash.add_rest(hashed);
        }
        let key = keys.key(ROUNDS, 0);
        if V::BLOCKS == 1 {
            // All loads are first, so that the compiler loads and stores two registers at once.
            let mut data = [V::load(input); STRIDES];
            for step in 1..STRIDES {
                data[step] = V::load(input.add(step * width));
            }
            for step in 0..STRIDES {
                data[step] = pads[step].encrypt_last(key).xor(data[step]);
            }
            for step in 0..STRIDES {
                data[step].store(output.add(step * width));
            }
        } else {
            for step in 0..STRIDES {
                let offset = step * width;
                V::ask_to_read(input.wrapping_add(offset + AHEAD));
                V::ask_to_write(output.wrapping_add(offset + AHEAD));
                let data = V::load(input.add(offset));
                pads[step].encrypt_last(key.xor(data)).store(output.add(offset));
            }
        }
        if let Some(hash) = hash {
            if !OWN {
                hash.add_rest(hashed);
            }
            hash.end_chunk();
        }
    }
}

/// Encrypts a chunk in these rounds, and between the cipher's last rounds adds registers of
/// `hashed` to the hash.
///
/// # Safety
/// As for [`encrypt_chunk`].
#[inline(always)]
unsafe fn encrypt_rounds<V: Carryless, const ROUNDS: usize>(
    keys: &impl Keys<V>,
    pads: &mut [V; STRIDES],
    rounds: Range<usize>,
    mut hash: Option<&mut Hash<'_, V>>,
    hashed: *const u8,
) {
    for round in rounds {
        // SAFETY: the caller's promise.
        let key = unsafe { keys.key(round, 0) };
        for step in 0..STRIDES {
            pads[step] = pads[step].encrypt_round(key);
        }
        let step = (round + STRIDES).saturating_sub(ROUNDS);
        if step > 0
            && step < STRIDES
            && let Some(hash) = &mut hash
        {
            // SAFETY: as above.
            unsafe { hash.add(step, hashed) };
        }
    }
}

/// The hash of a text, separately for every lane.
pub(super) struct Hash<'a, V> {
    powers: &'a Powers,
    /// The hash of each lane, to be added to the first register of the next chunk.
    carry: V,
    /// The products of a chunk that are still to be reduced, together with those of the next.
    sum: Sum<V>,
    /// Index of the next chunk's first register.
    stride: usize,
    #[cfg(target_arch = "x86_64")]
    strides: &'a Strides,
    /// The powers of the next chunk.
    #[cfg(target_arch = "aarch64")]
    pairs: &'a [Pair],
}

impl<'a, V: Carryless> Hash<'a, V> {
    /// Begins with the hash of the data before the text. After this many chunks, all products are
    /// reduced.
    #[inline(always)]
    pub(super) fn new(powers: &'a Powers, carry: V, chunks: usize) -> Hash<'a, V> {
        let stride = if chunks.is_multiple_of(2) { 0 } else { STRIDES };
        Hash {
            powers,
            carry,
            sum: Sum::of(carry.xor(carry)),
            stride,
            #[cfg(target_arch = "x86_64")]
            strides: powers.strides(),
            #[cfg(target_arch = "aarch64")]
            pairs: powers.pairs(stride),
        }
    }

    /// Adds a register of a chunk.
    ///
    /// # Safety
    /// There is a chunk.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn add(&mut self, step: usize, text: *const u8) {
        // SAFETY: the caller's promise; a value proves the instructions.
        let (text, power) = unsafe {
            let text = V::load(text.add(step * V::BLOCKS * BLOCK)).swap_bytes();
            (text, self.strides.power(self.stride + step))
        };
        let text = if step == 0 { text.xor(self.carry) } else { text };
        self.sum.add(Sum::product(text, power));
    }

    /// Adds two registers of a chunk, if this is the first of a pair.
    ///
    /// # Safety
    /// There is a chunk.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    unsafe fn add(&mut self, step: usize, text: *const u8) {
        if step.is_multiple_of(2) {
            // SAFETY: the caller's promise; a value proves the instructions.
            unsafe {
                let one = V::load(text.add(step * BLOCK)).swap_bytes();
                let other = V::load(text.add((step + 1) * BLOCK)).swap_bytes();
                let one = if step == 0 { one.xor(self.carry) } else { one };
                self.sum.add_two(one, other, &self.pairs[step / 2]);
            }
        }
    }

    /// Adds the registers of a chunk that were not added between its rounds.
    ///
    /// # Safety
    /// There is a chunk.
    #[inline(always)]
    unsafe fn add_rest(&mut self, text: *const u8) {
        let rest = if V::HAS_MANY_REGISTERS { STRIDES } else { 1 };
        for step in rest..=STRIDES {
            // SAFETY: the caller's promise.
            unsafe { self.add(step % STRIDES, text) };
        }
    }

    /// Advances to the next chunk.
    #[inline(always)]
    fn end_chunk(&mut self) {
        let zero = self.carry.xor(self.carry);
        if self.stride == 0 {
            self.stride = STRIDES;
            self.carry = zero;
        } else {
            self.stride = 0;
            self.carry = self.sum.reduced();
            self.sum = Sum::of(zero);
        }
        #[cfg(target_arch = "aarch64")]
        {
            self.pairs = self.powers.pairs(self.stride);
        }
    }

    /// Adds the last chunk, whose first block is multiplied by `power`, and leaves the lanes to be
    /// added up.
    ///
    /// # Safety
    /// There is a chunk.
    #[inline(always)]
    pub(super) unsafe fn last(self, text: *const u8, power: usize) -> Sum<V> {
        let mut sum = self.sum;
        for step in 0..STRIDES {
            // SAFETY: the caller's promise.
            let (text, power) = unsafe {
                let text = V::load(text.add(step * V::BLOCKS * BLOCK)).swap_bytes();
                (text, self.powers.load(power - step * V::BLOCKS))
            };
            let text = if step == 0 { text.xor(self.carry) } else { text };
            sum.add(Sum::product(text, power));
        }
        sum
    }
}

/// The second cut of the loop over the rounds; see [`MIDDLE`].
const LATE: usize = 10;

/// The distance at which a long message's input and output are prefetched, in bytes. The CPU
/// prefetches them by itself, but not across pages.
const AHEAD: usize = 2048;

const _: () = {
    // By the lanes of a vector: the last chunk, a rest shorter than a chunk, and the lengths.
    const fn is_enough(lanes: usize) -> bool {
        let chunk = STRIDES * lanes;
        chunk * BLOCK <= LONGEST_REST && 2 * chunk < (2 * STRIDES + 1) * lanes
    }
    assert!(
        is_enough(1)
            && is_enough(2)
            && is_enough(MAX_BLOCKS)
            && (2 * STRIDES + 1) * MAX_BLOCKS <= MAX_POWER
    );
};
