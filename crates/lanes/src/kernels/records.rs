//! Records: messages of one length at equal distances, with one key.
//!
//! Their lengths were checked when the [`Records`] were made, so a record needs no check, and its
//! address is computed instead of loaded: a record of one block costs 1.6 cycles, a job 7.4.
//!
//! Records at distances of a multiple of a page share few of the cache's sets: in the L2 cache,
//! those of 4,096 bytes without gaps take 1.8 times as long as with a line between them.

use std::marker::PhantomData;

use evener_core::{Cipher, Direction, Padding, Records, Rejection, padding};
use zeroize::Zeroize;

use super::cbc_encrypt::PADDING;
use super::cbc_lanes::{
    GROUPS, LINE, MAX_LANES, Places, Shared, encrypt_block, encrypt_lanes, encrypt_lines,
    encrypt_step,
};
use super::cbc_rows::{Rows, encrypt_rows};
use super::jobs::LARGE;
use super::parallel::{Mode, Text};
use super::schedule::SharedKeys;
use super::vector::{BLOCK, Block, MAX_BLOCKS, Vector};

/// Encrypts records in CBC mode, one per lane.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is that of the records' cipher, which is AES
/// in CBC mode, to be encrypted.
#[inline(always)]
pub(super) unsafe fn encrypt_cbc<V: Vector, const ROUNDS: usize>(
    keys: &SharedKeys,
    records: &mut Records<'_>,
) {
    let field = Field::of(records);
    let lanes = GROUPS * V::BLOCKS;
    // SAFETY: the caller's promise; the records have their lengths, and rows begin at one of
    // them.
    unsafe {
        let keys = Shared::<V>::load::<ROUNDS>(keys);
        let mut first = records.done();
        if field.is_packed() && field.length == BLOCK && !field.padded {
            first = encrypt_blocks::<V, ROUNDS>(&keys, &field, first);
        }
        let mut places = Places::new();
        let rows = (field.count - first) / lanes;
        if field.length.is_multiple_of(LINE) && field.length > 0 && !field.padded && rows > 0 {
            let mut full = FullRows::<V>::new(&field, first, rows);
            let lines = field.length / LINE;
            first += lanes * encrypt_rows::<V, _, _, ROUNDS>(&keys, &mut full, lines);
        }
        while first < field.count {
            encrypt_row::<V, ROUNDS>(&keys, &field, &mut places, first);
            first += lanes;
        }
        if field.stream {
            V::finish_streaming();
        }
    }
    records.advance(field.count);
}

/// Encrypts records of one block without gaps, loaded as whole registers, from `first` on while
/// they fill all lanes. Returns the number of the first remaining record.
///
/// # Safety
/// As for [`encrypt_cbc`]; and the records are of one block, packed and not padded.
#[inline(always)]
unsafe fn encrypt_blocks<V: Vector, const ROUNDS: usize>(
    keys: &Shared<V>,
    field: &Field,
    mut first: usize,
) -> usize {
    let lanes = GROUPS * V::BLOCKS;
    // SAFETY: `first + lanes` records are there, so that every register is in the buffers.
    unsafe {
        while field.count - first >= lanes {
            let mut chain = [V::splat(&[0; BLOCK]); GROUPS];
            let mut plain = chain;
            for group in 0..GROUPS {
                let at = (first + group * V::BLOCKS) * BLOCK;
                chain[group] = V::load(field.ivs.add(at));
                plain[group] = V::load(field.input.add(at));
            }
            encrypt_step::<V, _, ROUNDS>(keys, &mut chain, &plain);
            for group in 0..GROUPS {
                chain[group].store(field.output.add((first + group * V::BLOCKS) * BLOCK));
            }
            first += lanes;
        }
    }
    first
}

/// Full rows of records of whole lines.
struct FullRows<'a, V> {
    field: &'a Field,
    /// The record that begins the first row.
    first: usize,
    rows: usize,
    /// The addresses of the records of the first row.
    places: Places,
    vector: PhantomData<V>,
}

