//! One block a register: AES-NI.

use std::arch::x86_64::*;

use zeroize::Zeroize;

use super::{BLOCK, Block, LINE_BLOCKS, Vector};

/// Needs AES-NI and SSE 4.1.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct AesNi(__m128i);

// SAFETY of every block below: the CPU has the instructions, because the caller of an unsafe
// constructor vouched for them and a safe method has a value that came from one. Memory is the
// caller's promise, and every access is as long as it is documented to be.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one proof for all, above")]
impl Vector for AesNi {
    const BLOCKS: usize = 1;
    const HAS_MANY_REGISTERS: bool = false;
    const HIGH_FIRST: bool = false;

    #[inline(always)]
    unsafe fn splat(block: &Block) -> Self {
        unsafe { Self::load(block.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
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
        unsafe { _mm_stream_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn finish_streaming() {
        unsafe { _mm_sfence() }
    }

    #[inline(always)]
    fn ask_to_read(address: *const u8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }

    #[inline(always)]
    fn ask_to_write(address: *mut u8) {
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(address.cast()) }
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        unsafe { Self(_mm_xor_si128(self.0, other.0)) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        unsafe { Self(_mm_and_si128(self.0, other.0)) }
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        unsafe { Self(_mm_aesenc_si128(self.0, key.0)) }
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        unsafe { Self(_mm_aesenclast_si128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        unsafe { Self(_mm_aesdec_si128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        unsafe { Self(_mm_aesdeclast_si128(self.0, key.0)) }
    }

    #[inline(always)]
    unsafe fn counters(high: u64, low: u64) -> Self {
        unsafe { Self(_mm_set_epi64x(high.cast_signed(), low.cast_signed())) }
    }

    #[inline(always)]
    fn add_to_counters(self, blocks: u64) -> Self {
        unsafe { Self(_mm_add_epi64(self.0, _mm_set_epi64x(0, blocks.cast_signed()))) }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        unsafe {
            let reversed = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            Self(_mm_shuffle_epi8(self.0, reversed))
        }
    }

    #[inline(always)]
    fn rotate_words(self) -> Self {
        unsafe {
            let rotated = _mm_set_epi8(12, 15, 14, 13, 8, 11, 10, 9, 4, 7, 6, 5, 0, 3, 2, 1);
            Self(_mm_shuffle_epi8(self.0, rotated))
        }
    }

    #[inline(always)]
    fn spread_word(self, index: usize) -> Self {
        unsafe {
            Self(match index {
                0 => _mm_shuffle_epi32::<0x00>(self.0),
                1 => _mm_shuffle_epi32::<0x55>(self.0),
                2 => _mm_shuffle_epi32::<0xAA>(self.0),
                _ => _mm_shuffle_epi32::<0xFF>(self.0),
            })
        }
    }

    #[inline(always)]
    fn columns([a, b, c, d]: [Self; 4]) -> Self {
        unsafe {
            let front = _mm_blend_epi16::<0x0C>(a.0, b.0);
            let back = _mm_blend_epi16::<0xC0>(c.0, d.0);
            Self(_mm_blend_epi16::<0xF0>(front, back))
        }
    }

    #[inline(always)]
    fn shift_in(self, previous: Self) -> Self {
        previous
    }
}
