//! Four blocks a register: VAES on AVX-512.

use std::arch::x86_64::*;

use super::{BLOCK, Block, Carryless, LINE_BLOCKS, MAX_BLOCKS, Vector};

/// Needs AVX-512 F, VL, BW, VAES and VPCLMULQDQ.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct VaesAvx512(__m512i);

// SAFETY of every block below: the CPU has the instructions, because the caller of an unsafe
// constructor vouched for them and a safe method has a value that came from one. Memory is the
// caller's promise; masked loads and stores touch no byte whose mask bit is clear.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one proof for all, above")]
impl Vector for VaesAvx512 {
    const BLOCKS: usize = 4;
    const HAS_MANY_REGISTERS: bool = true;
    const HIGH_FIRST: bool = false;

    #[inline(always)]
    unsafe fn splat(block: &Block) -> Self {
        unsafe { Self(_mm512_broadcast_i32x4(_mm_loadu_si128(block.as_ptr().cast()))) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, count: usize) -> Self {
        unsafe { Self(_mm512_maskz_loadu_epi8(byte_mask(count), from.cast())) }
    }

    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, count: usize) {
        unsafe { _mm512_mask_storeu_epi8(to.cast(), byte_mask(count), self.0) }
    }

    #[inline(always)]
    unsafe fn gather(from: &[*const u8], offset: usize) -> Self {
        unsafe {
            let lanes =
                _mm512_castsi128_si512(_mm_loadu_si128(from[0].wrapping_add(offset).cast()));
            let second = _mm_loadu_si128(from[1].wrapping_add(offset).cast());
            let third = _mm_loadu_si128(from[2].wrapping_add(offset).cast());
            let fourth = _mm_loadu_si128(from[3].wrapping_add(offset).cast());
            let lanes = _mm512_inserti32x4::<1>(lanes, second);
            let lanes = _mm512_inserti32x4::<2>(lanes, third);
            Self(_mm512_inserti32x4::<3>(lanes, fourth))
        }
    }

    #[inline(always)]
    unsafe fn scatter(self, to: &[*mut u8], offset: usize) {
        unsafe {
            _mm_storeu_si128(to[0].wrapping_add(offset).cast(), _mm512_castsi512_si128(self.0));
            _mm_storeu_si128(
                to[1].wrapping_add(offset).cast(),
                _mm512_extracti32x4_epi32::<1>(self.0),
            );
            _mm_storeu_si128(
                to[2].wrapping_add(offset).cast(),
                _mm512_extracti32x4_epi32::<2>(self.0),
            );
            _mm_storeu_si128(
                to[3].wrapping_add(offset).cast(),
                _mm512_extracti32x4_epi32::<3>(self.0),
            );
        }
    }

    #[inline(always)]
    unsafe fn gather_lines(from: &[*const u8], offset: usize) -> [Self; LINE_BLOCKS] {
        unsafe {
            transpose([
                Self::load(from[0].wrapping_add(offset)),
                Self::load(from[1].wrapping_add(offset)),
                Self::load(from[2].wrapping_add(offset)),
                Self::load(from[3].wrapping_add(offset)),
            ])
        }
    }

    #[inline(always)]
    unsafe fn scatter_lines(lines: [Self; LINE_BLOCKS], to: &[*mut u8], offset: usize) {
        let lines = transpose(lines);
        for lane in 0..LINE_BLOCKS {
            unsafe { lines[lane].store(to[lane].wrapping_add(offset)) }
        }
    }

    #[inline(always)]
    unsafe fn stream_lines(lines: [Self; LINE_BLOCKS], to: &[*mut u8], offset: usize) {
        let lines = transpose(lines);
        for lane in 0..LINE_BLOCKS {
            unsafe { _mm512_stream_si512(to[lane].wrapping_add(offset).cast(), lines[lane].0) }
        }
    }

    #[inline(always)]
    unsafe fn stream(self, to: *mut u8) {
        unsafe { _mm512_stream_si512(to.cast(), self.0) }
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
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        unsafe { Self(_mm512_and_si512(self.0, other.0)) }
    }

