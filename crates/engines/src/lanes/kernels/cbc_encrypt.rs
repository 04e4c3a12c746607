//! CBC encryption (NIST SP 800-38A, section 6.2) of many messages side by side.
//!
//! A block of a message needs the one before it, so a message alone leaves most of a core's
//! AES units idle. Here every lane of several registers holds another message. All lanes
//! advance together until the first of them is done; it gets the next message at once, so
//! that none waits for the longest. When no message is left, an idle lane shadows a live one:
//! it computes and writes the same bytes once more, which keeps the kernel free of cases.

use evener_core::{Cipher, Direction, Job, Key, Outcome, Padding, padding};
use zeroize::Zeroize;

use super::cbc_lanes::{GROUPS, Keys, MAX_LANES, Places, Shared, encrypt_lanes};
use super::jobs::{admit, is_large};
use super::schedule::{RoundKeys, SharedKeys};
use super::vector::{BLOCK, Block, LINE_BLOCKS, MAX_BLOCKS, Vector};

/// Round keys of every lane, for messages that bring their own keys.
pub(super) type LaneKeys = RoundKeys<MAX_LANES>;

/// What CBC encryption needs besides the jobs.
pub(super) struct Work<'a> {
    pub(super) cipher: Cipher,
    /// The session's key, for jobs that bring none.
    pub(super) key: Option<&'a Key>,
    /// The same, expanded.
    pub(super) shared: Option<&'a SharedKeys>,
    /// Room for the keys of jobs that bring their own.
    pub(super) own: &'a mut LaneKeys,
}

/// Encrypts every pending job that it can, and sets its outcome. What is still pending
/// afterwards had no key.
///
/// # Safety
/// The CPU has the instructions of `V`. `WORDS` is the length of the cipher's keys in 32-bit
/// words, and `ROUNDS` is 6 more.
#[inline(always)]
pub(super) unsafe fn process<V: Vector, const WORDS: usize, const ROUNDS: usize>(
    work: &mut Work<'_>,
    batch: &mut [Job<'_>],
) {
    let stream = is_large(batch);
    let mut rest = batch;
    // SAFETY: the caller's promise.
    unsafe {
        if let Some(keys) = work.shared {
            let shared = Shared::load::<ROUNDS>(keys);
            rest = uniform::<V, ROUNDS>(&shared, rest);
            if !rest.is_empty() {
                let mut source = OneKey(shared);
                rest = refilled::<V, _, ROUNDS>(&mut source, work.cipher, stream, rest);
            }
        }
        if !rest.is_empty() {
            let mut source = OwnKeys::<WORDS> {
                session: work.key,
                lanes: work.own,
                fresh: [(0, None); MAX_LANES],
                count: 0,
            };
            refilled::<V, _, ROUNDS>(&mut source, work.cipher, stream, rest);
        }
        if stream {
            V::finish_streaming();
        }
    }
}

/// Encrypts jobs from the front of the batch as long as a vector's worth of them is short, of
/// one length and without a special wish, and returns the others. Their work is so small that
/// the bookkeeping of [`refilled`] would double it.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn uniform<'j, 'a, V: Vector, const ROUNDS: usize>(
    keys: &Shared<V>,
    mut batch: &'j mut [Job<'a>],
) -> &'j mut [Job<'a>] {
    const LONGEST: usize = 512;
    let lanes = GROUPS * V::BLOCKS;
    let mut places = Places::new();
    let mut iv = [std::ptr::null(); MAX_LANES];
    while batch.len() >= lanes {
        let length = batch[0].input.len();
        if !length.is_multiple_of(BLOCK) || !(BLOCK..=LONGEST).contains(&length) {
            return batch;
        }
        for (lane, job) in batch[..lanes].iter_mut().enumerate() {
            let like_the_others = job.outcome == Outcome::Pending
                && job.input.len() == length
                && job.output.len() >= length
                && job.iv.bytes().len() == BLOCK
                && job.padding == Padding::None
                && job.key.is_none()
                && job.aad.is_empty();
            if !like_the_others {
                return batch;
            }
            iv[lane] = job.iv.bytes().as_ptr();
            places.input[lane] = job.input.as_ptr();
            places.output[lane] = job.output.as_mut_ptr();
        }
        // SAFETY: every input and output has `length` bytes, every IV a block.
        unsafe {
            let mut chain = [V::gather(&iv, 0); GROUPS];
            for group in 1..GROUPS {
                chain[group] = V::gather(&iv[group * V::BLOCKS..], 0);
            }
            encrypt_lanes::<V, _, ROUNDS>(keys, &mut chain, &places, length / BLOCK, 0);
        }
        let (done, others) = batch.split_at_mut(lanes);
        for job in done {
            job.outcome = Outcome::Done { written: length };
        }
        batch = others;
    }
    batch
}

