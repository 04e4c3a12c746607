//! GCM (NIST SP 800-38D) of one message that comes in pieces: the processing of whole blocks.
//!
//! Between two pieces the hash is one block, kept *ahead*: multiplied by the subkey once more than
//! in the standard. The standard adds a hash to the next block; a hash that is ahead is added to
//! the block after that, and enters the tag unchanged, so nothing waits for the product. (All
//! powers in the sums are higher by one.) If a register has only one block, and so no second one to
//! add it to, the hash is as in the standard. A short piece is hashed with one reduction; the
//! chunks of a long one are hashed as in [`gcm_long`](super::gcm_long). A piece may be replaced by
//! its result.

use zeroize::Zeroize;

use super::cbc_lanes::{Keys, Shared};
use super::first_rounds::{AnyCounters, FIRST_COUNTER, FirstRounds, SPAN, States};
use super::gcm::subkey;
use super::gcm_long::{Hash, encrypt_chunk};
use super::gcm_message::{longest_rest, longest_rest_of, more_pads};
use super::ghash::{Powers, STRIDES, Sum};
use super::rounds::{encrypt, is_straight};
use super::schedule::SharedKeys;
use super::vector::{BLOCK, Block, Carryless, MAX_BLOCKS};
use crate::boxed::{Aligned, zeros};
use crate::stream::{End, Pad, Piece};

