//! One block a register: the ARMv8 cryptographic extension.
//!
//! One instruction reverses the bytes of each half of a register, and two those of the whole, so
//! numbers have their upper half first.
//!
//! Its AESE adds the round key first, where the x86 instruction adds it last. A zero key there
//! and an exclusive or here give the same round; the compiler folds the exclusive or into the
//! next AESE.

use std::arch::aarch64::*;
use std::arch::asm;

use zeroize::Zeroize;

use super::{BLOCK, Block, Carryless, LINE_BLOCKS, MAX_BLOCKS, Vector};

/// Needs the AES instructions of ARMv8, and with `SHA3` those of SHA3, one of which adds three
/// registers.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Neon<const SHA3: bool>(uint8x16_t);

// SAFETY of every block below: the CPU has the instructions, because the caller of an unsafe
// constructor vouched for them and a safe method has a value that came from one. Memory is the
// caller's promise, and every access is as long as it is documented to be.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one proof for all, above")]
impl<const SHA3: bool> Vector for Neon<SHA3> {
    const BLOCKS: usize = 1;
    const HAS_MANY_REGISTERS: bool = true;
    const HIGH_FIRST: bool = true;

    #[inline(always)]
    unsafe fn splat(block: &Block) -> Self {
        unsafe { Self::load(block.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(vld1q_u8(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, count: usize) -> Self {
        let mut bytes = [0; BLOCK];
        unsafe {
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count.min(BLOCK));
            let loaded = Self::load(bytes.as_ptr());
            bytes.zeroize();
            loaded
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, count: usize) {
        let mut bytes = [0; BLOCK];
        unsafe {
            self.store(bytes.as_mut_ptr());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count.min(BLOCK));
        }
        bytes.zeroize();
    }

    #[inline(always)]
    unsafe fn gather(from: &[*const u8], offset: usize) -> Self {
        unsafe { Self::load(from[0].wrapping_add(offset)) }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: &[*mut u8], offset: usize) {
        unsafe { self.store(to[0].wrapping_add(offset)) }
    }

    #[inline(always)]
    unsafe fn gather_lines(from: &[*const u8], offset: usize) -> [Self; LINE_BLOCKS] {
        unsafe {
            [
                Self::load(from[0].wrapping_add(offset)),
                Self::load(from[0].wrapping_add(offset + BLOCK)),
                Self::load(from[0].wrapping_add(offset + 2 * BLOCK)),
                Self::load(from[0].wrapping_add(offset + 3 * BLOCK)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn scatter_lines(lines: [Self; LINE_BLOCKS], to: &[*mut u8], offset: usize) {
        for block in 0..LINE_BLOCKS {
            unsafe { lines[block].store(to[0].wrapping_add(offset + block * BLOCK)) }
        }
    }

    #[inline(always)]
    unsafe fn stream_lines(lines: [Self; LINE_BLOCKS], to: &[*mut u8], offset: usize) {
        for block in 0..LINE_BLOCKS {
            unsafe { lines[block].stream(to[0].wrapping_add(offset + block * BLOCK)) }
        }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        unsafe { self.store(to) }
    }

    #[inline(always)]
    unsafe fn finish_streaming() {}

    // There is no stable intrinsic, so the kernel does not prefetch.
    #[inline(always)]
    fn ask_to_read(_address: *const u8) {}

    #[inline(always)]
    fn ask_to_write(_address: *mut u8) {}

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        unsafe { Self(veorq_u8(self.0, other.0)) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        unsafe { Self(vandq_u8(self.0, other.0)) }
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        unsafe { Self(encrypt_round(self.0, key.0)) }
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        unsafe { Self(encrypt_last(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        unsafe { Self(decrypt_round(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        unsafe { Self(decrypt_last(self.0, key.0)) }
    }

    #[inline(always)]
    unsafe fn counters(high: u64, low: u64) -> Self {
        unsafe { Self(vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(high), vcreate_u64(low)))) }
    }

    #[inline(always)]
    fn add_to_counters(self, blocks: u64) -> Self {
        unsafe {
            let blocks = vcombine_u64(vcreate_u64(0), vcreate_u64(blocks));
            Self(vreinterpretq_u8_u64(vaddq_u64(vreinterpretq_u64_u8(self.0), blocks)))
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        unsafe { Self(vrev64q_u8(self.0)) }
    }

    #[inline(always)]
    fn rotate_words(self) -> Self {
        unsafe {
            let words = vreinterpretq_u32_u8(self.0);
            let rotated = vorrq_u32(vshrq_n_u32::<8>(words), vshlq_n_u32::<24>(words));
            Self(vreinterpretq_u8_u32(rotated))
        }
    }

    #[inline(always)]
    fn spread_word(self, index: usize) -> Self {
        unsafe {
            let words = vreinterpretq_u32_u8(self.0);
            Self(vreinterpretq_u8_u32(match index {
                0 => vdupq_laneq_u32::<0>(words),
                1 => vdupq_laneq_u32::<1>(words),
                2 => vdupq_laneq_u32::<2>(words),
                _ => vdupq_laneq_u32::<3>(words),
            }))
        }
    }

    #[inline(always)]
    fn columns([a, b, c, d]: [Self; 4]) -> Self {
        unsafe {
            let words = vreinterpretq_u32_u8(a.0);
            let words = vcopyq_laneq_u32::<1, 1>(words, vreinterpretq_u32_u8(b.0));
            let words = vcopyq_laneq_u32::<2, 2>(words, vreinterpretq_u32_u8(c.0));
            Self(vreinterpretq_u8_u32(vcopyq_laneq_u32::<3, 3>(words, vreinterpretq_u32_u8(d.0))))
        }
    }

    #[inline(always)]
    fn shift_in(self, previous: Self) -> Self {
        previous
    }
}

// SAFETY: as above. The CPU has PMULL, since only carry-less kernels call these.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one proof for all, above")]
impl<const SHA3: bool> Carryless for Neon<SHA3> {
    #[inline(always)]
    unsafe fn load_block(block: &Block) -> Self {
        unsafe { Self::splat(block) }
    }

    #[inline(always)]
    fn block(self) -> Block {
        let mut block = [0; BLOCK];
        unsafe { self.store(block.as_mut_ptr()) }
        block
    }

    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        unsafe { Self(multiply_upper(self.0, other.0)) }
    }

    #[inline(always)]
    fn multiply_high(self, other: Self) -> Self {
        unsafe { Self(multiply_lower(self.0, other.0)) }
    }

    #[inline(always)]
    fn multiply_low_by_high(self, other: Self) -> Self {
        unsafe { Self(multiply_lower(self.0, vextq_u8::<8>(other.0, other.0))) }
    }

    #[inline(always)]
    fn to_number(self) -> Self {
        self.swap_halves()
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        unsafe { Self(vextq_u8::<8>(self.0, self.0)) }
    }

    #[inline(always)]
    fn subtract_from_counters(self, other: Self) -> Self {
        unsafe {
            let (one, other) = (vreinterpretq_u64_u8(self.0), vreinterpretq_u64_u8(other.0));
            Self(vreinterpretq_u8_u64(vsubq_u64(one, other)))
        }
    }

    #[inline(always)]
    fn diagonal([row, ..]: [Self; MAX_BLOCKS]) -> Self {
        row
    }

    #[inline(always)]
    fn sum_lanes([row, ..]: [Self; MAX_BLOCKS]) -> Self {
        row
    }

    #[inline(always)]
    fn truncated(self, count: usize) -> Self {
        const PLACES: Block = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        unsafe {
            let count = vdupq_n_u8(count.min(BLOCK) as u8);
            Self(vandq_u8(self.0, vcltq_u8(vld1q_u8(PLACES.as_ptr()), count)))
        }
    }

    #[inline(always)]
    fn fold_two(self, other: Self) -> Self {
        unsafe {
            let (one, other) = (vreinterpretq_u64_u8(self.0), vreinterpretq_u64_u8(other.0));
            let sums = veorq_u64(vtrn1q_u64(one, other), vtrn2q_u64(one, other));
            Self(vreinterpretq_u8_u64(sums))
        }
    }

    #[inline(always)]
    fn plus(self, one: Self, other: Self) -> Self {
        unsafe {
            Self(if SHA3 {
                add_three(self.0, one.0, other.0)
            } else {
                add_two(self.0, one.0, other.0)
            })
        }
    }

    #[inline(always)]
    fn differing_lanes(self, other: Self) -> u32 {
        unsafe { u32::from(vmaxvq_u8(veorq_u8(self.0, other.0)) != 0) }
    }
}

// The compiler inlines these instructions into functions that have their feature, and only such
// functions into a kernel's entry.

#[inline]
#[target_feature(enable = "neon,aes")]
fn encrypt_round(block: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    veorq_u8(vaesmcq_u8(vaeseq_u8(block, vdupq_n_u8(0))), key)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn encrypt_last(block: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    veorq_u8(vaeseq_u8(block, vdupq_n_u8(0)), key)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn decrypt_round(block: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    veorq_u8(vaesimcq_u8(vaesdq_u8(block, vdupq_n_u8(0))), key)
}

#[inline]
#[target_feature(enable = "neon,aes")]
fn decrypt_last(block: uint8x16_t, key: uint8x16_t) -> uint8x16_t {
    veorq_u8(vaesdq_u8(block, vdupq_n_u8(0)), key)
}

#[inline]
#[target_feature(enable = "neon,sha3")]
fn add_three(one: uint8x16_t, other: uint8x16_t, third: uint8x16_t) -> uint8x16_t {
    veor3q_u8(one, other, third)
}

// In assembly: the compiler would load a factor's halves with an instruction for each, and would
// reorder sums so that it must keep more of them.

/// Adds two to a sum.
#[inline]
#[target_feature(enable = "neon")]
fn add_two(mut sum: uint8x16_t, one: uint8x16_t, other: uint8x16_t) -> uint8x16_t {
    // SAFETY: the instructions have no other effect.
    unsafe {
        asm!("eor {0:v}.16b, {0:v}.16b, {1:v}.16b", "eor {0:v}.16b, {0:v}.16b, {2:v}.16b",
            inout(vreg) sum, in(vreg) one, in(vreg) other,
            options(pure, nomem, nostack, preserves_flags));
    }
    sum
}

/// The product of the registers' lower halves.
#[inline]
#[target_feature(enable = "neon,aes")]
fn multiply_lower(one: uint8x16_t, other: uint8x16_t) -> uint8x16_t {
    let product;
    // SAFETY: the instruction has no other effect.
    unsafe {
        asm!("pmull {0:v}.1q, {1:v}.1d, {2:v}.1d", lateout(vreg) product, in(vreg) one,
            in(vreg) other, options(pure, nomem, nostack, preserves_flags));
    }
    product
}

/// The product of the registers' upper halves.
#[inline]
#[target_feature(enable = "neon,aes")]
fn multiply_upper(one: uint8x16_t, other: uint8x16_t) -> uint8x16_t {
    let product;
    // SAFETY: the instruction has no other effect.
    unsafe {
        asm!("pmull2 {0:v}.1q, {1:v}.2d, {2:v}.2d", lateout(vreg) product, in(vreg) one,
            in(vreg) other, options(pure, nomem, nostack, preserves_flags));
    }
    product
}
