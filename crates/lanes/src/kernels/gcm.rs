//! GCM (NIST SP 800-38D) of several messages at once.
//!
//! For a short message (a few blocks of counter mode, a few products) a library spends most of its
//! time on the fixed work of each message. Here a group has one message for each lane of a
//! register. The blocks of each message use separate registers. One register does the fixed work
//! (the block that hides the tag, the block of lengths, the reduction, the tag) for the whole
//! group. Registers are independent of each other, within a message and across groups, so the CPU
//! processes several at once.

use evener_core::{Cipher, Direction, Job, Key, Outcome, Padding, Rejection};
use zeroize::Zeroize;

use super::gcm_long::shorten;
use super::gcm_message::{Message, Start, Tables};
use super::ghash::Sum;
use super::jobs::admit;
use super::rounds::encrypt;
use super::schedule::SharedKeys;
use super::vector::{BLOCK, Block, Carryless, MAX_BLOCKS, Vector};

/// The keys and tables of GCM.
pub(super) struct Work<'a> {
    pub(super) cipher: Cipher,
    /// The session's key, expanded.
    pub(super) shared: Option<&'a SharedKeys>,
    pub(super) room: &'a mut Room,
}

/// The tables for keys.
pub(super) struct Room {
    /// For the session's key.
    session: Tables,
    /// For a job's own key, with the expanded key.
    own: Tables,
    own_keys: SharedKeys,
}

impl Room {
    /// Empty tables.
    pub(super) fn new() -> Room {
        Room { session: Tables::new(), own: Tables::new(), own_keys: SharedKeys::new() }
    }
}

/// Processes every pending job with a key, and sets its outcome. Jobs without a key stay pending.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is the cipher's.
#[inline(always)]
pub(super) unsafe fn process<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    work: &mut Work<'_>,
    batch: &mut [Job<'_>],
) {
    let direction = if ENCRYPT { Direction::Encrypt } else { Direction::Decrypt };
    // Successive jobs often share their key, for example as segments of one file. The references
    // live until the batch is done, so equal addresses are equal keys.
    let mut expanded: Option<&Key> = None;
    let mut next = 0;
    // SAFETY: the caller's promise. A group's jobs have been checked and do not move.
    unsafe {
        loop {
            let mut group = Group::empty();
            while group.count < V::BLOCKS
                && let Some(job) = batch.get_mut(next)
            {
                if group.count > 0 && !same_key(group.key, job.key) {
                    break;
                }
                next += 1;
                if job.outcome == Outcome::Pending
                    && (job.key.is_some() || work.shared.is_some())
                    && (is_plain(job, work.cipher, direction) || admit(job, work.cipher, direction))
                {
                    group.key = job.key;
                    group.push::<V, ENCRYPT>(next - 1, job);
                }
            }
            if group.count == 0 {
                return;
            }
            let (keys, tables) = match (group.key, work.shared) {
                (None, Some(shared)) => (shared, &mut work.room.session),
                (own, _) => {
                    let Room { own: tables, own_keys, .. } = &mut *work.room;
                    if let Some(key) = own
                        && !expanded.is_some_and(|last| std::ptr::eq(last, key))
                    {
                        own_keys.expand_shared::<V>(key.bytes());
                        tables.powers.set::<V>(&subkey::<V, ROUNDS>(own_keys));
                        tables.first_rounds.forget();
                        expanded = Some(key);
                    }
                    (&*own_keys, tables)
                }
            };
            if !tables.powers.is_set() {
                tables.powers.set::<V>(&subkey::<V, ROUNDS>(keys));
            }
            let forged = group.run::<V, ENCRYPT, ROUNDS>(keys, tables);
            for slot in 0..group.count {
                let job = &mut batch[group.index[slot]];
                let length = group.messages[slot].length;
                job.outcome = match (ENCRYPT, forged >> slot & 1) {
                    (true, _) => Outcome::Done { written: length + BLOCK },
                    (false, 0) => Outcome::Done { written: length },
                    (false, _) => {
                        job.output[..length].zeroize();
                        Outcome::Rejected(Rejection::Tag)
                    }
                };
            }
        }
    }
}

/// Returns whether a short job without padding has valid lengths: a faster check than
/// [`Job::check`].
#[inline(always)]
fn is_plain(job: &Job<'_>, cipher: Cipher, direction: Direction) -> bool {
    const SHORT: usize = 1 << 30;
    let length = job.input.len();
    let fits = match direction {
        Direction::Encrypt => job.output.len() >= length.saturating_add(BLOCK),
        Direction::Decrypt => length >= BLOCK && job.output.len() >= length - BLOCK,
    };
    fits && length < SHORT
        && job.padding == Padding::None
        && job.key.is_none_or(|key| key.len() == cipher.key_length())
        && job.iv.bytes().len() == NONCE
}

#[inline(always)]
fn same_key(one: Option<&Key>, other: Option<&Key>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => std::ptr::eq(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// The hash subkey: the cipher of a block of zeros.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn subkey<V: Vector, const ROUNDS: usize>(keys: &SharedKeys) -> Block {
    let mut block = [0; BLOCK];
    // SAFETY: the caller's promise; one block is written.
    unsafe {
        let mut cipher = [V::splat(&block)];
        encrypt::<V, 1, ROUNDS>(keys, &mut cipher);
        cipher[0].store_bytes(block.as_mut_ptr(), BLOCK);
    }
    block
}

/// Messages under one key, one for each lane.
struct Group<'a> {
    messages: [Message; MAX_BLOCKS],
    /// Their places in the batch.
    index: [usize; MAX_BLOCKS],
    count: usize,
    /// Their own key, if any.
    key: Option<&'a Key>,
    /// True if any of them [is long](Message::is_long).
    any_long: bool,
}

