//! The first two rounds of AES for many counter blocks.
//!
//! The four bytes of a counter go into different columns in the first round (FIPS 197, section
//! 5.1.2), and the second is linear in the columns after substituting single bytes. So within a
//! *span* of 256 blocks, whose counters differ only in the last byte, the states after the first
//! round differ by a value that depends only on this byte and the key. After the second round, the
//! states of two spans differ by one constant block. So the states of a message's first span come
//! from a table for the key, and adding one block gives those of every other span. The tables are
//! read in the order of the counters, which are not secret.

use crate::boxed::{Aligned, zeros};

use super::schedule::SharedKeys;
use super::vector::{BLOCK, Block, Carryless, MAX_BLOCKS, wipe};

/// Blocks whose counters differ in the last byte.
pub(super) const SPAN: usize = 256;

/// The next round.
pub(super) const NEXT_ROUND: usize = 3;

/// Number of states that [`Counters::fill`] makes at once.
const AT_ONCE: usize = 4;

/// A message's first two counters are not for its text: the tables begin after them.
pub(super) const FIRST_COUNTER: usize = 2;

/// The source of a text's pads: counters in order, after their first rounds.
pub(super) trait States<V> {
    /// The states after the second round of the next `N` registers of counters.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. A span is a multiple of `N` registers, and the text has
    /// at least that many blocks left.
    unsafe fn next_states<const N: usize>(&mut self) -> [V; N];
}

/// The tables for a key and its last message; zeroised on drop.
#[repr(C, align(64))]
pub(super) struct FirstRounds {
    /// The change of the state after the first round by a counter's last byte, from
    /// [`FIRST_COUNTER`] on; the last entries are for the bytes before it.
    changes: [Block; SPAN],
    /// The states after the second round of a message's first counters.
    states: [Block; SPAN],
    /// Number of changes computed.
    count: usize,
}

impl FirstRounds {
    /// Empty tables.
    pub(super) fn new() -> FirstRounds {
        FirstRounds { changes: [[0; BLOCK]; SPAN], states: [[0; BLOCK]; SPAN], count: 0 }
    }

    /// Empty tables on the heap; `None` if there is no memory for them.
    pub(super) fn zeroed() -> Option<Aligned<FirstRounds>> {
        // SAFETY: every field is a number or an array of numbers.
        unsafe { zeros() }
    }

    /// Prepares for another key.
    pub(super) fn forget(&mut self) {
        self.count = 0;
    }

    /// Starts a message of this many blocks; the first counter block is given as two big-endian
    /// numbers.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn start<'a, V: Carryless>(
        &'a mut self,
        keys: &'a SharedKeys,
        first: (u64, u64),
        blocks: usize,
    ) -> Counters<'a, V> {
        // SAFETY: the caller's promise.
        unsafe {
            let mut count = blocks.min(SPAN);
            if V::BLOCKS == 1 {
                count = count.next_multiple_of(AT_ONCE);
            }
            self.reach::<V>(keys, count);
            let next = (first.0, first.1 & !(SPAN as u64 - 1));
            let (after_first, after_second) = two_rounds::<V>(keys, next);
            let change = after_second.xor(after_second);
            let mut counters = Counters {
                tables: self,
                keys,
                after_first,
                after_second,
                next,
                change,
                next_change: change,
                place: 0,
                states: 0,
            };
            counters.prepare_span();
            if V::BLOCKS == 1 {
                counters.fill(count);
            }
            counters
        }
    }

    /// Makes the first `count` changes.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn reach<V: Carryless>(&mut self, keys: &SharedKeys, count: usize) {
        // SAFETY: the caller's promise; a slice has as many blocks as the vector.
        unsafe {
            let zero = V::splat(&[0; BLOCK]);
            let last_byte = V::splat(&0xFF_u128.to_be_bytes());
            let key: V = keys.load(0, 0);
            while self.count < count {
                let counters = V::counters(0, (self.count + FIRST_COUNTER) as u64).swap_bytes();
                let block = key.xor(counters.and(last_byte));
                let change = block.encrypt_round(zero).xor(key.encrypt_round(zero));
                let to = &mut self.changes[self.count..][..V::BLOCKS];
                change.store(to.as_mut_ptr().cast());
                self.count += V::BLOCKS;
            }
        }
    }
}

impl Drop for FirstRounds {
    fn drop(&mut self) {
        wipe(&mut self.changes);
        wipe(&mut self.states);
    }
}

/// The counters of a message, in order.
pub(super) struct Counters<'a, V> {
    tables: &'a mut FirstRounds,
    keys: &'a SharedKeys,
    /// The states after the first and the second round of the first span's counter whose last
    /// byte is zero.
    after_first: V,
    after_second: V,
    /// The counter block of the span after the next, its last byte zero.
    next: (u64, u64),
    /// The difference of the states after the second round between the first span and this one, and
    /// the next one.
    change: V,
    next_change: V,
    /// Index of the next counter in its span's table.
    place: usize,
    /// Number of states in the table.
    states: usize,
}

