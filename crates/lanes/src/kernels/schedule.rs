//! AES round keys (FIPS 197, section 5.2), expanded with AES instructions.
//!
//! SubWord is an AES last round without MixColumns: when a word fills all four columns of a block,
//! ShiftRows changes nothing. So there are no table look-ups, and as many keys as a vector has
//! lanes are expanded at once.

use super::vector::{BLOCK, Block, MAX_BLOCKS, Vector, wipe};

/// Number of round keys of AES-256, the most of all key lengths.
pub(super) const MAX_ROUND_KEYS: usize = 15;

/// Round keys of `LANES` lanes, by round and then by lane, zeroised on drop.
///
/// One key for every lane is `RoundKeys<MAX_BLOCKS>` with the same key in each: any vector type
/// loads its lanes from it.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct RoundKeys<const LANES: usize>([[Block; LANES]; MAX_ROUND_KEYS]);

/// One key, for every lane.
pub(super) type SharedKeys = RoundKeys<MAX_BLOCKS>;

impl<const LANES: usize> RoundKeys<LANES> {
    /// Empty round keys.
    pub(super) fn new() -> RoundKeys<LANES> {
        RoundKeys([[[0; BLOCK]; LANES]; MAX_ROUND_KEYS])
    }

    /// The lanes' keys of one round, from `lane` on, in one vector.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn load<V: Vector>(&self, round: usize, lane: usize) -> V {
        let keys: &[Block] = &self.0[round][lane..lane + V::BLOCKS];
        // SAFETY: the slice has as many blocks as the vector.
        unsafe { V::load(keys.as_ptr().cast()) }
    }

    /// Expands `keys`, at most one per lane, into the first lanes.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. Every key has `4 * WORDS` bytes.
    #[inline(always)]
    pub(super) unsafe fn expand<V: Vector, const WORDS: usize>(&mut self, keys: &[&[u8]]) {
        const { assert!(LANES.is_multiple_of(MAX_BLOCKS)) }
        assert!(keys.len() <= LANES);
        for (number, keys) in keys.chunks(V::BLOCKS).enumerate() {
            // A partly filled vector repeats its last key.
            let mut key = [std::ptr::null(); MAX_BLOCKS];
            for index in 0..V::BLOCKS {
                key[index] = keys[index.min(keys.len() - 1)].as_ptr();
            }
            let to = self.0[0][number * V::BLOCKS..].as_mut_ptr().cast();
            // SAFETY: as many lanes as the vector has begin there, because their number is a
            // multiple of the vector's, and the same lanes are `size_of::<[Block; LANES]>()` bytes
            // further in each of the next rounds; expansion stops at the last or before.
            unsafe { expand::<V, WORDS>(&key, to, size_of::<[Block; LANES]>()) }
        }
    }
}

impl RoundKeys<MAX_BLOCKS> {
    /// Expands one key into every lane.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. The key has 16, 24 or 32 bytes.
    #[inline(always)]
    pub(super) unsafe fn expand_shared<V: Vector>(&mut self, key: &[u8]) {
        let keys = [key; MAX_BLOCKS];
        // SAFETY: the caller's promise; the key's length is matched.
        unsafe {
            match key.len() {
                16 => self.expand::<V, 4>(&keys),
                24 => self.expand::<V, 6>(&keys),
                _ => self.expand::<V, 8>(&keys),
            }
        }
    }

    /// Turns encryption keys into those of FIPS 197's equivalent inverse cipher, in the order
    /// in which decryption uses them.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn invert<V: Vector>(&mut self, rounds: usize) {
        self.0[..=rounds].reverse();
        for keys in &mut self.0[1..rounds] {
            for lanes in keys.chunks_exact_mut(V::BLOCKS) {
                // SAFETY: the lanes are as many blocks as a vector has.
                unsafe { mix_inversely::<V>(lanes.as_mut_ptr().cast()) }
            }
        }
    }
}

/// Replaces a vector of round keys by its InvMixColumns.
///
/// # Safety
/// The CPU has the instructions of `V`, and a vector may be read and written there.
#[inline(always)]
unsafe fn mix_inversely<V: Vector>(keys: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = V::splat(&[0; BLOCK]);
        // SubBytes and its inverse cancel out; InvMixColumns remains.
        V::load(keys).encrypt_last(zero).decrypt_round(zero).store(keys);
    }
}

/// Round keys of one key that every lane has.
pub(super) trait OneKey<V> {
    /// The key of a round, in every lane.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn round(&self, round: usize) -> V;
}

