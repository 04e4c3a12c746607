//! CBC encryption (NIST SP 800-38A, section 6.2) of many messages side by side.
//!
//! Each block of a message depends on the previous one, so a single message leaves most of a core's
//! AES units idle. Here every lane of several registers encrypts a different message. These
//! messages are a *row*, which starts and advances together. A lane whose message has ended
//! encrypts zeros until the row ends, so messages are grouped into rows by length. (Giving such a
//! lane the next message at once would interrupt all lanes: with mixed lengths, at almost every
//! block.)

use evener_core::{Cipher, Job, Key, Outcome, Padding};
use zeroize::Zeroize;

use super::cbc_lanes::{
    GROUPS, Keys, LINE, MAX_LANES, Places, Shared, encrypt_block, encrypt_lanes,
};
use super::cbc_rows::{Rows, encrypt_rows};
use super::jobs::is_large;
use super::rows::Plan;
use super::schedule::{RoundKeys, SharedKeys};
use super::vector::{BLOCK, Block, MAX_BLOCKS, Vector};

/// The keys and buffers of CBC encryption.
pub(super) struct Work<'a> {
    pub(super) cipher: Cipher,
    /// The session's key, for jobs without their own.
    pub(super) key: Option<&'a Key>,
    /// The session's expanded key.
    pub(super) shared: Option<&'a SharedKeys>,
    pub(super) room: &'a mut Room,
}

/// Buffers that are reused for later batches, so that none must be allocated or cleared.
pub(super) struct Room {
    /// Round keys of every lane, for messages with their own keys.
    own: RoundKeys<MAX_LANES>,
    plan: Plan,
    idle: IdleOutput,
}

impl Room {
    pub(super) fn new() -> Room {
        Room { own: RoundKeys::new(), plan: Plan::new(), idle: IdleOutput([0; IDLE_LENGTH]) }
    }
}

/// Encrypts every pending job with a key, and sets its outcome. Jobs without a key stay pending.
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
    let Room { own, plan, idle } = &mut *work.room;
    let lanes = GROUPS * V::BLOCKS;
    let mut rest = batch;
    // SAFETY: the caller's promise; a plan has only jobs whose shape is sound, in rows of at most
    // as many as there are lanes.
    unsafe {
        let shared = work.shared.map(|keys| Shared::<V>::load::<ROUNDS>(keys));
        loop {
            if let Some(keys) = &shared {
                rest = uniform::<V, ROUNDS>(keys, stream, rest);
            }
            if rest.is_empty() {
                break;
            }
            let window;
            (window, rest) = rest.split_at_mut(rest.len().min(Plan::LONGEST));
            plan.make(window, work.cipher, shared.is_some());
            if let Some(keys) = &shared {
                for places in plan.with_session_key().chunks(lanes) {
                    let mut row = Row::<V>::new(window, places, idle);
                    row.encrypt::<_, ROUNDS>(keys, stream, idle);
                }
            }
            for places in plan.with_own_keys().chunks(lanes) {
                let mut keys = [&[][..]; MAX_LANES];
                for (lane, &place) in places.iter().enumerate() {
                    let key = window[usize::from(place)].key.or(work.key);
                    keys[lane] = key.map_or(&[], Key::bytes);
                }
                own.expand::<V, WORDS>(&keys[..places.len()]);
                let mut row = Row::<V>::new(window, places, idle);
                row.encrypt::<_, ROUNDS>(own, stream, idle);
            }
        }
        if stream {
            V::finish_streaming();
        }
    }
}

/// Encrypts jobs from the front of the batch while they form rows of one length with the session's
/// key and no padding; returns the rest. For short jobs, planning rows would double the time, and
/// rows of one length can follow each other without a pause.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn uniform<'j, 'a, V: Vector, const ROUNDS: usize>(
    keys: &Shared<V>,
    stream: bool,
    batch: &'j mut [Job<'a>],
) -> &'j mut [Job<'a>] {
    const LONGEST: usize = 512;
    let lanes = GROUPS * V::BLOCKS;
    let length = batch.first().map_or(0, |job| job.input.len());
    let mut row = 0;
    // SAFETY: a row that has been prepared has inputs and outputs of `length` bytes.
    unsafe {
        let mut rows = LikeJobs::<V>::new(batch, length, stream);
        if length >= LINE && length.is_multiple_of(LINE) {
            row = encrypt_rows::<V, _, _, ROUNDS>(keys, &mut rows, length / LINE);
        } else if length.is_multiple_of(BLOCK) && (BLOCK..=LONGEST).contains(&length) {
            while rows.prepare(row) {
                let (mut chain, places) = (rows.ivs(row), &rows.slots[row % SLOTS].places);
                // Messages of one block: no loop, so no positions must be saved.
                match length {
                    BLOCK => encrypt_block::<V, _, ROUNDS>(keys, &mut chain, places, 0),
                    _ => encrypt_lanes::<V, _, ROUNDS>(keys, &mut chain, places, length / BLOCK, 0),
                }
                row += 1;
            }
        }
    }
    &mut batch[row * lanes..]
}