/// The functions of one kernel for one key length. They may be called only on a CPU with the
/// kernel's instructions, and all but `expand` only after `expand`.
#[derive(Clone, Copy)]
pub(super) struct Code {
    /// Sets the key, which has the length that the functions are for.
    pub(super) expand: unsafe fn(&mut Material, &[u8]),
    /// Adds data to a hash, padded with zeros to whole blocks.
    pub(super) hash: unsafe fn(&mut Material, &mut Block, &[u8]),
    /// Encrypts or decrypts a piece.
    pub(super) encrypt: unsafe fn(&mut Material, &mut Piece<'_>),
    pub(super) decrypt: unsafe fn(&mut Material, &mut Piece<'_>),
    /// Length of the registers in bytes.
    pub(super) registers: usize,
    /// Makes the tag.
    pub(super) finish: unsafe fn(&mut Material, &End<'_>) -> Block,
}

/// The values derived from a key, wiped on drop.
pub(super) struct Material {
    keys: SharedKeys,
    powers: Powers,
    /// Only for keys that have had a long piece, since it takes more room than everything else.
    first_rounds: Option<Aligned<FirstRounds>>,
}

impl Material {
    /// Room for a key; `None` if there is no memory for it.
    pub(super) fn zeroed() -> Option<Aligned<Material>> {
        // SAFETY: every field is a number, a `bool`, or an `Option` of a heap value, which is
        // `None`.
        unsafe { zeros() }
    }

    /// A copy of the key; `None` if there is no memory for it. It recomputes the tables that only
    /// speed up long pieces.
    pub(super) fn try_clone(&self) -> Option<Aligned<Material>> {
        let (keys, powers) = (self.keys.clone(), self.powers.clone());
        Aligned::new(Material { keys, powers, first_rounds: None })
    }

    /// Makes room for the tables that a piece of this many bytes needs, with registers of this many
    /// blocks; `None` if there is no memory for them.
    pub(super) fn make_room(&mut self, length: usize, blocks: usize) -> Option<()> {
        if length > longest_rest_of(blocks) { self.powers.make_room() } else { Some(()) }
    }
}

/// Sets a key.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is that of the key's length.
#[inline(always)]
pub(super) unsafe fn expand<V: Carryless, const ROUNDS: usize>(
    material: &mut Material,
    key: &[u8],
) {
    // SAFETY: the caller's promise.
    unsafe {
        material.keys.expand_shared::<V>(key);
        let mut subkey = subkey::<V, ROUNDS>(&material.keys);
        material.powers.set::<V>(&subkey);
        subkey.zeroize();
    }
    if let Some(first_rounds) = &mut material.first_rounds {
        first_rounds.forget();
    }
}

/// Adds data to a hash that is ahead, padded with zeros to whole blocks.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn hash<V: Carryless>(
    Material { powers, .. }: &mut Material,
    hash: &mut Block,
    data: &[u8],
) {
    // SAFETY: the caller's promise; chunks are no longer than a vector.
    unsafe {
        powers.reach::<V>(V::BLOCKS + ahead::<V>());
        for part in data.chunks(V::BLOCKS * BLOCK) {
            let blocks = V::load_bytes(part.as_ptr(), part.len()).swap_bytes();
            let power = powers.load(part.len().div_ceil(BLOCK) + ahead::<V>());
            *hash = Sum::product(blocks.xor(carried(hash)), power).total().block();
        }
    }
}

/// The hash between two pieces, in the lane in which it is added to the next blocks: the second if
/// it is ahead, otherwise the first; zeros in the rest.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn carried<V: Carryless>(hash: &Block) -> V {
    // SAFETY: the caller's promise.
    let first: V = unsafe { V::load_block(hash) };
    if ahead::<V>() == 1 { first.shift_in(first.xor(first)) } else { first }
}

/// The number of powers of the subkey by which the hash between two pieces is ahead.
const fn ahead<V: Carryless>() -> usize {
    if V::BLOCKS > 1 { 1 } else { 0 }
}

/// Encrypts or decrypts a piece.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is that of the key.
#[inline(always)]
pub(super) unsafe fn transform<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    material: &mut Material,
    piece: &mut Piece<'_>,
) {
    let blocks = piece.length / BLOCK;
    let Material { keys, powers, first_rounds } = material;
    // SAFETY: the caller's promise; powers are reached before they are used.
    unsafe {
        if let Some(first) = piece.first {
            *piece.tag_pad = tag_pad::<V, ROUNDS>(keys, first);
        }
        let mut carry: V = carried(piece.hash);
        let zero = carry.xor(carry);
        let (mut done, mut sum, mut last) = (0, Sum::of(zero), None);
        let prefix = piece.prefix.map(|block| V::load_block(block).swap_bytes());
        if piece.length > longest_rest::<V>() {
            powers.complete::<V>();
            if let Some(prefix) = prefix {
                let power = powers.load(1 + ahead::<V>());
                let hash = Sum::product(prefix.xor(carry), power).total();
                carry = if ahead::<V>() == 1 { hash.shift_in(zero) } else { hash };
            }
            (done, sum, last) =
                transform_chunks::<V, ENCRYPT, ROUNDS>(keys, powers, first_rounds, piece, carry);
            carry = zero;
        } else {
            let power = blocks + 1 + ahead::<V>();
            powers.reach::<V>(power);
            if let Some(prefix) = prefix {
                sum = Sum::product(prefix.xor(carry), powers.load(power));
                carry = zero;
            }
        }
        let mut sum = transform_rest::<V, ENCRYPT, ROUNDS>(keys, powers, piece, done, carry, sum);
        if let Some(hash) = last {
            let chunk = STRIDES * V::BLOCKS * BLOCK;
            sum.add(hash.last(piece.output.add(done - chunk), power_of_last::<V>(piece, done)));
        }
        if blocks > 0 || piece.prefix.is_some() {
            *piece.hash = sum.total().block();
        }
    }
}

/// The block that hides the tag: the cipher of a message's first counter block.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is that of the key.
#[inline(always)]
unsafe fn tag_pad<V: Carryless, const ROUNDS: usize>(
    keys: &SharedKeys,
    (high, low): (u64, u64),
) -> Block {
    // SAFETY: the caller's promise.
    unsafe {
        let mut pad = [V::counters(high, low).swap_bytes()];
        encrypt::<V, 1, ROUNDS>(keys, &mut pad);
        pad[0].block()
    }
}

/// The state after the chunks of a piece: their number of bytes, the sum of the products so far,
/// and the hash to which the last chunk is still to be added, if [`is_rest_first`].
type Chunks<'a, V> = (usize, Sum<V>, Option<Hash<'a, V>>);

