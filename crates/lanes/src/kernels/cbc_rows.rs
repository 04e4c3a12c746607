//! Rows of messages of one length in whole lines, pipelined across rows like the lines within a
//! row.
//!
//! While one line of all lanes is encrypted, the next is loaded and the one before is stored, in
//! the same row or across rows, and later lines are prefetched. Otherwise a row's start would wait
//! for memory and its end for the AES units: with messages of 1,024 bytes, whose rows have 16
//! lines, that took 40 % of the time.

use std::mem::MaybeUninit;

use super::cbc_lanes::{
    GROUPS, INPUT_AHEAD, Keys, LINE, Lines, Places, encrypt_step, encrypt_straight, load_line,
    store_line,
};
use super::rounds::is_straight;
use super::vector::{LINE_BLOCKS, Vector};

/// Rows of as many messages as there are lanes, all of one length.
///
/// # Safety
/// After [`Rows::prepare`] has returned true for a row, the row's messages may be read and their
/// outputs written, at the places that [`Rows::places`] returns, until the row two after it has
/// been prepared.
pub(super) unsafe trait Rows<V> {
    /// Prepares the row with this number; returns whether it exists. Called for each row in order,
    /// up to the first that does not exist.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn prepare(&mut self, row: usize) -> bool;

    /// The addresses of a row's messages, and the offset in bytes of their inputs and outputs.
    fn places(&self, row: usize) -> (&Places, usize, usize);

    /// The IVs of a row's messages.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and the row has been prepared.
    unsafe fn ivs(&self, row: usize) -> [V; GROUPS];
}

/// Encrypts all rows, of messages of `lines` (at least 1) whole lines, and returns the number of
/// rows.
///
/// # Safety
/// The CPU has the instructions of `V`, and the messages have that length.
#[inline(always)]
pub(super) unsafe fn encrypt_rows<V: Vector, R: Rows<V>, K: Keys<V>, const ROUNDS: usize>(
    keys: &K,
    rows: &mut R,
    lines: usize,
) -> usize {
    const SHARE: usize = GROUPS / LINE_BLOCKS;
    // SAFETY: every line of the rows is loaded before it is used, and stored, once each, while its
    // row is the current one or next to it. A prefetch does not access memory.
    unsafe {
        if is_straight::<V>() {
            let mut row = 0;
            while rows.prepare(row) {
                let mut chain = rows.ivs(row);
                let (places, input, output) = rows.places(row);
                let (at, blocks) = ((input, output), lines * LINE_BLOCKS);
                encrypt_straight::<V, K, ROUNDS>(keys, &mut chain, places, at, blocks);
                row += 1;
            }
            return row;
        }
        if !rows.prepare(0) {
            return 0;
        }
        let mut even: Lines<V> = [[MaybeUninit::uninit(); GROUPS]; LINE_BLOCKS];
        let mut odd: Lines<V> = [[MaybeUninit::uninit(); GROUPS]; LINE_BLOCKS];
        let (places, at, _) = rows.places(0);
        for group in 0..GROUPS {
            load_line(&mut even, places, group, at);
        }
        let mut chain = rows.ivs(0);
        let mut follows = rows.prepare(1);
        let (mut row, mut line, mut is_even) = (0, 0, true);
        loop {
            let (current, other) =
                if is_even { (&mut even, &mut odd) } else { (&mut odd, &mut even) };
            let before = step_back(row, line, lines).map(|step| at_output(rows, step));
            let is_there = |(next, _): &(usize, usize)| *next == row || *next == row + 1 && follows;
            let ahead = |by| Some(step_on(row, line + by, lines)).filter(is_there);
            let next = ahead(1).map(|step| at_input(rows, step));
            let is_far = lines > LINES_FOLLOWED;
            let read = ahead(INPUT_AHEAD).filter(|_| is_far).map(|step| at_input(rows, step));
            for step in 0..LINE_BLOCKS {
                let mut plain = chain;
                for group in 0..GROUPS {
                    plain[group] = current[step][group].assume_init();
                }
                encrypt_step::<V, K, ROUNDS>(keys, &mut chain, &plain);
                for group in 0..GROUPS {
                    current[step][group].write(chain[group]);
                }
                for group in step * SHARE..(step + 1) * SHARE {
                    let lanes = group * V::BLOCKS..(group + 1) * V::BLOCKS;
                    if let Some((places, at)) = read {
                        for lane in lanes {
                            V::ask_to_read(places.input[lane].wrapping_add(at));
                        }
                    }
                    if let Some((places, at)) = before {
                        store_line(other, places, group, at);
                    }
                    if let Some((places, at)) = next {
                        load_line(other, places, group, at);
                    }
                }
            }
            if next.is_none() {
                let (places, at) = at_output(rows, (row, line));
                for group in 0..GROUPS {
                    store_line(current, places, group, at);
                }
                return row + 1;
            }
            (row, line) = step_on(row, line + 1, lines);
            is_even = !is_even;
            if line == 0 {
                chain = rows.ivs(row);
                follows = rows.prepare(row + 1);
            }
        }
    }
}

/// The row and line that follow the beginning of a row by this many lines.
#[inline(always)]
fn step_on(row: usize, line: usize, lines: usize) -> (usize, usize) {
    if line < lines {
        (row, line)
    } else if line < 2 * lines {
        (row + 1, line - lines)
    } else {
        (row + line / lines, line % lines)
    }
}

/// The previous row and line, if any.
#[inline(always)]
fn step_back(row: usize, line: usize, lines: usize) -> Option<(usize, usize)> {
    match (row, line) {
        (0, 0) => None,
        (_, 0) => Some((row - 1, lines - 1)),
        _ => Some((row, line - 1)),
    }
}

#[inline(always)]
fn at_input<V, R: Rows<V>>(rows: &R, (row, line): (usize, usize)) -> (&Places, usize) {
    let (places, input, _) = rows.places(row);
    (places, input + line * LINE)
}

#[inline(always)]
fn at_output<V, R: Rows<V>>(rows: &R, (row, line): (usize, usize)) -> (&Places, usize) {
    let (places, _, output) = rows.places(row);
    (places, output + line * LINE)
}

/// Messages of up to this many lines are usually so close together that the hardware prefetches
/// them.
const LINES_FOLLOWED: usize = 4;