/// Encrypts jobs from the front of the batch, up to the first with a key that the source does
/// not take, and returns the others.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn refilled<'j, 'a, V: Vector, S: KeySource<'a, V>, const ROUNDS: usize>(
    source: &mut S,
    cipher: Cipher,
    stream: bool,
    batch: &'j mut [Job<'a>],
) -> &'j mut [Job<'a>] {
    let count = GROUPS * V::BLOCKS;
    let mut lanes = Lanes::idle();
    let mut next = 0;
    let mut fresh = u32::MAX >> (MAX_LANES - count);
    // SAFETY: `Lanes` holds places within jobs that are borrowed until the end.
    unsafe {
        loop {
            while fresh != 0 {
                let lane = fresh.trailing_zeros() as usize;
                fresh &= fresh - 1;
                lanes.live &= !(1 << lane);
                while let Some(job) = batch.get_mut(next) {
                    if !S::OWN && job.key.is_some() {
                        break;
                    }
                    next += 1;
                    if source.has_key(job) && lanes.take(lane, cipher, job) {
                        source.assign(lane, job);
                        break;
                    }
                }
            }
            if lanes.live == 0 {
                break;
            }
            source.expand();
            lanes.shadow(source, count);
            let (shortest, longest) = lanes.extremes(count);
            lanes.places.stream = stream && lanes.are_aligned(count);
            let mut chain = [V::load(lanes.chain.as_ptr().cast()); GROUPS];
            for group in 1..GROUPS {
                chain[group] = V::load(lanes.chain[group * V::BLOCKS..].as_ptr().cast());
            }
            encrypt_lanes::<V, _, ROUNDS>(
                source.keys(),
                &mut chain,
                &lanes.places,
                shortest,
                longest,
            );
            for group in 0..GROUPS {
                chain[group].store(lanes.chain[group * V::BLOCKS..].as_mut_ptr().cast());
            }
            fresh = lanes.advance(count, shortest);
        }
    }
    lanes.wipe();
    &mut batch[next..]
}