/// Processes the chunks of a long piece.
///
/// # Safety
/// As for [`transform`]; the powers are complete, and there is at least one chunk.
#[inline(always)]
unsafe fn transform_chunks<'a, V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    keys: &SharedKeys,
    powers: &'a Powers,
    first_rounds: &mut Option<Aligned<FirstRounds>>,
    piece: &Piece<'_>,
    carry: V,
) -> Chunks<'a, V> {
    let (high, low) = piece.counter;
    let is_aligned = low % SPAN as u64 == FIRST_COUNTER as u64;
    if first_rounds.is_none() && is_aligned && piece.length >= SPAN * BLOCK {
        *first_rounds = FirstRounds::zeroed();
    }
    // SAFETY: the caller's promise.
    unsafe {
        match first_rounds {
            Some(first_rounds) if is_aligned => {
                let blocks = piece.length.div_ceil(BLOCK);
                let mut counters = first_rounds.start::<V>(keys, piece.counter, blocks);
                chunks::<V, ENCRYPT, ROUNDS>(keys, powers, &mut counters, piece, carry)
            }
            _ => {
                let mut counters = AnyCounters::from(keys, V::counters(high, low));
                chunks::<V, ENCRYPT, ROUNDS>(keys, powers, &mut counters, piece, carry)
            }
        }
    }
}

/// [`transform_chunks`] with the counters given.
///
/// # Safety
/// As for [`transform_chunks`].
#[inline(always)]
unsafe fn chunks<'a, V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    keys: &SharedKeys,
    powers: &'a Powers,
    counters: &mut impl States<V>,
    piece: &Piece<'_>,
    carry: V,
) -> Chunks<'a, V> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_straight::<V>() {
            let keys = Shared::<V>::load::<ROUNDS>(keys);
            chunks_with::<V, ENCRYPT, ROUNDS>(&keys, powers, counters, piece, carry)
        } else {
            chunks_with::<V, ENCRYPT, ROUNDS>(keys, powers, counters, piece, carry)
        }
    }
}

/// [`chunks`] with the keys in their best form.
///
/// # Safety
/// As for [`transform_chunks`].
#[inline(always)]
unsafe fn chunks_with<'a, V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    keys: &impl Keys<V>,
    powers: &'a Powers,
    counters: &mut impl States<V>,
    piece: &Piece<'_>,
    carry: V,
) -> Chunks<'a, V> {
    let chunk = STRIDES * V::BLOCKS * BLOCK;
    let chunks = piece.length / chunk;
    let done = chunks * chunk;
    let (mut input, mut output) = (piece.input, piece.output);
    let mut hash = Hash::new(powers, carry, chunks - 1);
    // SAFETY: the caller's promise: `chunks` of them exist, at least one.
    unsafe {
        if ENCRYPT {
            encrypt_chunk::<V, true, false, ROUNDS>(keys, counters, input, output, None);
            for _ in 1..chunks {
                (input, output) = (input.add(chunk), output.add(chunk));
                let hash = Some(&mut hash);
                encrypt_chunk::<V, true, false, ROUNDS>(keys, counters, input, output, hash);
            }
            if is_rest_first::<V>() {
                return (done, Sum::of(carry.xor(carry)), Some(hash));
            }
            return (done, hash.last(output, power_of_last::<V>(piece, done)), None);
        }
        for _ in 1..chunks {
            let hash = Some(&mut hash);
            encrypt_chunk::<V, false, true, ROUNDS>(keys, counters, input, output, hash);
            (input, output) = (input.add(chunk), output.add(chunk));
        }
        // The last chunk is hashed before its output may replace it.
        let sum = hash.last(input, power_of_last::<V>(piece, done));
        encrypt_chunk::<V, false, true, ROUNDS>(keys, counters, input, output, None);
        (done, sum, None)
    }
}

/// Returns whether the rest after a piece's chunks is encrypted before the last chunk is hashed:
/// its rounds take longer, and need not wait for the hash. This takes 10 % less time for a record
/// of 1,350 bytes with AVX-512, and 7 % more with AVX2, which has fewer registers. It was not
/// measured for registers of one block.
const fn is_rest_first<V: Carryless>() -> bool {
    V::HAS_MANY_REGISTERS && V::BLOCKS > 1
}