impl<'a> Group<'a> {
    #[inline(always)]
    fn empty() -> Group<'a> {
        Group {
            messages: [Message::NONE; MAX_BLOCKS],
            index: [0; MAX_BLOCKS],
            count: 0,
            key: None,
            any_long: false,
        }
    }

    /// Adds a job with valid lengths.
    #[inline(always)]
    fn push<V: Vector, const ENCRYPT: bool>(&mut self, index: usize, job: &mut Job<'_>) {
        let nonce = job.iv.bytes();
        let high = nonce.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let low = nonce.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        let message = Message {
            input: job.input.as_ptr(),
            output: job.output.as_mut_ptr(),
            length: job.input.len() - if ENCRYPT { 0 } else { BLOCK },
            aad: job.aad.as_ptr(),
            aad_length: job.aad.len(),
            first: (high, u64::from(low) << 32 | 1),
            done: 0,
            aad_done: 0,
        };
        self.any_long |= message.is_long::<V>();
        self.messages[self.count] = message;
        self.index[self.count] = index;
        self.count += 1;
    }

    /// Processes the messages. For decryption, returns a bit for each forged message, whose text
    /// has been written.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. Inputs, outputs and additional data are valid for their
    /// lengths, plus a tag's.
    #[inline(always)]
    unsafe fn run<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
        &mut self,
        keys: &SharedKeys,
        tables: &mut Tables,
    ) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            let zero = V::splat(&[0; BLOCK]);
            let mut sums = [Sum::of(zero); MAX_BLOCKS];
            if self.any_long || !tables.powers.are_complete() {
                for slot in 0..V::BLOCKS {
                    let message = &mut self.messages[slot];
                    if message.is_long::<V>() {
                        sums[slot] = shorten::<V, ENCRYPT, ROUNDS>(message, keys, tables);
                    }
                    tables.powers.reach::<V>(message.powers());
                }
            }
            let powers = &tables.powers;
            let mut bases = [zero; MAX_BLOCKS];
            let mut lengths = [zero; MAX_BLOCKS];
            let mut pads = [zero; MAX_BLOCKS + 1];
            for slot in 0..V::BLOCKS {
                let message = &self.messages[slot];
                bases[slot] = V::counters(message.first.0, message.first.1);
                let bits = (8 * message.aad_length as u64, 8 * message.length as u64);
                lengths[slot] = V::counters(bits.0, bits.1);
                let start = bases[slot].add_to_counters(1 + (message.done / BLOCK) as u64);
                pads[slot + 1] = start.swap_bytes();
                if V::BLOCKS == 1 {
                    for step in 1..MAX_BLOCKS {
                        pads[step + 1] = start.add_to_counters(step as u64).swap_bytes();
                    }
                }
            }
            // `counters` has added its number to every lane.
            let numbers = V::counters(0, 0);
            pads[0] = V::diagonal(bases).subtract_from_counters(numbers).swap_bytes();
            let lengths = V::diagonal(lengths).subtract_from_counters(numbers);
            if self.messages.iter().any(|message| message.done < message.length) {
                encrypt::<V, { MAX_BLOCKS + 1 }, ROUNDS>(keys, &mut pads);
            } else {
                let mut first = [pads[0]];
                encrypt::<V, 1, ROUNDS>(keys, &mut first);
                pads[0] = first[0];
            }

            for slot in 0..V::BLOCKS {
                let mut first = [pads[slot + 1]; MAX_BLOCKS];
                if V::BLOCKS == 1 {
                    first.copy_from_slice(&pads[1..]);
                }
                let start = Start { pads: first, base: bases[slot], sum: sums[slot] };
                let message = &self.messages[slot];
                sums[slot] = message.finish::<V, ENCRYPT, ROUNDS>(keys, powers, start);
            }
            let mut sum = Sum::across(&sums);
            sum.add(Sum::product(lengths, powers.splat(1)));
            let tags = sum.reduced().swap_bytes().xor(pads[0]);
            self.settle::<V, ENCRYPT>(tags)
        }
    }

    /// Writes the tags, or compares them and returns a bit for each wrong one.
    ///
    /// # Safety
    /// As for [`Group::run`].
    #[inline(always)]
    unsafe fn settle<V: Carryless, const ENCRYPT: bool>(&self, tags: V) -> u32 {
        // SAFETY: the tag follows the message.
        unsafe {
            if ENCRYPT {
                let mut blocks = [[0_u8; BLOCK]; MAX_BLOCKS];
                tags.store(blocks.as_mut_ptr().cast());
                for slot in 0..self.count {
                    let message = &self.messages[slot];
                    let to = message.output.add(message.length);
                    to.copy_from_nonoverlapping(blocks[slot].as_ptr(), BLOCK);
                }
                return 0;
            }
            let none = [0_u8; BLOCK];
            let mut places = [none.as_ptr(); MAX_BLOCKS];
            for slot in 0..self.count {
                let message = &self.messages[slot];
                places[slot] = message.input.add(message.length);
            }
            tags.differing_lanes(V::gather(&places, 0))
        }
    }
}

/// Length of a nonce in bytes.
const NONCE: usize = 12;
