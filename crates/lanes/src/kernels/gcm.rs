//! GCM (NIST SP 800-38D) of several messages at once.
//!
//! A short message is a few blocks of counter mode and a few products, and a library spends
//! most of its time around them. Here as many messages as a register has lanes make a group.
//! Each message's blocks fill registers of their own; what there is one of for a message (the
//! block that hides its tag, the block of lengths, the reduction, the tag) is done for the
//! whole group in one register. Registers do not wait for each other, neither in a message nor
//! across groups, so that the CPU works on several at once.

use evener_core::{Cipher, Direction, Job, Key, Outcome, Padding, Rejection};
use zeroize::Zeroize;

use super::ghash::{MAX_POWER, Powers, Sum};
use super::jobs::admit;
use super::parallel::encrypt;
use super::schedule::SharedKeys;
use super::vector::{BLOCK, Block, Carryless, MAX_BLOCKS, Vector};

/// What GCM needs besides the jobs.
pub(super) struct Work<'a> {
    pub(super) cipher: Cipher,
    /// The session's key, expanded.
    pub(super) shared: Option<&'a SharedKeys>,
    pub(super) room: &'a mut Room,
}

/// What is made from keys.
pub(super) struct Room {
    /// For the session's key.
    session: Powers,
    /// For a key that a job brings, and that key expanded.
    own: Powers,
    own_keys: SharedKeys,
}

impl Room {
    /// Nothing yet.
    pub(super) fn new() -> Room {
        Room { session: Powers::new(), own: Powers::new(), own_keys: SharedKeys::new() }
    }
}

/// Does every pending job that it can, and sets its outcome. What is still pending afterwards
/// had no key.
///
/// # Safety
/// The CPU has the instructions of `V`. `ROUNDS` is the cipher's.
#[inline(always)]
pub(super) unsafe fn process<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
    work: &mut Work<'_>,
    batch: &mut [Job<'_>],
) {
    let direction = if ENCRYPT { Direction::Encrypt } else { Direction::Decrypt };
    // Jobs in a row often share their key, say as segments of one file. The references are
    // alive until the batch is done, so equal addresses are equal keys.
    let mut expanded: Option<&Key> = None;
    let mut next = 0;
    // SAFETY: the caller's promise. A group's jobs have been checked; they stay where they are.
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
                    group.push::<ENCRYPT>(next - 1, job);
                }
            }
            if group.count == 0 {
                return;
            }
            let (keys, powers) = match (group.key, work.shared) {
                (None, Some(shared)) => (shared, &mut work.room.session),
                (own, _) => {
                    let Room { own: powers, own_keys, .. } = &mut *work.room;
                    if let Some(key) = own
                        && !expanded.is_some_and(|last| std::ptr::eq(last, key))
                    {
                        own_keys.expand_shared::<V>(key.bytes());
                        powers.set(&subkey::<V, ROUNDS>(own_keys));
                        expanded = Some(key);
                    }
                    (&*own_keys, powers)
                }
            };
            if !powers.is_set() {
                powers.set(&subkey::<V, ROUNDS>(keys));
            }
            let forged = group.run::<V, ENCRYPT, ROUNDS>(keys, powers);
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

/// Whether the job's shape is sound, by fewer questions than [`Job::check`]: it must be short
/// and have no special wish.
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
unsafe fn subkey<V: Vector, const ROUNDS: usize>(keys: &SharedKeys) -> Block {
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
    /// Where in the batch they are.
    index: [usize; MAX_BLOCKS],
    count: usize,
    /// The key that they bring, if they do.
    key: Option<&'a Key>,
    /// Whether any of them [is long](Message::is_long).
    any_long: bool,
}

/// What is left to do of one message.
#[derive(Clone, Copy)]
struct Message {
    input: *const u8,
    output: *mut u8,
    /// Of the message without its tag, in bytes.
    length: usize,
    aad: *const u8,
    aad_length: usize,
    /// The first counter block, as two big-endian numbers.
    first: (u64, u64),
    /// How many bytes of the text, and of the additional data, are done.
    done: usize,
    aad_done: usize,
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

    /// Adds a job whose shape is sound.
    #[inline(always)]
    fn push<const ENCRYPT: bool>(&mut self, index: usize, job: &mut Job<'_>) {
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
        self.any_long |= message.is_long();
        self.messages[self.count] = message;
        self.index[self.count] = index;
        self.count += 1;
    }

