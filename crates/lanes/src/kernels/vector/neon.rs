//! One block a register: the ARMv8 cryptographic extension.
//!
//! Its AESE adds the round key first, where the x86 instruction adds it last. A zero key there
//! and an exclusive or here give the same round; the compiler folds the exclusive or into the
//! next AESE.

use std::arch::aarch64::*;

use zeroize::Zeroize;

use super::{BLOCK, Block, LINE_BLOCKS, Vector};

/// Needs the AES instructions of ARMv8.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Neon(uint8x16_t);

// SAFETY of every block below: the CPU has the instructions, because the caller of an unsafe
// constructor vouched for them and a safe method has a value that came from one. Memory is the
// caller's promise, and every access is as long as it is documented to be.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one proof for all, above")]
impl Vector for Neon {
    const BLOCKS: usize = 1;

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

    // There is no stable intrinsic; the kernel does without.
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
        unsafe { Self(vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)))) }
    }

    #[inline(always)]
    fn add_to_counters(self, blocks: u64) -> Self {
        unsafe {
            let blocks = vcombine_u64(vcreate_u64(blocks), vcreate_u64(0));
            Self(vreinterpretq_u8_u64(vaddq_u64(vreinterpretq_u64_u8(self.0), blocks)))
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        unsafe {
            let halves = vrev64q_u8(self.0);
            Self(vextq_u8::<8>(halves, halves))
        }
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
