//! CBC encryption of records, one per lane.
//!
//! A record of one block costs 1.6 cycles, a job 7.4.
//!
//! Records at distances of a multiple of a page share few of the cache's sets: in the L2 cache,
//! those of 4,096 bytes without gaps take 1.8 times as long as with a line between them.

use std::marker::PhantomData;

use evener_core::Records;
use zeroize::Zeroize;

use super::cbc_encrypt::PADDING;
use super::cbc_lanes::{
    GROUPS, LINE, MAX_LANES, Places, Shared, encrypt_block, encrypt_lanes, encrypt_lines,
    encrypt_step,
};
use super::cbc_rows::{Rows, encrypt_rows};
use super::records::Field;
use super::schedule::SharedKeys;
use super::vector::{BLOCK, Block, MAX_BLOCKS, Vector};

/// Encrypts records in CBC mode, one per lane.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is that of the records' cipher, which is AES in
/// CBC mode, to be encrypted.
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
    // SAFETY: `first + lanes` records exist, so every register is in the buffers.
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

// SAFETY: `first` and `rows` are such that all rows exist, and `Records` are no shorter than they
// state.
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
        // SAFETY: the row's IVs exist.
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

impl Field {
    /// Returns whether records have no gaps and are whole blocks.
    #[inline(always)]
    fn is_packed(&self) -> bool {
        self.input_stride == self.length && self.output_stride == self.length
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
        // SAFETY: reads are within the input, by the caller's promise and the tail's length.
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
