//! The modes with independent blocks (NIST SP 800-38A), job by job: ECB, CTR, and CBC decryption.

use evener_core::{Cipher, Direction, Iv, Job, Key, Outcome, Padding, Rejection, padding};
use zeroize::Zeroize;

use super::SharedKeys;
use super::jobs::{admit, is_large};
use super::vector::{BLOCK, Block};

/// The keys and buffers of these modes.
pub(super) struct Work<'a> {
    pub(super) cipher: Cipher,
    pub(super) direction: Direction,
    /// The session's expanded key (inverted if the mode needs it).
    pub(super) shared: Option<&'a SharedKeys>,
    /// Buffer for a job's own key.
    pub(super) own: &'a mut SharedKeys,
    /// True if the output is known to exceed the caches.
    pub(super) stream: bool,
}

/// A mode in one direction.
pub(super) trait Mode {
    const KIND: Kind;

    /// True if it uses the keys of the inverse cipher.
    const INVERSE: bool = matches!(Self::KIND, Kind::EcbDecrypt | Kind::CbcDecrypt);

    /// Processes one job whose lengths were checked.
    ///
    /// # Safety
    /// The CPU has the instructions of `T`.
    unsafe fn run<T: Texts, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome;
}

/// A mode and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    EcbEncrypt,
    EcbDecrypt,
    CbcDecrypt,
    Ctr,
}

/// Code for these modes: registers of an instruction set, or code for eight blocks.
///
/// # Safety
/// The functions require that the CPU has the instructions of the implementing type, and that
/// `ROUNDS` is that of the keys.
pub(super) trait Texts {
    /// Expands a key of 16, 24 or 32 bytes for a mode.
    unsafe fn expand<M: Mode, const ROUNDS: usize>(keys: &mut SharedKeys, key: &[u8]);

    /// Transforms a text without padding. `length` bytes may be read from its input and written to
    /// its output, which does not overlap unless it is the same or begins before.
    unsafe fn transform<M: Mode, const ROUNDS: usize>(keys: &SharedKeys, text: &Text);

    /// Orders streamed writes before later writes. Called once at the end.
    unsafe fn finish();
}

/// Input and output of a text.
pub(super) struct Text {
    pub(super) iv: Block,
    pub(super) input: *const u8,
    pub(super) output: *mut u8,
    /// Length in bytes; whole blocks, except for CTR.
    pub(super) length: usize,
    /// True if the output is to be written past the caches.
    #[cfg_attr(target_arch = "arm", expect(dead_code, reason = "the kernel there can't"))]
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
/// The CPU has the instructions of `T`. `ROUNDS` is the cipher's. The message is whole blocks,
/// except for CTR.
#[inline(always)]
pub(super) unsafe fn transform_in_place<T: Texts, M: Mode, const ROUNDS: usize>(
    keys: &SharedKeys,
    iv: &Iv,
    data: &mut [u8],
) {
    let output = data.as_mut_ptr();
    let (iv, input, length) = (iv_block(iv), output.cast_const(), data.len());
    // SAFETY: the caller's promise; both pointers are to the borrowed bytes. Lines that have just
    // been read gain nothing from being written past the caches.
    unsafe { T::transform::<M, ROUNDS>(keys, &Text { iv, input, output, length, stream: false }) }
}

/// Processes every pending job with a key, and sets its outcome. Jobs without a key stay pending.
///
/// # Safety
/// The CPU has the instructions of `T`. `ROUNDS` is the cipher's.
#[inline(always)]
pub(super) unsafe fn process<T: Texts, M: Mode, const ROUNDS: usize>(
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
                T::expand::<M, ROUNDS>(work.own, key.bytes());
                expanded = Some(key);
            }
            let keys = match (job.key, work.shared) {
                (None, Some(shared)) => shared,
                _ => &*work.own,
            };
            job.outcome = M::run::<T, ROUNDS>(keys, job, stream);
        }
    }
    if stream {
        // SAFETY: the caller's promise.
        unsafe { T::finish() }
    }
}

/// ECB encryption.
pub(super) struct EcbEncrypt;

impl Mode for EcbEncrypt {
    const KIND: Kind = Kind::EcbEncrypt;

    #[inline(always)]
    unsafe fn run<T: Texts, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome {
        let text = Text::of(job, stream);
        // SAFETY: the output is as long as the text or longer; with padding, by a block.
        unsafe { T::transform::<Self, ROUNDS>(keys, &text) }
        if job.padding == Padding::None {
            return Outcome::Done { written: text.length };
        }
        let mut last = [0; BLOCK];
        padding::fill_last_block(&mut last, &job.input[text.length..]);
        let (input, output) = (last.as_ptr(), job.output[text.length..].as_mut_ptr());
        let block = Text { input, output, length: BLOCK, stream: false, ..text };
        // SAFETY: as above.
        unsafe { T::transform::<Self, ROUNDS>(keys, &block) }
        last.zeroize();
        Outcome::Done { written: text.length + BLOCK }
    }
}

/// ECB decryption.
pub(super) struct EcbDecrypt;

impl Mode for EcbDecrypt {
    const KIND: Kind = Kind::EcbDecrypt;

    #[inline(always)]
    unsafe fn run<T: Texts, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome {
        // SAFETY: the output is as long as the input or longer.
        unsafe { T::transform::<Self, ROUNDS>(keys, &Text::of(job, stream)) }
        unpadded(job)
    }
}

/// CBC decryption.
pub(super) struct CbcDecrypt;

impl Mode for CbcDecrypt {
    const KIND: Kind = Kind::CbcDecrypt;

    #[inline(always)]
    unsafe fn run<T: Texts, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome {
        // SAFETY: the output is as long as the input or longer.
        unsafe { T::transform::<Self, ROUNDS>(keys, &Text::of(job, stream)) }
        unpadded(job)
    }
}

/// CTR, the same in both directions.
pub(super) struct Ctr;

impl Mode for Ctr {
    const KIND: Kind = Kind::Ctr;

    #[inline(always)]
    unsafe fn run<T: Texts, const ROUNDS: usize>(
        keys: &SharedKeys,
        job: &mut Job<'_>,
        stream: bool,
    ) -> Outcome {
        let text = Text::of(job, stream);
        // SAFETY: the output is as long as the input or longer.
        unsafe { T::transform::<Self, ROUNDS>(keys, &text) }
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
