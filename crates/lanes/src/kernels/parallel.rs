//! The modes with independent blocks (NIST SP 800-38A): ECB, CTR, and CBC decryption.
//!
//! A message of 32 blocks or more fills the AES units by itself. Shorter messages are independent
//! of each other, so out-of-order execution overlaps several of them: with four blocks per
//! register, the 42 cycles of one message's rounds are 20 or 30 instructions, and the CPU looks 450
//! instructions ahead.

use evener_core::{Cipher, Direction, Iv, Job, Key, Outcome, Padding, Rejection, padding};
use zeroize::Zeroize;

use super::cbc_lanes::Shared;
use super::jobs::{admit, is_large};
use super::rounds::{decrypt, encrypt, is_straight};
use super::schedule::{OneKey, SharedKeys};
use super::vector::{BLOCK, Block, Vector};

/// Number of registers that the loop over a long message processes at once.
const GROUPS: usize = 8;

/// Alignment in bytes that streaming needs.
const LINE: usize = 64;

/// The keys and buffers of these modes.
pub(super) struct Work<'a> {
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
    /// The session's expanded key (inverted if the mode needs it).
    pub(super) shared: Option<&'a SharedKeys>,
    /// Buffer for a job's own key.
    pub(super) own: &'a mut SharedKeys,
    /// Whether the output is known to exceed the caches.
    pub(super) stream: bool,
}

/// A mode in one direction.
pub(super) trait Mode {
    /// Whether it uses the keys of the inverse cipher.
    const INVERSE: bool;

    /// Transforms a text without padding. Where instructions take no operands from memory and there
    /// are registers enough, a long text's keys are in these.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. `length` bytes may be read from the text's input
    /// and written to its output, which does not overlap unless it is the same or begins before.
    #[inline(always)]
    unsafe fn transform<V: Vector, const ROUNDS: usize>(keys: &impl OneKey<V>, text: &Text) {
        // SAFETY: the caller's promise.
        unsafe {
            if is_straight::<V>() && text.length >= GROUPS * BLOCK {
                let keys = Shared::<V>::load::<ROUNDS>(keys);
                Self::transform_with::<V, ROUNDS>(&keys, text)
            } else {
                Self::transform_with::<V, ROUNDS>(keys, text)
            }
        }
    }

    /// [`Mode::transform`] with the keys as they serve best.
    ///
    /// # Safety
    /// As for that.
    unsafe fn transform_with<V: Vector, const ROUNDS: usize>(keys: &impl OneKey<V>, text: &Text);

    /// Processes one job whose lengths were checked.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn run<V: Vector, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome;
}

/// Input and output of a text.
pub(super) struct Text {
    pub(super) iv: Block,
    pub(super) input: *const u8,
    pub(super) output: *mut u8,
    /// In bytes; whole blocks, except for CTR.
    pub(super) length: usize,
    /// Whether to write past the caches.
    pub(super) stream: bool,
}

impl Text {
    /// A whole job, except the last block if the message is padded. The job's lengths were checked,
    /// so the output is at least as long as the input.
    #[inline(always)]
    fn of(job: &mut Job<'_>, stream: bool) -> Text {
        let length = match job.padding {
            Padding::None => job.input.len(),
            Padding::Pkcs7 => job.input.len() / BLOCK * BLOCK,
        };
        let (input, output) = (job.input.as_ptr(), job.output.as_mut_ptr());
        Text { iv: iv_block(&job.iv), input, output, length, stream }
    }
}

/// Transforms a message in place.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is the cipher's. The message is whole blocks,
/// except for CTR.
#[inline(always)]
pub(super) unsafe fn transform_in_place<V: Vector, M: Mode, const ROUNDS: usize>(
    keys: &SharedKeys,
    iv: &Iv,
    data: &mut [u8],
) {
    let output = data.as_mut_ptr();
    let (iv, input, length) = (iv_block(iv), output.cast_const(), data.len());
    // SAFETY: the caller's promise; both pointers are to the borrowed bytes. Around the caches
    // is no shorter way for lines that have just been read.
    unsafe { M::transform::<V, ROUNDS>(keys, &Text { iv, input, output, length, stream: false }) }
}

