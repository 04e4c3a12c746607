//! The modes with independent blocks in registers with instructions for AES.
//!
//! A message of 32 blocks or more fills the AES units by itself. Shorter messages are independent
//! of each other, so out-of-order execution overlaps several of them: with four blocks per
//! register, the 42 cycles of one message's rounds are 20 or 30 instructions, and the CPU looks 450
//! instructions ahead.

use super::cbc_lanes::Shared;
use super::parallel::{Kind, Mode, Text, Texts};
use super::rounds::{decrypt, encrypt, is_straight};
use super::schedule::{OneKey, SharedKeys};
use super::vector::{BLOCK, Vector};

/// Number of registers that the loop over a long message processes at once.
const GROUPS: usize = 8;

/// Alignment in bytes that streaming needs.
const LINE: usize = 64;

impl<V: Vector> Texts for V {
    #[inline(always)]
    unsafe fn expand<M: Mode, const ROUNDS: usize>(keys: &mut SharedKeys, key: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe {
            keys.expand_shared::<V>(key);
            if M::INVERSE {
                keys.invert::<V>(ROUNDS);
            }
        }
    }

    #[inline(always)]
    unsafe fn transform<M: Mode, const ROUNDS: usize>(keys: &SharedKeys, text: &Text) {
        // SAFETY: the caller's promise.
        unsafe { transform::<V, M, ROUNDS>(keys, text) }
    }

    #[inline(always)]
    unsafe fn finish() {
        // SAFETY: the caller's promise.
        unsafe { V::finish_streaming() }
    }
}

/// Transforms a text without padding. If instructions take no operands from memory and there are
/// enough registers, a long text's keys are kept in registers.
///
/// # Safety
/// The CPU has the instructions of `V`. `length` bytes may be read from the text's input and
/// written to its output, which does not overlap unless it is the same or begins before.
#[inline(always)]
pub(super) unsafe fn transform<V: Vector, M: Mode, const ROUNDS: usize>(
    keys: &impl OneKey<V>,
    text: &Text,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_straight::<V>() && text.length >= GROUPS * BLOCK {
            let keys = Shared::<V>::load::<ROUNDS>(keys);
            transform_with::<V, M, ROUNDS>(&keys, text)
        } else {
            transform_with::<V, M, ROUNDS>(keys, text)
        }
    }
}

/// [`transform`] with the keys in their best form.
///
/// # Safety
/// As for [`transform`].
#[inline(always)]
unsafe fn transform_with<V: Vector, M: Mode, const ROUNDS: usize>(
    keys: &impl OneKey<V>,
    text: &Text,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match M::KIND {
            Kind::EcbEncrypt => step_through::<V, _>(&mut Encrypting::<_, ROUNDS>(keys), text),
            Kind::EcbDecrypt => step_through::<V, _>(&mut Decrypting::<_, ROUNDS>(keys), text),
            Kind::CbcDecrypt => {
                let previous = V::splat(&text.iv);
                let mut step = Unchaining::<V, _, ROUNDS> { keys, previous };
                step_through::<V, _>(&mut step, text);
            }
            Kind::Ctr => count::<V, ROUNDS>(keys, text),
        }
    }
}

/// CTR.
///
/// # Safety
/// As for [`transform`].
#[inline(always)]
unsafe fn count<V: Vector, const ROUNDS: usize>(keys: &impl OneKey<V>, text: &Text) {
    let counter = u128::from_be_bytes(text.iv);
    let (mut high, mut low) = ((counter >> 64) as u64, counter as u64);
    let mut done = 0;
    // Streaming stores need aligned lines, so the first blocks are stored normally.
    let ahead = text.output.align_offset(LINE);
    let mut next_cut = if text.stream && ahead.is_multiple_of(BLOCK) { ahead } else { 0 };
    while done < text.length {
        // Vectors count in the low half only, so a run ends where it wraps.
        let until_wrap = (u128::from(u64::MAX - low) + 1) * BLOCK as u128;
        let mut run = usize::try_from(until_wrap).unwrap_or(usize::MAX).min(text.length - done);
        if next_cut > done {
            run = run.min(next_cut - done);
        } else {
            next_cut = 0;
        }
        // SAFETY: the caller's promise, and `done + run` is at most the length.
        unsafe {
            let mut step = Counting::<V, _, ROUNDS> { keys, next: V::counters(high, low) };
            let (input, output) = (text.input.add(done), text.output.add(done));
            step_through::<V, _>(&mut step, &Text { input, output, length: run, ..*text });
        }
        done += run;
        let carried;
        (low, carried) = low.overflowing_add((run / BLOCK) as u64);
        high = high.wrapping_add(u64::from(carried));
    }
}

