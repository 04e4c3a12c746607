//! Several 128-bit blocks in one register, with the operations that the kernels use.
//!
//! The kernels are generic over [`Vector`], and each file here is one instruction set. Every
//! method is `#[inline(always)]`, so that a kernel becomes one function compiled with its
//! instruction set's target features (see `kernels/mod.rs`), with its vectors in registers.

#[cfg(target_arch = "x86_64")]
mod aesni;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "aarch64")]
pub(super) use neon::Neon;
#[cfg(target_arch = "x86_64")]
pub(super) use {aesni::AesNi, avx2::VaesAvx2, avx512::VaesAvx512};

/// The unit of AES.
pub(super) type Block = [u8; BLOCK];

/// Zeroises blocks of tables of some thousand bytes, with one write each where `zeroize` has
/// sixteen.
pub(super) fn wipe(blocks: &mut [Block]) {
    for block in blocks {
        // SAFETY: the reference is unique.
        unsafe { std::ptr::write_volatile(block, [0; BLOCK]) }
    }
    // Keeps later code from moving before the writes, as `zeroize` does.
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
}

/// Length of a block in bytes.
pub(super) const BLOCK: usize = 16;

/// Number of blocks of each lane that [`Vector::gather_lines`] reads at once: a cache line.
#[cfg(not(target_arch = "arm"))]
pub(super) const LINE_BLOCKS: usize = 4;

/// The most blocks that any vector holds.
#[cfg(not(target_arch = "arm"))]
pub(super) const MAX_BLOCKS: usize = 4;

/// A register of one or more AES blocks, each in a *lane*.
///
/// A value is proof that the CPU has the instructions of its type: the caller of a constructor (all
/// are unsafe) guarantees them, so methods on values are safe. Rounds have the operands of the x86
/// instructions: the round key is added last.
///
/// # Safety
/// All unsafe functions here require that the CPU has the instructions of the implementing
/// type, and that the memory they name is valid for the access. No alignment is required, and
/// no byte outside the named memory is touched.
#[cfg(not(target_arch = "arm"))]
pub(super) trait Vector: Copy {
    /// Lanes in the register.
    const BLOCKS: usize;

    /// True if there are 32 registers, enough for eight of text, the round keys, and the hash of
    /// other text; with 16, intermediate values would go to memory.
    const HAS_MANY_REGISTERS: bool;

    /// True if numbers have their upper half in the lower half of the lane.
    const HIGH_FIRST: bool;

    /// The same block in every lane.
    unsafe fn splat(block: &Block) -> Self;

    /// `BLOCKS` consecutive blocks.
    unsafe fn load(from: *const u8) -> Self;

    /// Writes all lanes, one after another.
    unsafe fn store(self, to: *mut u8);

    /// The first `count` bytes (up to the register's length) from memory, then zeros.
    unsafe fn load_bytes(from: *const u8, count: usize) -> Self;

    /// Writes the first `count` bytes (up to the register's length).
    unsafe fn store_bytes(self, to: *mut u8, count: usize);

    /// One block from each of the `BLOCKS` pointers, `offset` bytes after it. (Here and below only
    /// the sum must be in the memory: the pointer may be outside.)
    unsafe fn gather(from: &[*const u8], offset: usize) -> Self;

    /// Writes each lane `offset` bytes after its own pointer.
    unsafe fn scatter(self, to: &[*mut u8], offset: usize);

    /// [`LINE_BLOCKS`] blocks from each of the `BLOCKS` pointers, transposed: the first vector has
    /// the first block of each. A lane's blocks are read with the widest loads, so that a cache
    /// line is read only once.
    unsafe fn gather_lines(from: &[*const u8], offset: usize) -> [Self; LINE_BLOCKS];

    /// The inverse of [`Vector::gather_lines`].
    unsafe fn scatter_lines(lines: [Self; LINE_BLOCKS], to: &[*mut u8], offset: usize);

    /// [`Vector::scatter_lines`] past the caches, if the CPU can, for output that exceeds the
    /// caches. The pointers with the offset are multiples of a line.
    unsafe fn stream_lines(lines: [Self; LINE_BLOCKS], to: &[*mut u8], offset: usize);