/// Processes every pending job with a key, and sets its outcome. Jobs without a key stay pending.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is the cipher's.
#[inline(always)]
pub(super) unsafe fn process<V: Vector, M: Mode, const ROUNDS: usize>(
    work: &mut Work<'_>,
    batch: &mut [Job<'_>],
) {
    let stream = work.stream || is_large(batch);
    // Successive jobs often share their key, for example as segments of one file. The references
    // live until the batch is done, so equal addresses are equal keys.
    let mut expanded: Option<&Key> = None;
    for job in batch {
        if job.outcome != Outcome::Pending {
            continue;
        }
        if job.key.is_none() && work.shared.is_none() {
            continue;
        }
        if !admit(job, work.cipher, work.direction) {
            continue;
        }
        // SAFETY: the caller's promise; the key's length has been checked.
        unsafe {
            if let Some(key) = job.key
                && !expanded.is_some_and(|last| std::ptr::eq(last, key))
            {
                work.own.expand_shared::<V>(key.bytes());
                if M::INVERSE {
                    work.own.invert::<V>(ROUNDS);
                }
                expanded = Some(key);
            }
            let keys = match (job.key, work.shared) {
                (None, Some(shared)) => shared,
                _ => &*work.own,
            };
            job.outcome = M::run::<V, ROUNDS>(keys, job, stream);
        }
    }
    if stream {
        // SAFETY: the caller's promise.
        unsafe { V::finish_streaming() }
    }
}

/// ECB encryption.
pub(super) struct EcbEncrypt;

impl Mode for EcbEncrypt {
    const INVERSE: bool = false;

    #[inline(always)]
    unsafe fn transform_with<V: Vector, const ROUNDS: usize>(keys: &impl OneKey<V>, text: &Text) {
        // SAFETY: the caller's promise.
        unsafe { transform::<V, _>(&mut Encrypting::<_, ROUNDS>(keys), text) }
    }

    #[inline(always)]
    unsafe fn run<V: Vector, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome {
        let text = Text::of(job, stream);
        // SAFETY: the output is as long as the text or longer; with padding, by a block.
        unsafe { Self::transform::<V, ROUNDS>(keys, &text) }
        if job.padding == Padding::None {
            return Outcome::Done { written: text.length };
        }
        let mut last = [0; BLOCK];
        padding::fill_last_block(&mut last, &job.input[text.length..]);
        let (input, output) = (last.as_ptr(), job.output[text.length..].as_mut_ptr());
        let block = Text { input, output, length: BLOCK, stream: false, ..text };
        // SAFETY: as above.
        unsafe { Self::transform::<V, ROUNDS>(keys, &block) }
        last.zeroize();
        Outcome::Done { written: text.length + BLOCK }
    }
}

/// ECB decryption.
pub(super) struct EcbDecrypt;

impl Mode for EcbDecrypt {
    const INVERSE: bool = true;

    #[inline(always)]
    unsafe fn transform_with<V: Vector, const ROUNDS: usize>(keys: &impl OneKey<V>, text: &Text) {
        // SAFETY: the caller's promise.
        unsafe { transform::<V, _>(&mut Decrypting::<_, ROUNDS>(keys), text) }
    }

    #[inline(always)]
    unsafe fn run<V: Vector, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome {
        // SAFETY: the output is as long as the input or longer.
        unsafe { Self::transform::<V, ROUNDS>(keys, &Text::of(job, stream)) }
        unpadded(job)
    }
}

/// CBC decryption.
pub(super) struct CbcDecrypt;

impl Mode for CbcDecrypt {
    const INVERSE: bool = true;

    #[inline(always)]
    unsafe fn transform_with<V: Vector, const ROUNDS: usize>(keys: &impl OneKey<V>, text: &Text) {
        // SAFETY: the caller's promise.
        unsafe {
            let previous = V::splat(&text.iv);
            transform::<V, _>(&mut Unchaining::<V, _, ROUNDS> { keys, previous }, text);
        }
    }

    #[inline(always)]
    unsafe fn run<V: Vector, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome {
        // SAFETY: the output is as long as the input or longer.
        unsafe { Self::transform::<V, ROUNDS>(keys, &Text::of(job, stream)) }
        unpadded(job)
    }
}

/// CTR, which is the same in both directions.
pub(super) struct Ctr;

impl Mode for Ctr {
    const INVERSE: bool = false;

    #[inline(always)]
    unsafe fn transform_with<V: Vector, const ROUNDS: usize>(keys: &impl OneKey<V>, text: &Text) {
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
                transform::<V, _>(&mut step, &Text { input, output, length: run, ..*text });
            }
            done += run;
            let carried;
            (low, carried) = low.overflowing_add((run / BLOCK) as u64);
            high = high.wrapping_add(u64::from(carried));
        }
    }

    #[inline(always)]
    unsafe fn run<V: Vector, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome {
        let text = Text::of(job, stream);
        // SAFETY: the output is as long as the input or longer.
        unsafe { Self::transform::<V, ROUNDS>(keys, &text) }
        Outcome::Done { written: text.length }
    }
}

/// The IV of a job whose lengths were checked: a block, or nothing for ECB.
#[inline(always)]
fn iv_block(iv: &Iv) -> Block {
    iv.bytes().first_chunk().copied().unwrap_or_default()
}

/// The outcome of a decrypted job: the message's length without padding. A message with malformed
/// padding is wiped.
#[inline(always)]
fn unpadded(job: &mut Job<'_>) -> Outcome {
    let length = job.input.len();
    if job.padding == Padding::None {
        return Outcome::Done { written: length };
    }
    let message = &mut job.output[..length];
    match message.last_chunk::<BLOCK>().and_then(|last| padding::padding_length(last)) {
        Some(padding) => Outcome::Done { written: length - padding },
        None => {
            message.zeroize();
            Outcome::Rejected(Rejection::Padding)
        }
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
unsafe fn transform<V: Vector, S: Step<V>>(step: &mut S, text: &Text) {
    let &Text { input, output, length, .. } = text;
    let vector = V::BLOCKS * BLOCK;
    let stream = text.stream && output.addr().is_multiple_of(LINE);
    let mut done = 0;
    // SAFETY: each access ends at `length` or before, and what is read is read before its place
    // is written to: no byte of the result lies behind its text's.
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
    /// The last register of ciphertext; in its last lane, at first, the IV.
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
