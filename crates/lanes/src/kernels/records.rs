//! Records: messages of one length at equal distances, with one key.
//!
//! Their lengths were checked when the [`Records`] were made, so a record needs no check, and its
//! address is computed instead of loaded.

use evener_core::{Cipher, Direction, Padding, RecordParts, Records, Rejection, padding};
use zeroize::Zeroize;

use super::SharedKeys;
use super::jobs::LARGE;
use super::parallel::{Mode, Text, Texts};
use super::vector::{BLOCK, Block};

/// Alignment in bytes that streaming needs.
const LINE: usize = 64;

/// Processes records one after another, in a mode with independent blocks. Returns false, without
/// processing them, if padding must be added.
///
/// # Safety
/// The CPU has the instructions of `T`. `ROUNDS` is that of the records' cipher, and `M` its
/// mode and direction.
#[inline(always)]
pub(super) unsafe fn transform<T: Texts, M: Mode, const ROUNDS: usize>(
    keys: &SharedKeys,
    records: &mut Records<'_>,
    stream: bool,
) -> bool {
    let field = Field::of(records);
    if field.padded && !M::INVERSE {
        return false;
    }
    let stream = stream || field.is_large();
    let (cipher, direction, iv_length) = (field.cipher, field.direction, field.iv_length);
    let length = records.layout().input_length(cipher, direction);
    for record in records.done()..field.count {
        let mut iv: Block = [0; BLOCK];
        // SAFETY: the record and its IV exist, and its output has room for `length` bytes: these
        // modes keep the length, and padded records have room for their padding.
        unsafe {
            if iv_length == BLOCK {
                iv = field.ivs.add(record * BLOCK).cast::<Block>().read();
            }
            let input = field.input.add(record * field.input_stride);
            let output = field.output.add(record * field.output_stride);
            T::transform::<M, ROUNDS>(keys, &Text { iv, input, output, length, stream });
            if field.padded {
                let output = std::slice::from_raw_parts_mut(output, length);
                let added =
                    output.last_chunk::<BLOCK>().and_then(|last| padding::padding_length(last));
                if added != Some(length - field.length) {
                    output.zeroize();
                    records.reject(record, Rejection::Padding);
                }
            }
        }
    }
    if stream {
        // SAFETY: the caller's promise.
        unsafe { T::finish() }
    }
    records.advance(field.count);
    true
}

/// Records as pointers and numbers. It is used only while they are borrowed, and its lengths are
/// those that [`Records::new`] checked.
pub(super) struct Field {
    cipher: Cipher,
    direction: Direction,
    iv_length: usize,
    pub(super) ivs: *const u8,
    pub(super) input: *const u8,
    pub(super) output: *mut u8,
    #[cfg_attr(target_arch = "arm", expect(dead_code, reason = "the kernel there copies tails"))]
    pub(super) input_bytes: usize,
    pub(super) count: usize,
    /// Length of a message, in bytes.
    pub(super) length: usize,
    pub(super) input_stride: usize,
    pub(super) output_stride: usize,
    pub(super) padded: bool,
    /// True if lines of output are to be written past the caches; only if they are aligned.
    pub(super) stream: bool,
}

impl Field {
    #[inline(always)]
    pub(super) fn of(records: &mut Records<'_>) -> Field {
        let (cipher, direction) = (records.cipher(), records.direction());
        let layout = *records.layout();
        let RecordParts { ivs, input, output } = records.parts();
        let mut field = Field {
            cipher,
            direction,
            iv_length: cipher.iv_length(),
            ivs: ivs.as_ptr(),
            input: input.as_ptr(),
            output: output.as_mut_ptr(),
            input_bytes: input.len(),
            count: layout.count,
            length: layout.length,
            input_stride: layout.input_stride,
            output_stride: layout.output_stride,
            padded: layout.padding == Padding::Pkcs7,
            stream: false,
        };
        let on_lines = (field.output.addr() | field.output_stride).is_multiple_of(LINE);
        field.stream = on_lines && field.is_large();
        field
    }

    /// Returns whether the output exceeds the caches.
    #[inline(always)]
    fn is_large(&self) -> bool {
        self.length.saturating_mul(self.count) >= LARGE
    }
}