impl<V: Vector> OneKey<V> for SharedKeys {
    #[inline(always)]
    unsafe fn round(&self, round: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { self.load(round, 0) }
    }
}

/// Round keys of one key in a quarter of the room, zeroised on drop: for keys that are short-lived
/// or numerous.
#[derive(Clone)]
#[repr(C, align(16))]
pub(super) struct SingleKeys([Block; MAX_ROUND_KEYS]);

impl<V: Vector> OneKey<V> for SingleKeys {
    #[inline(always)]
    unsafe fn round(&self, round: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::splat(&self.0[round]) }
    }
}

impl SingleKeys {
    /// Empty round keys.
    pub(super) fn new() -> SingleKeys {
        SingleKeys([[0; BLOCK]; MAX_ROUND_KEYS])
    }

    /// Expands a key.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, which has registers of one block. The key has 16, 24 or
    /// 32 bytes.
    #[inline(always)]
    pub(super) unsafe fn expand<V: Vector>(&mut self, key: &[u8]) {
        const { assert!(V::BLOCKS == 1) }
        let (from, to) = ([key.as_ptr()], self.0.as_mut_ptr().cast());
        // SAFETY: the caller's promise; there is room for the round keys of the longest key.
        unsafe {
            match key.len() {
                16 => expand::<V, 4>(&from, to, BLOCK),
                24 => expand::<V, 6>(&from, to, BLOCK),
                _ => expand::<V, 8>(&from, to, BLOCK),
            }
        }
    }

    /// The same as [`RoundKeys::invert`].
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, which has registers of one block.
    #[inline(always)]
    pub(super) unsafe fn invert<V: Vector>(&mut self, rounds: usize) {
        const { assert!(V::BLOCKS == 1) }
        self.0[..=rounds].reverse();
        for key in &mut self.0[1..rounds] {
            // SAFETY: the caller's promise.
            unsafe { mix_inversely::<V>(key.as_mut_ptr()) }
        }
    }
}

impl Drop for SingleKeys {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl<const LANES: usize> Drop for RoundKeys<LANES> {
    fn drop(&mut self) {
        wipe(self.0.as_flattened_mut());
    }
}

/// Expands one key a lane and writes round key after round key, `stride` bytes apart.
///
/// # Safety
/// The CPU has the instructions of `V`. The first `V::BLOCKS` keys have `4 * WORDS` bytes, and
/// a vector may be written to `to` and to each of the `WORDS + 6` places after it.
#[inline(always)]
unsafe fn expand<V: Vector, const WORDS: usize>(keys: &[*const u8], to: *mut u8, stride: usize) {
    // Nested loops over whole keys and whole round keys, so that all indices are known at compile
    // time.
    let turn = const { if WORDS.is_multiple_of(4) { WORDS } else { 2 * WORDS } };
    // SAFETY: the caller's promise.
    unsafe {
        // The last `WORDS` words, each in all four columns of its key's lane.
        let first = V::gather(keys, 0);
        let last = V::gather(keys, 4 * WORDS - BLOCK);
        let mut words = [first; WORDS];
        for index in 0..WORDS {
            words[index] = match index {
                0..4 => first.spread_word(index),
                _ => last.spread_word(index + 4 - WORDS),
            };
        }
        let mut columns = [words[0]; 4];
        let zero = V::splat(&[0; BLOCK]);
        let (mut index, mut round) = (0, 0);
        while round < WORDS + 7 {
            for step in 0..turn {
                let place = step % WORDS;
                if index >= WORDS {
                    let previous = words[(place + WORDS - 1) % WORDS];
                    let mixed = if place == 0 {
                        let constant = V::splat(&ROUND_CONSTANTS[index / WORDS]);
                        previous.rotate_words().encrypt_last(constant)
                    } else if WORDS > 6 && place == 4 {
                        previous.encrypt_last(zero)
                    } else {
                        previous
                    };
                    words[place] = words[place].xor(mixed);
                }
                index += 1;
                columns[step % 4] = words[place];
                if step % 4 == 3 && round < WORDS + 7 {
                    V::columns(columns).store(to.add(round * stride));
                    round += 1;
                }
            }
        }
    }
}

/// FIPS 197's Rcon, from index 1, each in all four columns.
const ROUND_CONSTANTS: [Block; 11] = {
    let powers = [0, 1, 2, 4, 8, 16, 32, 64, 128, 0x1B, 0x36];
    let mut constants = [[0; BLOCK]; 11];
    let mut number = 0;
    while number < 11 {
        let mut column = 0;
        while column < BLOCK {
            constants[number][column] = powers[number];
            column += 4;
        }
        number += 1;
    }
    constants
};