/// The power for the first block of a piece's last chunk, which ends after `done` bytes: the number
/// of blocks from there on, plus that by which the hash is ahead.
fn power_of_last<V: Carryless>(piece: &Piece<'_>, done: usize) -> usize {
    (piece.length - done) / BLOCK + STRIDES * V::BLOCKS + ahead::<V>()
}

/// Processes a piece from `done` on, at most [`longest_rest`]. The carry is added to its first
/// block. Returns the sum of all products.
///
/// # Safety
/// As for [`transform`]; powers for the rest have been reached.
#[inline(always)]
unsafe fn transform_rest<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    keys: &SharedKeys,
    powers: &Powers,
    piece: &mut Piece<'_>,
    mut done: usize,
    mut carry: V,
    mut sum: Sum<V>,
) -> Sum<V> {
    let width = V::BLOCKS * BLOCK;
    let mut power = (piece.length - done) / BLOCK;
    // SAFETY: all accesses are to bytes of the piece from `done` on.
    unsafe {
        let (high, low) = piece.counter;
        let mut counters = V::counters(high, low.wrapping_add((done / BLOCK) as u64));
        let (mut pads, mut next) = ([counters; MAX_BLOCKS], 0);
        while done < piece.length {
            let count = (piece.length - done).min(width);
            let (input, output) = (piece.input.add(done), piece.output.add(done));
            if V::BLOCKS > 1 || next == 0 {
                pads = more_pads::<V, ROUNDS>(keys, counters);
            }
            let pad = pads[next];
            counters = counters.add_to_counters(V::BLOCKS as u64);
            next = if V::BLOCKS == 1 { (next + 1) % MAX_BLOCKS } else { 0 };
            let text: V = if count == width {
                let data = V::load(input);
                let result = data.xor(pad);
                result.store(output);
                if ENCRYPT { result } else { data }
            } else {
                let data = V::load_bytes(input, count);
                let result = data.xor(pad);
                result.store_bytes(output, count);
                let text = if ENCRYPT { result } else { data };
                let whole = count / BLOCK * BLOCK;
                if whole < count {
                    text.truncated(count).store(piece.rest.ciphertext.as_mut_ptr());
                    pad.store(piece.rest.pad.as_mut_ptr());
                }
                text.truncated(whole)
            };
            let factor = powers.load(power + ahead::<V>());
            sum.add(Sum::product(text.swap_bytes().xor(carry), factor));
            carry = carry.xor(carry);
            power = power.saturating_sub(V::BLOCKS);
            done += count;
        }
    }
    sum
}

/// Makes the tag.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is that of the key.
#[inline(always)]
pub(super) unsafe fn finish<V: Carryless, const ROUNDS: usize>(
    Material { keys, powers, .. }: &mut Material,
    end: &End<'_>,
) -> Block {
    // SAFETY: the caller's promise.
    unsafe {
        powers.reach::<V>(2);
        let mut hash: V = V::load_block(end.hash);
        let (high, low) = end.lengths;
        let mut last = V::counters(high, low).truncated(BLOCK);
        if ahead::<V>() == 0 && end.rest.is_none() {
            last = last.xor(hash);
            hash = hash.xor(hash);
        }
        let mut sum = Sum::product(last, powers.load(1));
        if let Some(rest) = end.rest {
            // A hash that is ahead by one still needs one of the two multiplications.
            let rest = V::load_block(rest).swap_bytes();
            sum.add(Sum::product(rest.xor(carried(end.hash)), powers.load(2)));
            hash = hash.xor(hash);
        }
        let pad = match end.pad {
            Pad::Made(pad) => V::load_block(pad),
            Pad::Of(first) => V::load_block(&tag_pad::<V, ROUNDS>(keys, first)),
            Pad::None => hash.xor(hash),
        };
        sum.total().xor(hash).swap_bytes().xor(pad).block()
    }
}