/// Rows of uniform jobs: of one length, with the session's key, not padded.
struct LikeJobs<'j, 'a, V> {
    batch: &'j mut [Job<'a>],
    length: usize,
    /// True if aligned outputs are to be written past the caches.
    stream: bool,
    /// The rows prepared last, indexed by number modulo the array's length.
    slots: [Slot<V>; SLOTS],
}

/// A row is in use while the previous one, it and the next one are encrypted.
const SLOTS: usize = 3;

struct Slot<V> {
    places: Places,
    ivs: [V; GROUPS],
}

impl<'j, 'a, V: Vector> LikeJobs<'j, 'a, V> {
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    unsafe fn new(batch: &'j mut [Job<'a>], length: usize, stream: bool) -> LikeJobs<'j, 'a, V> {
        // SAFETY: the caller's promise.
        let zero = unsafe { V::splat(&[0; BLOCK]) };
        let slot = || Slot { places: Places::new(), ivs: [zero; GROUPS] };
        LikeJobs { batch, length, stream, slots: [slot(), slot(), slot()] }
    }
}

// SAFETY: a row's jobs have inputs and outputs of the length, as `prepare` has checked, and are
// borrowed for as long as this is.
unsafe impl<V: Vector> Rows<V> for LikeJobs<'_, '_, V> {
    /// Checks the row's jobs, and sets their outcome in advance.
    #[inline(always)]
    unsafe fn prepare(&mut self, row: usize) -> bool {
        let lanes = GROUPS * V::BLOCKS;
        let Some(jobs) = self.batch.get_mut(row * lanes..(row + 1) * lanes) else { return false };
        let length = self.length;
        let Slot { places, ivs } = &mut self.slots[row % SLOTS];
        let mut addresses = 0;
        for (group, jobs) in jobs.chunks_exact_mut(V::BLOCKS).enumerate() {
            let mut iv = [std::ptr::null(); MAX_BLOCKS];
            for (index, job) in jobs.iter_mut().enumerate() {
                let like_the_others = job.outcome == Outcome::Pending
                    && job.input.len() == length
                    && job.output.len() >= length
                    && job.iv.bytes().len() == BLOCK
                    && job.padding == Padding::None
                    && job.key.is_none()
                    && job.aad.is_empty();
                if !like_the_others {
                    return false;
                }
                iv[index] = job.iv.bytes().as_ptr();
                places.input[group * V::BLOCKS + index] = job.input.as_ptr();
                places.output[group * V::BLOCKS + index] = job.output.as_mut_ptr();
                addresses |= job.output.as_ptr().addr();
            }
            // SAFETY: IVs of one block.
            ivs[group] = unsafe { V::gather(&iv, 0) };
        }
        places.stream = self.stream && addresses.is_multiple_of(LINE);
        for job in jobs {
            job.outcome = Outcome::Done { written: length };
        }
        true
    }

    #[inline(always)]
    fn places(&self, row: usize) -> (&Places, usize, usize) {
        (&self.slots[row % SLOTS].places, 0, 0)
    }

    #[inline(always)]
    unsafe fn ivs(&self, row: usize) -> [V; GROUPS] {
        self.slots[row % SLOTS].ivs
    }
}

/// Messages that are encrypted together, one per lane.
#[repr(C, align(64))]
struct Row<V> {
    /// The padded last blocks, which follow the whole blocks.
    tails: [Block; MAX_LANES],
    places: Places,
    /// The last ciphertext blocks, or the IVs.
    chain: [V; GROUPS],
    /// The block of the row at which the lane's state changes.
    until: [usize; MAX_LANES],
    /// Lanes whose tail is not done yet, one bit each.
    padded: u32,
    /// Lanes without a message, or whose message has ended.
    idle: u32,
    /// An upper bound of the last lane's last block.
    longest: usize,
}

impl<V: Vector> Row<V> {
    /// The bits of all lanes.
    const ALL: u32 = u32::MAX >> (MAX_LANES - GROUPS * V::BLOCKS);