impl<'a, V: Vector> FullRows<'a, V> {
    #[inline(always)]
    fn new(field: &'a Field, first: usize, rows: usize) -> FullRows<'a, V> {
        let mut places = Places::new();
        field.place::<V>(&mut places, first, usize::MAX);
        places.stream = field.stream;
        FullRows { field, first, rows, places, vector: PhantomData }
    }
}

// SAFETY: `first` and `rows` are such that all rows are there, and `Records` are no shorter than
// they say.
unsafe impl<V: Vector> Rows<V> for FullRows<'_, V> {
    #[inline(always)]
    unsafe fn prepare(&mut self, row: usize) -> bool {
        row < self.rows
    }

    #[inline(always)]
    fn places(&self, row: usize) -> (&Places, usize, usize) {
        let records = row * GROUPS * V::BLOCKS;
        let Field { input_stride, output_stride, .. } = self.field;
        (&self.places, records * input_stride, records * output_stride)
    }

    #[inline(always)]
    unsafe fn ivs(&self, row: usize) -> [V; GROUPS] {
        // SAFETY: the row's IVs are there.
        unsafe {
            let ivs = self.field.ivs.add((self.first + row * GROUPS * V::BLOCKS) * BLOCK);
            let mut chain = [V::load(ivs); GROUPS];
            for group in 1..GROUPS {
                chain[group] = V::load(ivs.add(group * V::BLOCKS * BLOCK));
            }
            chain
        }
    }
}

/// Encrypts the records from `first` on, one per lane. Surplus lanes repeat the last record and
/// write the same bytes to the same address.
///
/// # Safety
/// As for [`encrypt_cbc`]; there is a record `first`.
#[inline(always)]
unsafe fn encrypt_row<V: Vector, const ROUNDS: usize>(
    keys: &Shared<V>,
    field: &Field,
    places: &mut Places,
    first: usize,
) {
    let lanes = GROUPS * V::BLOCKS;
    let last = field.count - 1;
    // SAFETY: every lane's place is that of a record, which has `whole` blocks and, if it is
    // padded, room for another.
    unsafe {
        let mut chain = [V::splat(&[0; BLOCK]); GROUPS];
        if field.count - first >= lanes {
            field.place::<V>(places, first, usize::MAX);
            for group in 0..GROUPS {
                chain[group] = V::load(field.ivs.add((first + group * V::BLOCKS) * BLOCK));
            }
        } else {
            field.place::<V>(places, first, last);
            for group in 0..GROUPS {
                let mut iv = [field.ivs; MAX_BLOCKS];
                for index in 0..V::BLOCKS {
                    let record = (first + group * V::BLOCKS + index).min(last);
                    iv[index] = field.ivs.add(record * BLOCK);
                }
                chain[group] = V::gather(&iv, 0);
            }
        }
        let whole = field.length / BLOCK;
        places.stream = field.stream;
        // Records of one block and of one line: no loops, so no positions must be saved.
        match field.length {
            0..BLOCK => {}
            BLOCK..TWO_BLOCKS => encrypt_block::<V, _, ROUNDS>(keys, &mut chain, places, 0),
            LINE => encrypt_lines::<V, _, ROUNDS>(keys, &mut chain, places, 0, 1, 0),
            _ => encrypt_lanes::<V, _, ROUNDS>(keys, &mut chain, places, whole, whole),
        }
        if field.padded {
            let end = (first + lanes - 1).min(last) * field.input_stride + (whole + 1) * BLOCK;
            let plain = field.last_blocks::<V>(places, end <= field.input_bytes);
            encrypt_step::<V, _, ROUNDS>(keys, &mut chain, &plain);
            for group in 0..GROUPS {
                chain[group].scatter(&places.output[group * V::BLOCKS..], whole * BLOCK);
            }
        }
    }
}