impl<V: Carryless> States<V> for Counters<'_, V> {
    #[inline(always)]
    unsafe fn next_states<const N: usize>(&mut self) -> [V; N] {
        let end = self.place + N * V::BLOCKS;
        // SAFETY: the caller's promise; a row has as many blocks as `N` vectors.
        unsafe {
            let FirstRounds { changes, states, .. } = &mut *self.tables;
            let states = &mut states[self.place..end];
            let mut pads = [self.change; N];
            if V::BLOCKS > 1 && self.states < end {
                // The first span, whose difference is zero.
                let changes = &changes[self.place..end];
                let key: V = self.keys.load(NEXT_ROUND - 1, 0);
                for step in 0..N {
                    let change = V::load(changes[step * V::BLOCKS..].as_ptr().cast());
                    pads[step] = self.after_first.xor(change).encrypt_round(key);
                    pads[step].store(states[step * V::BLOCKS..].as_mut_ptr().cast());
                }
                self.states = end;
            } else {
                for step in 0..N {
                    let state = V::load(states[step * V::BLOCKS..].as_ptr().cast());
                    pads[step] = state.xor(pads[step]);
                }
            }
            if end == SPAN {
                // The last counters of the table belong to the next span.
                let change = self.next_change.xor(self.change);
                if V::BLOCKS == 1 {
                    for step in N - FIRST_COUNTER..N {
                        pads[step] = pads[step].xor(change);
                    }
                } else {
                    let none = change.xor(change);
                    let mut lanes = [none; MAX_BLOCKS];
                    for lane in V::BLOCKS - FIRST_COUNTER..V::BLOCKS {
                        lanes[lane] = change;
                    }
                    pads[N - 1] = pads[N - 1].xor(V::diagonal(lanes));
                }
            }
            self.place = end;
            if end == SPAN {
                self.place = 0;
                self.prepare_span();
            }
            pads
        }
    }
}

impl<V: Carryless> Counters<'_, V> {
    /// Makes the first `count` states of the table, a multiple of [`AT_ONCE`]: with one block in a
    /// register, a separate loop takes fewer instructions than making them one by one.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, whose registers have one block; the changes have been
    /// made.
    #[inline(always)]
    unsafe fn fill(&mut self, count: usize) {
        let FirstRounds { changes, states, .. } = &mut *self.tables;
        // SAFETY: the caller's promise; every access is to a block.
        unsafe {
            let key: V = self.keys.load(NEXT_ROUND - 1, 0);
            for place in 0..count / AT_ONCE {
                let changes = &changes[place * AT_ONCE..][..AT_ONCE];
                let states = &mut states[place * AT_ONCE..][..AT_ONCE];
                let mut made = [key; AT_ONCE];
                for step in 0..AT_ONCE {
                    let change = V::load(changes[step].as_ptr());
                    made[step] = change.xor(self.after_first).encrypt_round(key);
                }
                for step in 0..AT_ONCE {
                    made[step].store(states[step].as_mut_ptr());
                }
            }
        }
    }

    /// Advances to the next span.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn prepare_span(&mut self) {
        self.next.1 += SPAN as u64;
        self.change = self.next_change;
        // SAFETY: the caller's promise.
        let (_, state) = unsafe { two_rounds::<V>(self.keys, self.next) };
        self.next_change = state.xor(self.after_second);
    }
}

/// Counters that begin anywhere and share no work.
pub(super) struct AnyCounters<'a, V> {
    keys: &'a SharedKeys,
    /// The next register of counters, as little-endian numbers.
    next: V,
}

impl<'a, V: Carryless> AnyCounters<'a, V> {
    /// Begins with the counters of a register.
    pub(super) fn from(keys: &'a SharedKeys, next: V) -> AnyCounters<'a, V> {
        AnyCounters { keys, next }
    }
}

impl<V: Carryless> States<V> for AnyCounters<'_, V> {
    #[inline(always)]
    unsafe fn next_states<const N: usize>(&mut self) -> [V; N] {
        let mut states = [self.next; N];
        // SAFETY: the caller's promise.
        unsafe {
            for state in &mut states {
                *state = self.next.swap_bytes().xor(self.keys.load(0, 0));
                self.next = self.next.add_to_counters(V::BLOCKS as u64);
            }
            for round in 1..NEXT_ROUND {
                let key: V = self.keys.load(round, 0);
                for state in &mut states {
                    *state = state.encrypt_round(key);
                }
            }
        }
        states
    }
}

/// The states of a counter block after the first and the second round, in every lane.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn two_rounds<V: Carryless>(keys: &SharedKeys, (high, low): (u64, u64)) -> (V, V) {
    let block = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    // SAFETY: the caller's promise.
    unsafe {
        let first = V::splat(&block).xor(keys.load(0, 0)).encrypt_round(keys.load(1, 0));
        (first, first.encrypt_round(keys.load(2, 0)))
    }
}

const _: () = assert!(FIRST_COUNTER <= MAX_BLOCKS && SPAN.is_multiple_of(MAX_BLOCKS));
const _: () = assert!(SPAN.is_multiple_of(AT_ONCE) && AT_ONCE.is_multiple_of(MAX_BLOCKS));