    /// Puts jobs of a window into lanes.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. There are at most as many places as lanes, all of jobs
    /// of sound shape.
    #[inline(always)]
    unsafe fn new(window: &mut [Job<'_>], places: &[u16], idle: &mut IdleOutput) -> Row<V> {
        // SAFETY: an IV is one block, and a tail shorter than one.
        unsafe {
            let zero = V::splat(&[0; BLOCK]);
            let mut row = Row {
                tails: [[0; BLOCK]; MAX_LANES],
                places: Places::new(),
                chain: [zero; GROUPS],
                until: [usize::MAX; MAX_LANES],
                padded: 0,
                idle: !0 << (places.len() - 1) << 1 & Self::ALL,
                longest: 0,
            };
            let mut iv = [ZEROS.0.as_ptr(); MAX_LANES];
            for (lane, &place) in places.iter().enumerate() {
                let job = &mut window[usize::from(place)];
                let (whole, tail) = job.input.as_chunks::<BLOCK>();
                iv[lane] = job.iv.bytes().as_ptr();
                row.places.input[lane] = job.input.as_ptr();
                row.places.output[lane] = job.output.as_mut_ptr();
                row.until[lane] = whole.len();
                if job.padding == Padding::Pkcs7 {
                    row.padded |= 1 << lane;
                    let padding = V::splat(&PADDING[tail.len()]);
                    let last = V::load_bytes(tail.as_ptr(), tail.len()).xor(padding);
                    last.store_bytes(row.tails[lane].as_mut_ptr(), BLOCK);
                }
                row.longest = row.longest.max(whole.len() + 1);
            }
            for lane in places.len()..MAX_LANES {
                row.places.input[lane] = ZEROS.0.as_ptr();
                row.places.output[lane] = idle.0.as_mut_ptr();
            }
            for group in 0..GROUPS {
                row.chain[group] = V::gather(&iv[group * V::BLOCKS..], 0);
            }
            row
        }
    }

    /// Encrypts the row.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`. The jobs have not changed.
    #[inline(always)]
    unsafe fn encrypt<K: Keys<V>, const ROUNDS: usize>(
        &mut self,
        keys: &K,
        stream: bool,
        idle: &mut IdleOutput,
    ) {
        let mut start = self.turn(0, idle);
        while self.idle != Self::ALL {
            let mut end = self.until.iter().fold(usize::MAX, |end, &until| end.min(until));
            if self.idle != 0 {
                end = end.min(start + IDLE_LENGTH / BLOCK);
            }
            self.places.first = start;
            self.places.stream = stream && self.are_aligned();
            // SAFETY: no lane's message ends before `end`, and idle lanes have buffers of that
            // length.
            unsafe {
                encrypt_lanes::<V, _, ROUNDS>(
                    keys,
                    &mut self.chain,
                    &self.places,
                    end - start,
                    self.longest - start,
                );
            }
            start = self.turn(end, idle);
        }
        self.tails.as_flattened_mut().zeroize();
    }

    /// Switches the lanes that change at this block of the row from whole blocks to tails, or from
    /// tails to idle, and returns the block.
    #[inline(always)]
    fn turn(&mut self, block: usize, idle: &mut IdleOutput) -> usize {
        for lane in 0..GROUPS * V::BLOCKS {
            if self.until[lane] != block {
                continue;
            }
            if self.padded >> lane & 1 == 1 {
                self.padded &= !(1 << lane);
                self.places.input[lane] = back(self.tails[lane].as_ptr().cast_mut(), block);
                self.until[lane] = block + 1;
            } else {
                self.idle |= 1 << lane;
                self.until[lane] = usize::MAX;
            }
        }
        if self.idle == Self::ALL {
            return block;
        }
        let mut idle_lanes = self.idle;
        while idle_lanes != 0 {
            let lane = idle_lanes.trailing_zeros() as usize;
            idle_lanes &= idle_lanes - 1;
            self.places.input[lane] = back(ZEROS.0.as_ptr().cast_mut(), block);
            self.places.output[lane] = back(idle.0.as_mut_ptr(), block);
        }
        block
    }

    /// Returns whether every output address is a multiple of a line.
    #[inline(always)]
    fn are_aligned(&self) -> bool {
        let bits = self.places.output.iter().fold(0, |bits, place| bits | place.addr());
        bits.is_multiple_of(LINE)
    }
}

/// The address that is `block` blocks before `place`.
#[inline(always)]
fn back(place: *mut u8, block: usize) -> *mut u8 {
    place.wrapping_sub(block * BLOCK)
}

/// Length of the buffers of idle lanes, in bytes.
const IDLE_LENGTH: usize = 2048;

/// The output of idle lanes.
#[repr(C, align(64))]
struct IdleOutput([u8; IDLE_LENGTH]);

/// The input of idle lanes.
#[repr(C, align(64))]
struct Zeros([u8; IDLE_LENGTH]);

static ZEROS: Zeros = Zeros([0; IDLE_LENGTH]);

/// The PKCS #7 padding of a tail, by the tail's length.
pub(super) const PADDING: [Block; BLOCK] = {
    let mut padding = [[0; BLOCK]; BLOCK];
    let mut length = 0;
    while length < BLOCK {
        let mut place = length;
        while place < BLOCK {
            padding[length][place] = (BLOCK - length) as u8;
            place += 1;
        }
        length += 1;
    }
    padding
};