    /// Does the messages. Returns, for decryption, which of them are forged, one bit each;
    /// their text has been written.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. Inputs, outputs and additional data are valid for
    /// their lengths, and a tag's more.
    #[inline(always)]
    unsafe fn run<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
        &mut self,
        keys: &SharedKeys,
        powers: &mut Powers,
    ) -> u32 {
        // SAFETY: the caller's promise.
        unsafe {
            let zero = V::splat(&[0; BLOCK]);
            let mut carries = [zero; MAX_BLOCKS];
            if self.any_long || !powers.are_complete() {
                for slot in 0..V::BLOCKS {
                    let message = &mut self.messages[slot];
                    if message.is_long() {
                        carries[slot] = message.shorten::<V, ENCRYPT, ROUNDS>(keys, powers);
                    }
                    powers.reach::<V>(message.powers());
                }
            }
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
            }
            // `counters` has added its number to every lane.
            let numbers = V::counters(0, 0);
            pads[0] = V::diagonal(bases).subtract_from_counters(numbers).swap_bytes();
            let lengths = V::diagonal(lengths).subtract_from_counters(numbers);
            encrypt::<V, { MAX_BLOCKS + 1 }, ROUNDS>(keys, &mut pads);

            let mut sums = [Sum::of(zero); MAX_BLOCKS];
            for slot in 0..V::BLOCKS {
                let start = Start { pad: pads[slot + 1], base: bases[slot], carry: carries[slot] };
                let message = &self.messages[slot];
                sums[slot] = message.finish::<V, ENCRYPT, ROUNDS>(keys, powers, start);
            }
            let mut sum = Sum::across(&sums);
            sum.add(Sum::product(lengths, powers.first()));
            let tags = sum.reduced().swap_bytes().xor(pads[0]);
            self.settle::<V, ENCRYPT>(tags)
        }
    }

    /// Writes the tags, or compares them: returns a bit for each that is wrong.
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

/// Where the rest of a message starts.
struct Start<V> {
    /// The cipher of its first counters.
    pad: V,
    /// The message's first counter block and those after it.
    base: V,
    /// What precedes it in the hash, in the first lane.
    carry: V,
}

impl Message {
    const NONE: Message = Message {
        input: std::ptr::null(),
        output: std::ptr::null_mut(),
        length: 0,
        aad: std::ptr::null(),
        aad_length: 0,
        first: (0, 0),
        done: 0,
        aad_done: 0,
    };

    /// Whether it has more than [`Message::finish`] takes.
    #[inline(always)]
    fn is_long(&self) -> bool {
        self.length > LONGEST_REST || self.aad_length > LONGEST_AAD
    }

    /// The highest power of the subkey that [`Message::finish`] needs.
    #[inline(always)]
    fn powers(&self) -> usize {
        let blocks = (self.length - self.done).div_ceil(BLOCK);
        (self.aad_length - self.aad_done).div_ceil(BLOCK) + blocks + 1
    }

