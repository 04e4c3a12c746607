//! The functions of `neon.s`: AES of eight blocks at once.
//!
//! They are in assembly because for 32-bit ARM stable Rust has neither NEON's intrinsics nor the
//! target feature, and the target does not imply NEON.

use std::arch::global_asm;

use zeroize::Zeroize;

use super::{Eight, LANES};
use crate::kernels::vector::BLOCK;

global_asm!(include_str!("circuits.s"), include_str!("neon.s"), options(raw));

/// The positions of eight messages in CBC encryption.
#[repr(C, align(16))]
pub(super) struct Chains {
    /// The addresses of their next blocks.
    pub(super) input: [*const u8; LANES],
    pub(super) output: [*mut u8; LANES],
    /// Their last blocks of ciphertext, or IVs.
    pub(super) last: Eight,
}

/// The direction of the cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cipher {
    Forward,
    Inverse,
}

unsafe extern "C" {
    fn evener_lanes_neon_encrypt(keys: *const Eight, rounds: usize, from: *const u8, to: *mut u8);
    fn evener_lanes_neon_decrypt(keys: *const Eight, rounds: usize, from: *const u8, to: *mut u8);
    fn evener_lanes_neon_chain(
        keys: *const Eight,
        rounds: usize,
        chains: *mut Chains,
        blocks: usize,
    );
    fn evener_lanes_neon_add(to: *mut u8, one: *const u8, other: *const u8);
    fn evener_lanes_neon_slice(blocks: *mut Eight);
}

/// Encrypts or decrypts eight blocks, reading all of them before it writes any.
///
/// # Safety
/// The CPU has NEON. `keys` are at least two. Eight blocks may be read from `from`, and written to
/// `to`.
pub(super) unsafe fn process(cipher: Cipher, keys: &[Eight], from: *const u8, to: *mut u8) {
    let rounds = keys.len() - 1;
    // SAFETY: the caller's promise; there are `rounds + 1` keys, of eight planes of 16 bytes each.
    unsafe {
        match cipher {
            Cipher::Forward => evener_lanes_neon_encrypt(keys.as_ptr(), rounds, from, to),
            Cipher::Inverse => evener_lanes_neon_decrypt(keys.as_ptr(), rounds, from, to),
        }
    }
}

/// FIPS 197's SubWord of each lane's word.
///
/// # Safety
/// The CPU has NEON.
pub(super) unsafe fn substitute(words: [[u8; 4]; LANES]) -> [[u8; 4]; LANES] {
    // A cipher of one round, which has no MixColumns. ShiftRows changes nothing if all four columns
    // are the same word; the result has the rows one after another.
    let mut blocks = words.map(|word| [word; 4]);
    let place = blocks.as_mut_ptr().cast::<u8>();
    // SAFETY: the caller's promise; two keys and eight blocks exist.
    unsafe { evener_lanes_neon_encrypt(COMPLEMENT.0.as_ptr(), 1, place, place) }
    let rows = blocks.map(|block| [0, 1, 2, 3].map(|row| block[row][0]));
    blocks.as_flattened_mut().as_flattened_mut().zeroize();
    rows
}

/// The keys of SubWord as bits: zero, and the complements.
static COMPLEMENT: Complement = Complement([[[0; BLOCK]; LANES], {
    let (on, off) = ([0xFF; BLOCK], [0; BLOCK]);
    [on, on, off, off, off, on, on, off]
}]);

#[repr(C, align(16))]
struct Complement([Eight; 2]);

/// Encrypts this many blocks, at least one, of each of eight messages in CBC, and advances the
/// pointers. Each message's block is read before it is written.
///
/// # Safety
/// The CPU has NEON. `keys` are at least two. This many blocks may be read and written at the
/// addresses. Messages write to different places, or their output is not needed.
pub(super) unsafe fn chain(keys: &[Eight], chains: &mut Chains, blocks: usize) {
    // SAFETY: the caller's promise, and as in `process`.
    unsafe { evener_lanes_neon_chain(keys.as_ptr(), keys.len() - 1, chains, blocks) }
}

/// Writes the sum (exclusive or) of eight blocks and eight blocks. Two of each are read, and their
/// sum is written, before the next two.
///
/// # Safety
/// The CPU has NEON. The blocks may be read and written; the output overlaps an input only if it is
/// the same or begins before it.
pub(super) unsafe fn add(to: *mut u8, one: *const u8, other: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { evener_lanes_neon_add(to, one, other) }
}

/// Turns eight blocks into bits: 16 bytes for each bit of a byte; bit `i` of them is block `i`'s.
///
/// # Safety
/// The CPU has NEON.
pub(super) unsafe fn slice(blocks: &mut Eight) {
    // SAFETY: the caller's promise; the assembly reads and writes these eight blocks.
    unsafe { evener_lanes_neon_slice(blocks) }
}
