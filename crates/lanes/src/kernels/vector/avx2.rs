//! Two blocks a register: VAES on AVX2.

use std::arch::x86_64::*;

use zeroize::Zeroize;

use super::{BLOCK, Block, Carryless, LINE_BLOCKS, MAX_BLOCKS, Vector};

/// Needs AVX2, VAES and VPCLMULQDQ.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct VaesAvx2(__m256i);

const BYTES: usize = 2 * BLOCK;

// SAFETY of every block below: the CPU has the instructions, because the caller of an unsafe
// constructor vouched for them and a safe method has a value that came from one. Memory is the
// caller's promise, and every access is as long as it is documented to be.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one proof for all, above")]
impl Vector for VaesAvx2 {
    const BLOCKS: usize = 2;
    const HAS_MANY_REGISTERS: bool = false;
    const HIGH_FIRST: bool = false;

    #[inline(always)]
    unsafe fn splat(block: &Block) -> Self {
        unsafe { Self(_mm256_broadcastsi128_si256(_mm_loadu_si128(block.as_ptr().cast()))) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, count: usize) -> Self {
        if count == BLOCK {
            // The only rest that modes of whole blocks have.
            return unsafe { Self(_mm256_zextsi128_si256(_mm_loadu_si128(from.cast()))) };
        }
        let mut bytes = [0; BYTES];
        unsafe {
            std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), count.min(BYTES));
            let loaded = Self::load(bytes.as_ptr());
            bytes.zeroize();
            loaded
        }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, count: usize) {
        if count == BLOCK {
            return unsafe { _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0)) };
        }
        let mut bytes = [0; BYTES];
        unsafe {
            self.store(bytes.as_mut_ptr());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, count.min(BYTES));
        }
        bytes.zeroize();
    }

    #[inline(always)]
    unsafe fn gather(from: &[*const u8], offset: usize) -> Self {
        unsafe {
            let first = _mm_loadu_si128(from[0].wrapping_add(offset).cast());
            let second = _mm_loadu_si128(from[1].wrapping_add(offset).cast());
            Self(_mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second))
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: &[*mut u8], offset: usize) {
        unsafe {
            _mm_storeu_si128(to[0].wrapping_add(offset).cast(), _mm256_castsi256_si128(self.0));
            _mm_storeu_si128(
                to[1].wrapping_add(offset).cast(),
                _mm256_extracti128_si256::<1>(self.0),
            );
        }
    }

    #[inline(always)]
    unsafe fn gather_lines(from: &[*const u8], offset: usize) -> [Self; LINE_BLOCKS] {
        unsafe {
            transpose([
                Self::load(from[0].wrapping_add(offset)),
                Self::load(from[1].wrapping_add(offset)),
                Self::load(from[0].wrapping_add(offset + BYTES)),
                Self::load(from[1].wrapping_add(offset + BYTES)),
            ])
        }
    }

    #[inline(always)]
    unsafe fn scatter_lines(lines: [Self; LINE_BLOCKS], to: &[*mut u8], offset: usize) {
        let [first, second, first_end, second_end] = transpose(lines);
        unsafe {
            first.store(to[0].wrapping_add(offset));
            first_end.store(to[0].wrapping_add(offset + BYTES));
            second.store(to[1].wrapping_add(offset));
            second_end.store(to[1].wrapping_add(offset + BYTES));
        }
    }

    #[inline(always)]
    unsafe fn stream_lines(lines: [Self; LINE_BLOCKS], to: &[*mut u8], offset: usize) {
        let [first, second, first_end, second_end] = transpose(lines);
        unsafe {
            first.stream(to[0].wrapping_add(offset));
            first_end.stream(to[0].wrapping_add(offset + BYTES));
            second.stream(to[1].wrapping_add(offset));
            second_end.stream(to[1].wrapping_add(offset + BYTES));
        }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        unsafe { _mm256_stream_si256(to.cast(), self.0) }
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
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        unsafe { Self(_mm256_and_si256(self.0, other.0)) }
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        unsafe { Self(_mm256_aesenc_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        unsafe { Self(_mm256_aesenclast_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        unsafe { Self(_mm256_aesdec_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        unsafe { Self(_mm256_aesdeclast_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    unsafe fn counters(high: u64, low: u64) -> Self {
        let (high, next) = (high.cast_signed(), low.wrapping_add(1).cast_signed());
        unsafe { Self(_mm256_set_epi64x(high, next, high, low.cast_signed())) }
    }

    #[inline(always)]
    fn add_to_counters(self, blocks: u64) -> Self {
        let blocks = blocks.cast_signed();
        unsafe { Self(_mm256_add_epi64(self.0, _mm256_set_epi64x(0, blocks, 0, blocks))) }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        unsafe {
            let reversed = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            Self(_mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(reversed)))
        }
    }

    #[inline(always)]
    fn rotate_words(self) -> Self {
        unsafe {
            let rotated = _mm_set_epi8(12, 15, 14, 13, 8, 11, 10, 9, 4, 7, 6, 5, 0, 3, 2, 1);
            Self(_mm256_shuffle_epi8(self.0, _mm256_broadcastsi128_si256(rotated)))
        }
    }

    #[inline(always)]
    fn spread_word(self, index: usize) -> Self {
        unsafe {
            Self(match index {
                0 => _mm256_shuffle_epi32::<0x00>(self.0),
                1 => _mm256_shuffle_epi32::<0x55>(self.0),
                2 => _mm256_shuffle_epi32::<0xAA>(self.0),
                _ => _mm256_shuffle_epi32::<0xFF>(self.0),
            })
        }
    }

    #[inline(always)]
    fn columns([a, b, c, d]: [Self; 4]) -> Self {
        unsafe {
            let front = _mm256_blend_epi32::<0x22>(a.0, b.0);
            let back = _mm256_blend_epi32::<0x88>(c.0, d.0);
            Self(_mm256_blend_epi32::<0xCC>(front, back))
        }
    }

    #[inline(always)]
    fn shift_in(self, previous: Self) -> Self {
        unsafe { Self(_mm256_permute2x128_si256::<0x21>(previous.0, self.0)) }
    }
}

/// Transposes two lines of four blocks in four registers: from the order by half line and lane to
/// that by position, and back.
#[inline(always)]
fn transpose([a, b, c, d]: [VaesAvx2; 4]) -> [VaesAvx2; 4] {
    // SAFETY: the values prove the instructions.
    unsafe {
        [
            VaesAvx2(_mm256_permute2x128_si256::<0x20>(a.0, b.0)),
            VaesAvx2(_mm256_permute2x128_si256::<0x31>(a.0, b.0)),
            VaesAvx2(_mm256_permute2x128_si256::<0x20>(c.0, d.0)),
            VaesAvx2(_mm256_permute2x128_si256::<0x31>(c.0, d.0)),
        ]
    }
}

// SAFETY of every block below: a value proves the instructions.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one proof for all, above")]
impl Carryless for VaesAvx2 {
    #[inline(always)]
    unsafe fn load_block(block: &Block) -> Self {
        unsafe { Self(_mm256_zextsi128_si256(_mm_loadu_si128(block.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn block(self) -> Block {
        let mut block = [0; BLOCK];
        unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), _mm256_castsi256_si128(self.0)) }
        block
    }

    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        unsafe { Self(_mm256_clmulepi64_epi128::<0x00>(self.0, other.0)) }
    }

    #[inline(always)]
    fn multiply_high(self, other: Self) -> Self {
        unsafe { Self(_mm256_clmulepi64_epi128::<0x11>(self.0, other.0)) }
    }

    #[inline(always)]
    fn multiply_low_by_high(self, other: Self) -> Self {
        unsafe { Self(_mm256_clmulepi64_epi128::<0x10>(self.0, other.0)) }
    }

    #[inline(always)]
    fn to_number(self) -> Self {
        self
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        unsafe { Self(_mm256_shuffle_epi32::<0x4E>(self.0)) }
    }

    #[inline(always)]
    fn subtract_from_counters(self, other: Self) -> Self {
        unsafe {
            let low = _mm256_set_epi64x(0, -1, 0, -1);
            Self(_mm256_sub_epi64(self.0, _mm256_and_si256(other.0, low)))
        }
    }

    #[inline(always)]
    fn diagonal([a, b, ..]: [Self; MAX_BLOCKS]) -> Self {
        unsafe { Self(_mm256_blend_epi32::<0xF0>(a.0, b.0)) }
    }

    #[inline(always)]
    fn sum_lanes([a, b, ..]: [Self; MAX_BLOCKS]) -> Self {
        unsafe {
            let front = _mm256_permute2x128_si256::<0x20>(a.0, b.0);
            Self(_mm256_xor_si256(front, _mm256_permute2x128_si256::<0x31>(a.0, b.0)))
        }
    }

    #[inline(always)]
    fn truncated(self, count: usize) -> Self {
        let mut kept = [0_u8; BYTES];
        kept[..count.min(BYTES)].fill(0xFF);
        unsafe { Self(_mm256_and_si256(self.0, Self::load(kept.as_ptr()).0)) }
    }

    #[inline(always)]
    fn differing_lanes(self, other: Self) -> u32 {
        let equal = unsafe {
            let halves = _mm256_cmpeq_epi64(self.0, other.0);
            _mm256_movemask_pd(_mm256_castsi256_pd(halves)).cast_unsigned()
        };
        let differing = !equal & 0xF;
        u32::from(differing & 0x3 != 0) | u32::from(differing & 0xC != 0) << 1
    }
}
