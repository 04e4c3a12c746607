//! The modes with independent blocks (NIST SP 800-38A): ECB, CTR, and CBC decryption, eight blocks
//! at a time. A rest at the end of a text takes as long as eight blocks.

use std::ptr;

use super::keys::Keys;
use super::sys::{self, Cipher};
use super::{Eight, LANES};
use crate::kernels::parallel::{Kind, Mode, Text, Texts};
use crate::kernels::vector::{BLOCK, Block, wipe};

/// This kernel.
pub(in crate::kernels) struct Bitsliced;

impl Texts for Bitsliced {
    unsafe fn expand<M: Mode, const ROUNDS: usize>(keys: &mut Keys, key: &[u8]) {
        // SAFETY: the caller's promise. The inverse cipher has the same keys.
        unsafe { keys.expand(&[key]) }
    }

    unsafe fn transform<M: Mode, const ROUNDS: usize>(keys: &Keys, text: &Text) {
        // SAFETY: the caller's promise.
        unsafe { transform(M::KIND, keys, text) }
    }

    unsafe fn finish() {}
}

/// Transforms a text without padding.
///
/// # Safety
/// The CPU has NEON. `length` bytes may be read from the text's input and written to its output,
/// which does not overlap unless it is the same or begins before; they are whole blocks, except for
/// CTR.
pub(super) unsafe fn transform(kind: Kind, keys: &Keys, text: &Text) {
    let &Text { input, output, length, .. } = text;
    let mut work = Work::new(kind, keys, text.iv);
    let whole = length - length % EIGHT;
    let mut done = 0;
    // SAFETY: each access ends at `length` or before. Every input is read before its place is
    // written to, since no byte of the result is after its text's.
    unsafe {
        while done < whole {
            work.eight(input.add(done), output.add(done));
            done += EIGHT;
        }
        if done < length {
            let mut rest = [[0; BLOCK]; LANES];
            let place = rest.as_mut_ptr().cast::<u8>();
            ptr::copy_nonoverlapping(input.add(done), place, length - done);
            work.eight(place, place);
            // The output may overlap the input, but not the copy.
            ptr::copy_nonoverlapping(place, output.add(done), length - done);
            wipe(&mut rest);
        }
    }
}

/// A text in progress.
struct Work<'k> {
    kind: Kind,
    keys: &'k Keys,
    /// CTR's next counter, and the last eight.
    counter: u128,
    counters: Eight,
    /// True if the next counters differ from `counters` in more than their last words.
    is_new: bool,
    /// The block of ciphertext, or the IV, that precedes the next blocks, and room for these.
    before: [Block; LANES + 1],
    /// The blocks to add to texts (CTR), or the texts' sums with the blocks before (CBC).
    made: Eight,
}

impl Work<'_> {
    fn new(kind: Kind, keys: &Keys, iv: Block) -> Work<'_> {
        Work {
            kind,
            keys,
            counter: u128::from_be_bytes(iv),
            counters: [iv; LANES],
            is_new: true,
            before: [iv; LANES + 1],
            made: [[0; BLOCK]; LANES],
        }
    }

    /// Transforms the next eight blocks.
    ///
    /// # Safety
    /// The CPU has NEON. The blocks may be read and written at the places; the output overlaps the
    /// input only if it is the same or begins before it.
    unsafe fn eight(&mut self, from: *const u8, to: *mut u8) {
        let made = self.made.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise; the arrays have eight blocks, and `before` one more.
        unsafe {
            match self.kind {
                Kind::EcbEncrypt => sys::process(Cipher::Forward, self.keys.sliced(), from, to),
                Kind::EcbDecrypt => sys::process(Cipher::Inverse, self.keys.sliced(), from, to),
                Kind::CbcDecrypt => {
                    let read = self.before[1..].as_mut_ptr().cast::<u8>();
                    ptr::copy_nonoverlapping(from, read, EIGHT);
                    sys::process(Cipher::Inverse, self.keys.sliced(), read, made);
                    sys::add(to, made, self.before.as_ptr().cast());
                    self.before[0] = self.before[LANES];
                }
                Kind::Ctr => {
                    self.count();
                    let counters = self.counters.as_ptr().cast();
                    sys::process(Cipher::Forward, self.keys.sliced(), counters, made);
                    sys::add(to, from, made);
                }
            }
        }
    }

    /// Makes the next eight counters.
    fn count(&mut self) {
        let low = self.counter as u32;
        if self.is_new || low > u32::MAX - LANES as u32 {
            for (lane, counter) in self.counters.iter_mut().enumerate() {
                *counter = self.counter.wrapping_add(lane as u128).to_be_bytes();
            }
        } else {
            for (lane, counter) in self.counters.iter_mut().enumerate() {
                counter[BLOCK - 4..].copy_from_slice(&(low + lane as u32).to_be_bytes());
            }
        }
        self.counter = self.counter.wrapping_add(LANES as u128);
        // The words before the last one change then.
        self.is_new = (self.counter as u32) < LANES as u32;
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        wipe(&mut self.made);
    }
}

/// Length of eight blocks in bytes.
const EIGHT: usize = LANES * BLOCK;