/// Processes records one after another, in a mode with independent blocks. Returns whether it can:
/// not if padding must be added.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is that of the records' cipher, and `M` its
/// mode and direction.
#[inline(always)]
pub(super) unsafe fn transform<V: Vector, M: Mode, const ROUNDS: usize>(
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
        // SAFETY: the record and its IV are there, and its output has room for `length` bytes:
        // these modes keep the length, and what is to be unpadded has room for its padding.
        unsafe {
            if iv_length == BLOCK {
                iv = field.ivs.add(record * BLOCK).cast::<Block>().read();
            }
            let input = field.input.add(record * field.input_stride);
            let output = field.output.add(record * field.output_stride);
            M::transform::<V, ROUNDS>(keys, &Text { iv, input, output, length, stream });
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
        unsafe { V::finish_streaming() }
    }
    records.advance(field.count);
    true
}

/// Records as pointers and numbers. It is used only while they are borrowed, and its lengths are
/// those that [`Records::new`] checked.
struct Field {
    cipher: Cipher,
    direction: Direction,
    iv_length: usize,
    ivs: *const u8,
    input: *const u8,
    output: *mut u8,
    input_bytes: usize,
    count: usize,
    /// Of a message, in bytes.
    length: usize,
    input_stride: usize,
    output_stride: usize,
    padded: bool,
    /// Whether to write lines of output past the caches; only if they are aligned.
    stream: bool,
}

impl Field {
    #[inline(always)]
    fn of(records: &mut Records<'_>) -> Field {
        let (cipher, direction) = (records.cipher(), records.direction());
        let layout = *records.layout();
        let (ivs, input, output) = records.parts();
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

    /// Whether there are no gaps and messages are whole blocks.
    #[inline(always)]
    fn is_packed(&self) -> bool {
        self.input_stride == self.length && self.output_stride == self.length
    }

    /// Whether the output exceeds the caches.
    #[inline(always)]
    fn is_large(&self) -> bool {
        self.length.saturating_mul(self.count) >= LARGE
    }

    /// Assigns lanes to the records from `first` on; lanes past `last` get `last`.
    #[inline(always)]
    fn place<V: Vector>(&self, places: &mut Places, first: usize, last: usize) {
        for lane in 0..GROUPS * V::BLOCKS {
            let record = (first + lane).min(last);
            places.input[lane] = self.input.wrapping_add(record * self.input_stride);
            places.output[lane] = self.output.wrapping_add(record * self.output_stride);
        }
    }

    /// The padded last block of every lane's record. `may_pass` permits reading a whole block at a
    /// record's last block; bytes after the record are then cut off.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. Places are those of records.
    #[inline(always)]
    unsafe fn last_blocks<V: Vector>(&self, places: &Places, may_pass: bool) -> [V; GROUPS] {
        let (whole, tail) = (self.length / BLOCK * BLOCK, self.length % BLOCK);
        // SAFETY: reads within the input, as the caller and the tail's length say.
        unsafe {
            let padding = V::splat(&PADDING[tail]);
            let mut plain = [padding; GROUPS];
            if tail == 0 {
                return plain;
            }
            if may_pass {
                let message = V::splat(&KEPT[tail]);
                for group in 0..GROUPS {
                    let read = V::gather(&places.input[group * V::BLOCKS..], whole);
                    plain[group] = read.and(message).xor(padding);
                }
                return plain;
            }
            let mut tails = [[0; BLOCK]; MAX_LANES];
            for lane in 0..GROUPS * V::BLOCKS {
                let from = places.input[lane].wrapping_add(whole);
                std::ptr::copy_nonoverlapping(from, tails[lane].as_mut_ptr(), tail);
            }
            for group in 0..GROUPS {
                plain[group] = V::load(tails[group * V::BLOCKS].as_ptr()).xor(padding);
            }
            tails.as_flattened_mut().zeroize();
            plain
        }
    }
}

const TWO_BLOCKS: usize = 2 * BLOCK;

/// Ones for the bytes of a tail, by its length.
const KEPT: [Block; BLOCK] = {
    let mut kept = [[0; BLOCK]; BLOCK];
    let mut length = 0;
    while length < BLOCK {
        let mut place = 0;
        while place < length {
            kept[length][place] = 0xFF;
            place += 1;
        }
        length += 1;
    }
    kept
};