/// The operation on the registers of a message, in order.
trait Step<V> {
    /// Replaces some consecutive registers' input by their output.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn apply<const N: usize>(&mut self, data: &mut [V; N]);
}

/// Applies a step to a text.
///
/// # Safety
/// The CPU has the instructions of `V`. `length` bytes may be read from the input and written
/// to the output, which does not overlap unless it is the same or begins before.
#[inline(always)]
unsafe fn step_through<V: Vector, S: Step<V>>(step: &mut S, text: &Text) {
    let &Text { input, output, length, .. } = text;
    let vector = V::BLOCKS * BLOCK;
    let stream = text.stream && output.addr().is_multiple_of(LINE);
    let mut done = 0;
    // SAFETY: each access ends at `length` or before, and every input is read before its place is
    // written to: no byte of the result is after its text's.
    unsafe {
        while length - done >= GROUPS * vector {
            let mut data = [V::load(input.add(done)); GROUPS];
            for group in 1..GROUPS {
                data[group] = V::load(input.add(done + group * vector));
            }
            step.apply(&mut data);
            for group in 0..GROUPS {
                let to = output.add(done + group * vector);
                if stream { data[group].stream(to) } else { data[group].store(to) }
            }
            done += GROUPS * vector;
        }
        while length - done >= vector {
            let mut data = [V::load(input.add(done))];
            step.apply(&mut data);
            data[0].store(output.add(done));
            done += vector;
        }
        if done < length {
            let mut data = [V::load_bytes(input.add(done), length - done)];
            step.apply(&mut data);
            data[0].store_bytes(output.add(done), length - done);
        }
    }
}

/// FIPS 197's cipher.
struct Encrypting<'k, K, const ROUNDS: usize>(&'k K);

impl<V: Vector, K: OneKey<V>, const ROUNDS: usize> Step<V> for Encrypting<'_, K, ROUNDS> {
    #[inline(always)]
    unsafe fn apply<const N: usize>(&mut self, data: &mut [V; N]) {
        // SAFETY: the caller's promise.
        unsafe { encrypt::<V, N, ROUNDS>(self.0, data) }
    }
}

/// FIPS 197's equivalent inverse cipher.
struct Decrypting<'k, K, const ROUNDS: usize>(&'k K);

impl<V: Vector, K: OneKey<V>, const ROUNDS: usize> Step<V> for Decrypting<'_, K, ROUNDS> {
    #[inline(always)]
    unsafe fn apply<const N: usize>(&mut self, data: &mut [V; N]) {
        // SAFETY: the caller's promise.
        unsafe { decrypt::<V, N, ROUNDS>(self.0, data) }
    }
}

/// CBC's step: adds the previous block to the result of the inverse cipher.
struct Unchaining<'k, V, K, const ROUNDS: usize> {
    keys: &'k K,
    /// The last register of ciphertext; initially, its last lane is the IV.
    previous: V,
}

impl<V: Vector, K: OneKey<V>, const ROUNDS: usize> Step<V> for Unchaining<'_, V, K, ROUNDS> {
    #[inline(always)]
    unsafe fn apply<const N: usize>(&mut self, data: &mut [V; N]) {
        let mut before = *data;
        for index in 0..N {
            before[index] = data[index].shift_in(self.previous);
            self.previous = data[index];
        }
        // SAFETY: the caller's promise.
        unsafe { decrypt::<V, N, ROUNDS>(self.keys, data) }
        for index in 0..N {
            data[index] = data[index].xor(before[index]);
        }
    }
}

/// CTR's step: adds the cipher of a counter.
struct Counting<'k, V, K, const ROUNDS: usize> {
    keys: &'k K,
    next: V,
}

impl<V: Vector, K: OneKey<V>, const ROUNDS: usize> Step<V> for Counting<'_, V, K, ROUNDS> {
    #[inline(always)]
    unsafe fn apply<const N: usize>(&mut self, data: &mut [V; N]) {
        let mut pad = *data;
        for index in 0..N {
            pad[index] = self.next.swap_bytes();
            self.next = self.next.add_to_counters(V::BLOCKS as u64);
        }
        // SAFETY: the caller's promise.
        unsafe { encrypt::<V, N, ROUNDS>(self.keys, &mut pad) }
        for index in 0..N {
            data[index] = data[index].xor(pad[index]);
        }
    }
}