    /// [`Vector::store`] past the caches. The pointer is a multiple of the vector's length.
    unsafe fn stream(self, to: *mut u8);

    /// Orders streamed writes before later writes. Called once at the end.
    unsafe fn finish_streaming();

    /// Prefetches the cache line at an address, which need not be valid.
    fn ask_to_read(address: *const u8);

    /// Prefetches a cache line that will be overwritten.
    fn ask_to_write(address: *mut u8);

    /// Exclusive or.
    fn xor(self, other: Self) -> Self;

    /// Bitwise and.
    fn and(self, other: Self) -> Self;

    /// FIPS 197: ShiftRows, SubBytes, MixColumns, AddRoundKey.
    fn encrypt_round(self, key: Self) -> Self;

    /// FIPS 197: ShiftRows, SubBytes, AddRoundKey.
    fn encrypt_last(self, key: Self) -> Self;

    /// FIPS 197's equivalent inverse cipher: InvShiftRows, InvSubBytes, InvMixColumns,
    /// AddRoundKey.
    fn decrypt_round(self, key: Self) -> Self;

    /// FIPS 197: InvShiftRows, InvSubBytes, AddRoundKey.
    fn decrypt_last(self, key: Self) -> Self;

    /// The numbers `high · 2⁶⁴ + low + lane`; `low + lane` wraps.
    unsafe fn counters(high: u64, low: u64) -> Self;

    /// Adds `blocks` to the low half of every lane's number; it wraps.
    fn add_to_counters(self, blocks: u64) -> Self;

    /// Turns blocks, as big-endian numbers, into numbers, and back.
    fn swap_bytes(self) -> Self;

    /// Rotates each 32-bit word of the block by one byte: FIPS 197's RotWord.
    fn rotate_words(self) -> Self;

    /// Word `index` (0 to 3) of each lane in all four columns of the lane.
    fn spread_word(self, index: usize) -> Self;

    /// Each lane with the first word of `words[0]`, the second of `words[1]`, and so on.
    fn columns(words: [Self; 4]) -> Self;

    /// Moves every lane up by one, and the last lane of `previous` into the first.
    fn shift_in(self, previous: Self) -> Self;
}

/// Vectors that also multiply polynomials over GF(2), for GCM. Factors are numbers; products are
/// little-endian.
///
/// # Safety
/// As for [`Vector`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) trait Carryless: Vector {
    /// A block in the first lane, zeros in the rest.
    unsafe fn load_block(block: &Block) -> Self;

    /// The block in the first lane.
    fn block(self) -> Block;

    /// The product of the low halves of each lane.
    fn multiply_low(self, other: Self) -> Self;

    /// The product of the high halves of each lane.
    fn multiply_high(self, other: Self) -> Self;

    /// The product of the low halves of `self` and the high halves of `other`, both little-endian.
    fn multiply_low_by_high(self, other: Self) -> Self;

    /// A little-endian polynomial as a number.
    fn to_number(self) -> Self;

    /// Swaps the halves of each lane.
    fn swap_halves(self) -> Self;

    /// The difference of the low halves of each lane, as numbers modulo 2⁶⁴.
    fn subtract_from_counters(self, other: Self) -> Self;

    /// Lane `i` of `rows[i]` in lane `i`. Rows past the last lane do not count.
    fn diagonal(rows: [Self; MAX_BLOCKS]) -> Self;

    /// The exclusive or of all lanes of `rows[i]` in lane `i`. Rows past the last lane do not
    /// count.
    fn sum_lanes(rows: [Self; MAX_BLOCKS]) -> Self;

    /// The first `count` bytes (up to the register's length), then zeros.
    fn truncated(self, count: usize) -> Self;

    /// The sum of the halves of the lane, in its lower half, and of the halves of `other`, in its
    /// upper.
    #[cfg(target_arch = "aarch64")]
    fn fold_two(self, other: Self) -> Self;

    /// The sum with `one` and `other`.
    #[cfg(target_arch = "aarch64")]
    fn plus(self, one: Self, other: Self) -> Self;

    /// The lanes that are not equal, one bit each, in a time that does not depend on them.
    fn differing_lanes(self, other: Self) -> u32;
}