    /// Does so much of the message that [`Message::finish`] can do the rest, of which there is
    /// some. Returns the hash so far, in the first lane.
    ///
    /// # Safety
    /// As for [`Group::run`].
    #[inline(always)]
    unsafe fn shorten<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
        &mut self,
        keys: &SharedKeys,
        powers: &mut Powers,
    ) -> V {
        let width = V::BLOCKS * BLOCK;
        // SAFETY: all accesses are to bytes of the message.
        unsafe {
            powers.reach::<V>(MAX_POWER);
            let zero = V::splat(&[0; BLOCK]);
            let mut carry = zero;
            let spare = if self.length > LONGEST_REST { 0 } else { 1 };
            while self.aad_length - self.aad_done > spare * LONGEST_AAD {
                let count = (self.aad_length - self.aad_done).min(width);
                let data = V::load_bytes(self.aad.add(self.aad_done), count);
                let sum =
                    Sum::product(data.swap_bytes().xor(carry), powers.load(count.div_ceil(BLOCK)));
                carry = alone(sum).reduced();
                self.aad_done += count;
            }
            let mut counters = V::counters(self.first.0, self.first.1).add_to_counters(1);
            // Text that is done, and hashed between the rounds of the next pads.
            let mut unhashed: *const u8 = std::ptr::null();
            while self.length - self.done > LONGEST_REST {
                let (input, output) = (self.input.add(self.done), self.output.add(self.done));
                let mut pads = [counters; STEPS];
                let key: V = keys.load(0, 0);
                for step in 0..STEPS {
                    pads[step] = counters.swap_bytes().xor(key);
                    counters = counters.add_to_counters(V::BLOCKS as u64);
                }
                let mut sum = Sum::of(zero);
                for round in 1..ROUNDS {
                    let key: V = keys.load(round, 0);
                    for step in 0..STEPS {
                        pads[step] = pads[step].encrypt_round(key);
                    }
                    // The first register, which waits for the hash so far, comes last.
                    if V::HAS_MANY_REGISTERS && round <= STEPS && !unhashed.is_null() {
                        let step = STEPS - round;
                        let text = V::load(unhashed.add(step * width)).swap_bytes();
                        let text = if step == 0 { text.xor(carry) } else { text };
                        sum.add(Sum::product(text, powers.load((STEPS - step) * V::BLOCKS)));
                    }
                }
                let key: V = keys.load(ROUNDS, 0);
                for step in 0..STEPS {
                    let offset = step * width;
                    V::ask_to_read(input.wrapping_add(offset + AHEAD));
                    V::ask_to_write(output.wrapping_add(offset + AHEAD));
                    let data = V::load(input.add(offset));
                    pads[step].encrypt_last(key.xor(data)).store(output.add(offset));
                }
                if V::HAS_MANY_REGISTERS && !unhashed.is_null() {
                    carry = alone(sum).reduced();
                }
                unhashed = if ENCRYPT { output } else { input };
                self.done += STEPS * width;
                if !V::HAS_MANY_REGISTERS {
                    carry = hash_of_steps(powers, carry, unhashed);
                    unhashed = std::ptr::null();
                }
            }
            if !unhashed.is_null() {
                carry = hash_of_steps(powers, carry, unhashed);
            }
            carry
        }
    }

    /// Does the rest of the message but the block of lengths, and returns its hash.
    ///
    /// # Safety
    /// As for [`Group::run`].
    #[inline(always)]
    unsafe fn finish<V: Carryless, const ENCRYPT: bool, const ROUNDS: usize>(
        &self,
        keys: &SharedKeys,
        powers: &Powers,
        start: Start<V>,
    ) -> Sum<V> {
        let width = V::BLOCKS * BLOCK;
        let mut power = self.powers();
        // SAFETY: all accesses are to bytes that are left; the power has been reached.
        unsafe {
            let zero = V::splat(&[0; BLOCK]);
            let mut sum = Sum::of(zero);
            let mut carry = start.carry;
            let mut aad_done = self.aad_done;
            while aad_done < self.aad_length {
                let count = (self.aad_length - aad_done).min(width);
                let data = V::load_bytes(self.aad.add(aad_done), count).swap_bytes();
                sum.add(Sum::product(data.xor(carry), powers.load(power)));
                carry = zero;
                power -= count.div_ceil(BLOCK);
                aad_done += count;
            }
            let (mut pads, mut done) = ([start.pad], self.done);
            while done < self.length {
                let (input, output) = (self.input.add(done), self.output.add(done));
                let count = self.length - done;
                let text = if count >= width {
                    let data = V::load(input);
                    let result = data.xor(pads[0]);
                    result.store(output);
                    if ENCRYPT { result } else { data }
                } else {
                    let data = V::load_bytes(input, count);
                    let result = data.xor(pads[0]);
                    result.store_bytes(output, count);
                    if ENCRYPT { result.truncated(count) } else { data }
                };
                sum.add(Sum::product(text.swap_bytes().xor(carry), powers.load(power)));
                if count <= width {
                    break;
                }
                carry = zero;
                power -= V::BLOCKS;
                done += width;
                let counters = start.base.add_to_counters(1 + (done / BLOCK) as u64);
                pads[0] = counters.swap_bytes();
                encrypt::<V, 1, ROUNDS>(keys, &mut pads);
            }
            sum
        }
    }
}

/// The hash so far, in the first lane, after [`STEPS`] registers of text.
///
/// # Safety
/// The CPU has the instructions of `V`; the text is there; the highest power has been reached.
#[inline(always)]
unsafe fn hash_of_steps<V: Carryless>(powers: &Powers, carry: V, text: *const u8) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let mut sum = Sum::of(V::splat(&[0; BLOCK]));
        for step in 0..STEPS {
            let block = V::load(text.add(step * V::BLOCKS * BLOCK)).swap_bytes();
            let block = if step == 0 { block.xor(carry) } else { block };
            sum.add(Sum::product(block, powers.load((STEPS - step) * V::BLOCKS)));
        }
        alone(sum).reduced()
    }
}

/// A sum whose lanes have been added up in the first lane; the others are zero.
#[inline(always)]
fn alone<V: Carryless>(sum: Sum<V>) -> Sum<V> {
    // SAFETY: a value proves the instructions.
    let zero = unsafe { V::splat(&[0; BLOCK]) };
    let none = Sum::of(zero);
    Sum::across(&[sum, none, none, none])
}

/// Length of a nonce in bytes.
const NONCE: usize = 12;

/// The most of a message, and of its additional data, that is hashed without a reduction, in
/// bytes: with the lengths it needs no more than the powers that are kept.
const LONGEST_REST: usize = 32 * BLOCK;
const LONGEST_AAD: usize = 4 * BLOCK;

const _: () = assert!(LONGEST_REST / BLOCK + LONGEST_AAD / BLOCK < MAX_POWER);

/// How far ahead a long message's input and output are asked for, in bytes. The CPU follows
/// them by itself, but not into the next page.
const AHEAD: usize = 2048;

/// Registers of a long message that are in flight.
const STEPS: usize = 8;

const _: () =
    assert!(STEPS * MAX_BLOCKS <= MAX_POWER && STEPS * MAX_BLOCKS * BLOCK <= LONGEST_REST);