/// Where a lane's round keys come from.
trait KeySource<'a, V> {
    /// Whether jobs may bring their own.
    const OWN: bool;
    type Keys: Keys<V>;

    /// Whether there is a key for the job.
    fn has_key(&self, job: &Job<'a>) -> bool;

    /// Notes a lane's new job.
    fn assign(&mut self, lane: usize, job: &Job<'a>);

    /// Prepares the keys of the jobs noted.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn expand(&mut self);

    /// Gives one lane the keys of another.
    fn copy(&mut self, from: usize, to: usize);

    fn keys(&self) -> &Self::Keys;
}

/// The session's key for every lane.
struct OneKey<V>(Shared<V>);

impl<'a, V: Vector> KeySource<'a, V> for OneKey<V> {
    const OWN: bool = false;
    type Keys = Shared<V>;

    #[inline(always)]
    fn has_key(&self, _job: &Job<'a>) -> bool {
        true
    }

    #[inline(always)]
    fn assign(&mut self, _lane: usize, _job: &Job<'a>) {}

    #[inline(always)]
    unsafe fn expand(&mut self) {}

    #[inline(always)]
    fn copy(&mut self, _from: usize, _to: usize) {}

    #[inline(always)]
    fn keys(&self) -> &Shared<V> {
        &self.0
    }
}

/// A key for each lane: the job's own, or else the session's.
struct OwnKeys<'k, 'a, const WORDS: usize> {
    session: Option<&'k Key>,
    lanes: &'k mut LaneKeys,
    /// Lanes whose keys are yet to be expanded, and those keys.
    fresh: [(usize, Option<&'a Key>); MAX_LANES],
    count: usize,
}

impl<'a, V: Vector, const WORDS: usize> KeySource<'a, V> for OwnKeys<'_, 'a, WORDS> {
    const OWN: bool = true;
    type Keys = LaneKeys;

    #[inline(always)]
    fn has_key(&self, job: &Job<'a>) -> bool {
        job.key.is_some() || self.session.is_some()
    }

    #[inline(always)]
    fn assign(&mut self, lane: usize, job: &Job<'a>) {
        self.fresh[self.count] = (lane, job.key);
        self.count += 1;
    }

    #[inline(always)]
    unsafe fn expand(&mut self) {
        for fresh in self.fresh[..self.count].chunks(V::BLOCKS) {
            let mut lanes = [0; MAX_BLOCKS];
            let mut keys = [&[][..]; MAX_BLOCKS];
            for (index, &(lane, key)) in fresh.iter().enumerate() {
                lanes[index] = lane;
                keys[index] = key.or(self.session).map_or(&[], Key::bytes);
            }
            let count = fresh.len();
            // SAFETY: the caller's promise; `take` refuses keys of another length.
            unsafe { self.lanes.expand::<V, WORDS>(&lanes[..count], &keys[..count]) }
        }
        self.count = 0;
    }

    #[inline(always)]
    fn copy(&mut self, from: usize, to: usize) {
        self.lanes.copy(from, to);
    }

    #[inline(always)]
    fn keys(&self) -> &LaneKeys {
        self.lanes
    }
}

/// What every lane is doing.
#[repr(C, align(64))]
struct Lanes {
    /// The last ciphertext block, or the IV.
    chain: [Block; MAX_LANES],
    /// The padded last block of a message, for when its whole blocks are done.
    tail: [Block; MAX_LANES],
    places: Places,
    /// Blocks to go before something has to be done about the lane.
    left: [usize; MAX_LANES],
    /// Lanes that have a message: one bit each.
    live: u32,
    /// Lanes that have yet to do their tail.
    padded: u32,
    /// Whether any tail was ever used.
    used_tails: bool,
}

impl Lanes {
    #[inline(always)]
    fn idle() -> Lanes {
        Lanes {
            chain: [[0; BLOCK]; MAX_LANES],
            tail: [[0; BLOCK]; MAX_LANES],
            places: Places::new(),
            left: [0; MAX_LANES],
            live: 0,
            padded: 0,
            used_tails: false,
        }
    }

    /// Puts a job into a lane; false when there is nothing to encrypt.
    #[inline(always)]
    fn take(&mut self, lane: usize, cipher: Cipher, job: &mut Job<'_>) -> bool {
        if job.outcome != Outcome::Pending || !admit(job, cipher, Direction::Encrypt) {
            return false;
        }
        let (whole, tail) = job.input.as_chunks::<BLOCK>();
        let is_padded = job.padding == Padding::Pkcs7;
        let written = (whole.len() + usize::from(is_padded)) * BLOCK;
        job.outcome = Outcome::Done { written };
        if written == 0 {
            return false;
        }
        self.chain[lane].copy_from_slice(job.iv.bytes());
        self.places.input[lane] = job.input.as_ptr();
        self.places.output[lane] = job.output.as_mut_ptr();
        self.left[lane] = whole.len();
        self.live |= 1 << lane;
        if is_padded {
            padding::fill_last_block(&mut self.tail[lane], tail);
            self.used_tails = true;
            self.padded |= 1 << lane;
            if whole.is_empty() {
                self.start_tail(lane);
            }
        }
        true
    }

    /// Turns a lane from its message's whole blocks to the padded one.
    fn start_tail(&mut self, lane: usize) {
        self.padded &= !(1 << lane);
        self.places.input[lane] = self.tail[lane].as_ptr();
        self.left[lane] = 1;
    }

    /// Lets idle lanes whose work is used up repeat what a live lane does.
    #[inline(always)]
    fn shadow<'a, V>(&mut self, source: &mut impl KeySource<'a, V>, count: usize) {
        let mut idle = !self.live & (u32::MAX >> (MAX_LANES - count));
        while idle != 0 {
            let lane = idle.trailing_zeros() as usize;
            idle &= idle - 1;
            if self.left[lane] == 0 {
                let like = self.live.trailing_zeros() as usize;
                source.copy(like, lane);
                self.chain[lane] = self.chain[like];
                self.places.input[lane] = self.places.input[like];
                self.places.output[lane] = self.places.output[like];
                self.left[lane] = self.left[like];
            }
        }
    }

    /// The blocks that the shortest and the longest lane have left.
    #[inline(always)]
    fn extremes(&self, count: usize) -> (usize, usize) {
        let (mut shortest, mut longest) = (usize::MAX, 0);
        for &left in &self.left[..count] {
            shortest = shortest.min(left);
            longest = longest.max(left);
        }
        (shortest, longest)
    }

    /// Whether every output is a multiple of a line.
    #[inline(always)]
    fn are_aligned(&self, count: usize) -> bool {
        let bits = self.places.output[..count].iter().fold(0, |bits, place| bits | place.addr());
        bits.is_multiple_of(LINE_BLOCKS * BLOCK)
    }

    /// Notes that every lane has moved on by `blocks`, and returns those that need a new job.
    #[inline(always)]
    fn advance(&mut self, count: usize, blocks: usize) -> u32 {
        let mut finished = 0;
        for lane in 0..count {
            self.left[lane] -= blocks;
            self.places.input[lane] = self.places.input[lane].wrapping_add(blocks * BLOCK);
            self.places.output[lane] = self.places.output[lane].wrapping_add(blocks * BLOCK);
            finished |= u32::from(self.left[lane] == 0) << lane;
        }
        let mut padded = finished & self.padded;
        finished &= self.live & !padded;
        while padded != 0 {
            self.start_tail(padded.trailing_zeros() as usize);
            padded &= padded - 1;
        }
        finished
    }

    /// Wipes the tails, which are plaintext.
    fn wipe(&mut self) {
        if self.used_tails {
            self.tail.as_flattened_mut().zeroize();
        }
    }
}
