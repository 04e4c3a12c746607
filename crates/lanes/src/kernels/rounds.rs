//! AES of several registers at once, round by round (FIPS 197).

use super::schedule::OneKey;
use super::vector::Vector;

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn encrypt<V: Vector, const N: usize, const ROUNDS: usize>(
    keys: &impl OneKey<V>,
    data: &mut [V; N],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let key = keys.round(0);
        for block in data.iter_mut() {
            *block = block.xor(key);
        }
        let middle = cut::<V>(MIDDLE, ROUNDS);
        encrypt_rounds(keys, data, 1, middle);
        encrypt_rounds(keys, data, middle, ROUNDS);
        let key = keys.round(ROUNDS);
        for block in data.iter_mut() {
            *block = block.encrypt_last(key);
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn decrypt<V: Vector, const N: usize, const ROUNDS: usize>(
    keys: &impl OneKey<V>,
    data: &mut [V; N],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let key = keys.round(0);
        for block in data.iter_mut() {
            *block = block.xor(key);
        }
        let middle = cut::<V>(MIDDLE, ROUNDS);
        decrypt_rounds(keys, data, 1, middle);
        decrypt_rounds(keys, data, middle, ROUNDS);
        let key = keys.round(ROUNDS);
        for block in data.iter_mut() {
            *block = block.decrypt_last(key);
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn encrypt_rounds<V: Vector, const N: usize>(
    keys: &impl OneKey<V>,
    data: &mut [V; N],
    first: usize,
    end: usize,
) {
    for round in first..end {
        // SAFETY: the caller's promise.
        let key = unsafe { keys.round(round) };
        for block in data.iter_mut() {
            *block = block.encrypt_round(key);
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn decrypt_rounds<V: Vector, const N: usize>(
    keys: &impl OneKey<V>,
    data: &mut [V; N],
    first: usize,
    end: usize,
) {
    for round in first..end {
        // SAFETY: the caller's promise.
        let key = unsafe { keys.round(round) };
        for block in data.iter_mut() {
            *block = block.decrypt_round(key);
        }
    }
}

/// The round at which the loop over the rounds is cut. An ARM round is three operations to the
/// compiler: it unrolls two short loops, but not a long one, whose blocks would then be in memory.
pub(super) const fn cut<V: Vector>(round: usize, rounds: usize) -> usize {
    if is_straight::<V>() && round < rounds { round } else { rounds }
}
pub(super) const MIDDLE: usize = 7;

/// Returns whether a register is one lane, and there are enough registers for the keys and two
/// blocks of each of a kernel's lanes.
pub(super) const fn is_straight<V: Vector>() -> bool {
    V::BLOCKS == 1 && V::HAS_MANY_REGISTERS
}