    #[inline(always)]
    fn encrypt_round(self, key: Self) -> Self {
        unsafe { Self(_mm512_aesenc_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn encrypt_last(self, key: Self) -> Self {
        unsafe { Self(_mm512_aesenclast_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_round(self, key: Self) -> Self {
        unsafe { Self(_mm512_aesdec_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    fn decrypt_last(self, key: Self) -> Self {
        unsafe { Self(_mm512_aesdeclast_epi128(self.0, key.0)) }
    }

    #[inline(always)]
    unsafe fn counters(high: u64, low: u64) -> Self {
        let [high, low] = [high.cast_signed(), low.cast_signed()];
        unsafe {
            let first = _mm512_broadcast_i32x4(_mm_set_epi64x(high, low));
            Self(_mm512_add_epi64(first, _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0)))
        }
    }

    #[inline(always)]
    fn add_to_counters(self, blocks: u64) -> Self {
        unsafe {
            let blocks = _mm_set_epi64x(0, blocks.cast_signed());
            Self(_mm512_add_epi64(self.0, _mm512_broadcast_i32x4(blocks)))
        }
    }

    #[inline(always)]
    fn swap_bytes(self) -> Self {
        unsafe {
            let reversed = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            Self(_mm512_shuffle_epi8(self.0, _mm512_broadcast_i32x4(reversed)))
        }
    }

    #[inline(always)]
    fn rotate_words(self) -> Self {
        unsafe { Self(_mm512_ror_epi32::<8>(self.0)) }
    }

    #[inline(always)]
    fn spread_word(self, index: usize) -> Self {
        unsafe {
            Self(match index {
                0 => _mm512_shuffle_epi32::<0x00>(self.0),
                1 => _mm512_shuffle_epi32::<0x55>(self.0),
                2 => _mm512_shuffle_epi32::<0xAA>(self.0),
                _ => _mm512_shuffle_epi32::<0xFF>(self.0),
            })
        }
    }

    #[inline(always)]
    fn columns([a, b, c, d]: [Self; 4]) -> Self {
        unsafe {
            let front = _mm512_mask_blend_epi32(0x2222, a.0, b.0);
            let back = _mm512_mask_blend_epi32(0x8888, c.0, d.0);
            Self(_mm512_mask_blend_epi32(0xCCCC, front, back))
        }
    }

    #[inline(always)]
    fn shift_in(self, previous: Self) -> Self {
        unsafe { Self(_mm512_alignr_epi64::<6>(self.0, previous.0)) }
    }
}

// SAFETY of every block below: a value proves the instructions.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one proof for all, above")]
impl Carryless for VaesAvx512 {
    #[inline(always)]
    unsafe fn load_block(block: &Block) -> Self {
        unsafe { Self(_mm512_zextsi128_si512(_mm_loadu_si128(block.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn block(self) -> Block {
        let mut block = [0; BLOCK];
        unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), _mm512_castsi512_si128(self.0)) }
        block
    }

    #[inline(always)]
    fn multiply_low(self, other: Self) -> Self {
        unsafe { Self(_mm512_clmulepi64_epi128::<0x00>(self.0, other.0)) }
    }

    #[inline(always)]
    fn multiply_high(self, other: Self) -> Self {
        unsafe { Self(_mm512_clmulepi64_epi128::<0x11>(self.0, other.0)) }
    }

    #[inline(always)]
    fn multiply_low_by_high(self, other: Self) -> Self {
        unsafe { Self(_mm512_clmulepi64_epi128::<0x10>(self.0, other.0)) }
    }

    #[inline(always)]
    fn to_number(self) -> Self {
        self
    }

    #[inline(always)]
    fn swap_halves(self) -> Self {
        unsafe { Self(_mm512_shuffle_epi32::<0x4E>(self.0)) }
    }

    #[inline(always)]
    fn subtract_from_counters(self, other: Self) -> Self {
        unsafe { Self(_mm512_mask_sub_epi64(self.0, 0x55, self.0, other.0)) }
    }

    #[inline(always)]
    fn diagonal([a, b, c, d]: [Self; MAX_BLOCKS]) -> Self {
        unsafe {
            let front = _mm512_mask_blend_epi64(0x0C, a.0, b.0);
            let back = _mm512_mask_blend_epi64(0xC0, c.0, d.0);
            Self(_mm512_mask_blend_epi64(0xF0, front, back))
        }
    }

    #[inline(always)]
    fn sum_lanes([a, b, c, d]: [Self; MAX_BLOCKS]) -> Self {
        unsafe {
            let front = _mm512_shuffle_i32x4::<0x44>(a.0, b.0);
            let ab = _mm512_xor_si512(front, _mm512_shuffle_i32x4::<0xEE>(a.0, b.0));
            let front = _mm512_shuffle_i32x4::<0x44>(c.0, d.0);
            let cd = _mm512_xor_si512(front, _mm512_shuffle_i32x4::<0xEE>(c.0, d.0));
            let even = _mm512_shuffle_i32x4::<0x88>(ab, cd);
            Self(_mm512_xor_si512(even, _mm512_shuffle_i32x4::<0xDD>(ab, cd)))
        }
    }

    #[inline(always)]
    fn truncated(self, count: usize) -> Self {
        unsafe { Self(_mm512_maskz_mov_epi8(byte_mask(count), self.0)) }
    }

    #[inline(always)]
    fn differing_lanes(self, other: Self) -> u32 {
        let halves = u32::from(unsafe { _mm512_cmpneq_epi64_mask(self.0, other.0) });
        let lanes = (halves | halves >> 1) & 0x55;
        // Packs every second bit.
        let pairs = (lanes | lanes >> 1) & 0x33;
        (pairs | pairs >> 2) & 0xF
    }
}

/// Transposes four lines of four blocks, from the order by lane to that by position, and back.
#[inline(always)]
fn transpose([a, b, c, d]: [VaesAvx512; 4]) -> [VaesAvx512; 4] {
    // SAFETY: the values prove the instructions.
    unsafe {
        let ab_front = _mm512_shuffle_i32x4::<0x44>(a.0, b.0);
        let ab_back = _mm512_shuffle_i32x4::<0xEE>(a.0, b.0);
        let cd_front = _mm512_shuffle_i32x4::<0x44>(c.0, d.0);
        let cd_back = _mm512_shuffle_i32x4::<0xEE>(c.0, d.0);
        [
            VaesAvx512(_mm512_shuffle_i32x4::<0x88>(ab_front, cd_front)),
            VaesAvx512(_mm512_shuffle_i32x4::<0xDD>(ab_front, cd_front)),
            VaesAvx512(_mm512_shuffle_i32x4::<0x88>(ab_back, cd_back)),
            VaesAvx512(_mm512_shuffle_i32x4::<0xDD>(ab_back, cd_back)),
        ]
    }
}

/// Selects the first `count` bytes.
#[inline(always)]
fn byte_mask(count: usize) -> __mmask64 {
    const BYTES: usize = 4 * BLOCK;
    if count >= BYTES { !0 } else { (1 << count) - 1 }
}
