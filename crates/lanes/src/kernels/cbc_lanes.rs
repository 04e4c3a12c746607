//! The inner loop of CBC encryption: all lanes of eight registers advance together.
//!
//! Where the time goes (Zen 5 at 4.17 GHz, AES-128, VAES on AVX-512, 512 messages in the L2
//! cache). A register's round takes 4 cycles and two start in each, so eight registers fill the
//! AES units, and a step of one block in all 32 lanes takes 42 cycles at least: 1.3 cycles a
//! block. The virtual machine has no performance counters (`perf stat`: cycles not supported);
//! instructions were counted by stepping through a batch.
//!
//! | bytes | jobs: cycles a message | a block | records: cycles a message | a block |
//! |---|---|---|---|---|
//! | 16 | 7.4 | 7.4 | 1.6 | 1.6 |
//! | 64 | 12.9 | 3.2 | 7.9 | 2.0 |
//! | 256 | 33 | 2.0 | 28 | 1.8 |
//! | 1,024 | 131 | 2.0 | 126 | 2.0 |
//!
//! - At 16 bytes a job takes about 34 instructions at 4 a cycle, and all but 4 of them check it,
//!   follow its pointers and set its outcome. A call of `memcpy` takes 6 cycles. A record takes 3
//!   instructions (99 for 32 of them, 80 of these AES rounds), and the AES units are busy.
//! - Loading, transposing and storing a line of every lane is as much work as encrypting it. Spread
//!   over the four steps of a line it is hidden by the AES latency, also between rows of the same
//!   length (`cbc_rows.rs`). The time above 1.3 cycles a block comes from the transposed lines,
//!   which do not fit into registers and are kept in memory.
//! - A padded record takes a separate step, 4.8 cycles at 8 bytes.
//! - A row that was planned (mixed lengths, padding) costs some 200 instructions a message more:
//!   checking, sorting and padding it. Its lanes end at different blocks; the blocks up to the next
//!   whole line are then loaded one by one, which with long messages in batches of 64 doubles to
//!   triples the time of a block.
//! - Above the size of the L2 cache memory is the limit: two lines, one read and one written, for
//!   every four blocks. The hardware does not prefetch 64 streams, so the loop prefetches lines
//!   itself (1.9 ns a block without, 1.2 with), and large outputs bypass the cache (0.7 ns;
//!   `memcpy` of the same bytes takes 0.7).

use std::mem::MaybeUninit;

use super::rounds::{MIDDLE, cut, is_straight};
use super::schedule::{MAX_ROUND_KEYS, OneKey, RoundKeys, SharedKeys};
use super::vector::{BLOCK, LINE_BLOCKS, MAX_BLOCKS, Vector};

/// Registers in flight: an AES round takes 3 to 4 cycles and two start in each.
pub(super) const GROUPS: usize = 8;

/// Lanes of the widest vector.
pub(super) const MAX_LANES: usize = GROUPS * MAX_BLOCKS;

/// A line in bytes.
pub(super) const LINE: usize = LINE_BLOCKS * BLOCK;

/// Number of lines by which the input is prefetched ahead. A line of all lanes takes four steps, 40
/// to 60 ns, so this covers 250 to 350 ns: the latency of memory under the load of 64 streams.
pub(super) const INPUT_AHEAD: usize = 6;

/// Number of lines by which the output is prefetched ahead. Only stores need it, and they wait in
/// their own queue.
pub(super) const OUTPUT_AHEAD: usize = 2;

/// The next input and output address of each lane, and the way to write.
pub(super) struct Places {
    pub(super) input: [*const u8; MAX_LANES],
    pub(super) output: [*mut u8; MAX_LANES],
    /// Offset of all lanes, in blocks.
    pub(super) first: usize,
    /// Write past the cache; every output address is then a multiple of [`LINE`].
    pub(super) stream: bool,
}

impl Places {
    /// Null pointers.
    #[inline(always)]
    pub(super) fn new() -> Places {
        Places {
            input: [std::ptr::null(); MAX_LANES],
            output: [std::ptr::null_mut(); MAX_LANES],
            first: 0,
            stream: false,
        }
    }
}

/// The source of the lanes' round keys.
pub(super) trait Keys<V> {
    /// The keys of one round for the lanes of one register.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn key(&self, round: usize, group: usize) -> V;
}

/// One key for all lanes, kept in registers if there are enough of them.
pub(super) struct Shared<V>([V; MAX_ROUND_KEYS]);

impl<V: Vector> Shared<V> {
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn load<const ROUNDS: usize>(keys: &impl OneKey<V>) -> Shared<V> {
        // SAFETY: the caller's promise.
        unsafe {
            let mut shared = Shared([keys.round(0); MAX_ROUND_KEYS]);
            for round in 1..=ROUNDS {
                shared.0[round] = keys.round(round);
            }
            shared
        }
    }
}

impl<V: Vector> OneKey<V> for Shared<V> {
    #[inline(always)]
    unsafe fn round(&self, round: usize) -> V {
        self.0[round]
    }
}

impl<V: Vector> Keys<V> for Shared<V> {
    #[inline(always)]
    unsafe fn key(&self, round: usize, _group: usize) -> V {
        self.0[round]
    }
}

impl<V: Vector> Keys<V> for SharedKeys {
    #[inline(always)]
    unsafe fn key(&self, round: usize, _group: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { self.load(round, 0) }
    }
}

impl<V: Vector> Keys<V> for RoundKeys<MAX_LANES> {
    #[inline(always)]
    unsafe fn key(&self, round: usize, group: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { self.load(round, group * V::BLOCKS) }
    }
}

/// Encrypts the next `blocks` blocks of every lane. `chain` holds the lanes' last ciphertext blocks
/// or IVs, before and after the call. No lane has more than `reach` blocks left in this and later
/// calls.
///
/// # Safety
/// The CPU has the instructions of `V`. From `places.first` blocks after every lane's places,
/// `blocks` blocks may be read and written. Lanes write to different places, or their output is not
/// needed.
#[inline(always)]
pub(super) unsafe fn encrypt_lanes<V: Vector, K: Keys<V>, const ROUNDS: usize>(
    keys: &K,
    chain: &mut [V; GROUPS],
    places: &Places,
    blocks: usize,
    reach: usize,
) {
    if is_straight::<V>() {
        let at = places.first * BLOCK;
        // SAFETY: the caller's promise.
        return unsafe { encrypt_straight::<V, K, ROUNDS>(keys, chain, places, (at, at), blocks) };
    }
    // Lines begin at multiples of four blocks, where they are most likely to be cache lines.
    let lead = (places.first.wrapping_neg() % LINE_BLOCKS).min(blocks);
    let lines = (blocks - lead) / LINE_BLOCKS;
    let (first, end) = (places.first, places.first + blocks);
    let lines_end = first + lead + lines * LINE_BLOCKS;
    // SAFETY: each block from `first` to `end` is encrypted once: the lead, the lines, the rest.
    unsafe {
        for block in first..first + lead {
            encrypt_block::<V, K, ROUNDS>(keys, chain, places, block);
        }
        if lines > 0 {
            let start = (first + lead) * BLOCK;
            encrypt_lines::<V, K, ROUNDS>(keys, chain, places, start, lines, reach / LINE_BLOCKS);
        }
        if lines_end < end {
            // A later call encrypts the rest of this line, and the line to prefetch must have been
            // requested by then.
            let left = reach.saturating_sub(lines_end - first) / LINE_BLOCKS;
            for group in 0..GROUPS {
                ask_ahead::<V>(places, group, lines_end * BLOCK, 0, left);
            }
        }
        for block in lines_end..end {
            encrypt_block::<V, K, ROUNDS>(keys, chain, places, block);
        }
    }
}

/// Encrypts one block of every lane.
///
/// # Safety
/// As for [`encrypt_lanes`].
#[inline(always)]
pub(super) unsafe fn encrypt_block<V: Vector, K: Keys<V>, const ROUNDS: usize>(
    keys: &K,
    chain: &mut [V; GROUPS],
    places: &Places,
    block: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut plain = *chain;
        for group in 0..GROUPS {
            plain[group] = V::gather(&places.input[group * V::BLOCKS..], block * BLOCK);
        }
        encrypt_step::<V, K, ROUNDS>(keys, chain, &plain);
        for group in 0..GROUPS {
            chain[group].scatter(&places.output[group * V::BLOCKS..], block * BLOCK);
        }
    }
}

/// A line of every lane: by block, and then by register.
pub(super) type Lines<V> = [[MaybeUninit<V>; GROUPS]; LINE_BLOCKS];

/// Encrypts `lines` (at least 1) whole lines of every lane from `start` bytes on, a line in
/// four steps. Each step also stores a quarter of the line before and loads a quarter of the
/// line after.
///
/// # Safety
/// As for [`encrypt_lanes`].
#[inline(always)]
pub(super) unsafe fn encrypt_lines<V: Vector, K: Keys<V>, const ROUNDS: usize>(
    keys: &K,
    chain: &mut [V; GROUPS],
    places: &Places,
    start: usize,
    lines: usize,
    reach: usize,
) {
    const SHARE: usize = GROUPS / LINE_BLOCKS;
    // SAFETY: lines 0 to `lines - 1` are loaded before they are used, and stored, once each. A
    // prefetch does not access memory.
    unsafe {
        // Not initialised: for messages of one line, that would double the work.
        let mut even: Lines<V> = [[MaybeUninit::uninit(); GROUPS]; LINE_BLOCKS];
        let mut odd: Lines<V> = [[MaybeUninit::uninit(); GROUPS]; LINE_BLOCKS];
        for group in 0..GROUPS {
            load_line(&mut even, places, group, start);
        }
        for line in 0..lines {
            let at = start + line * LINE;
            let (current, other) =
                if line % 2 == 0 { (&mut even, &mut odd) } else { (&mut odd, &mut even) };
            for step in 0..LINE_BLOCKS {
                let mut plain = *chain;
                for group in 0..GROUPS {
                    plain[group] = current[step][group].assume_init();
                }
                encrypt_step::<V, K, ROUNDS>(keys, chain, &plain);
                for group in 0..GROUPS {
                    current[step][group].write(chain[group]);
                }
                for group in step * SHARE..(step + 1) * SHARE {
                    ask_ahead::<V>(places, group, at, line, reach);
                    if line > 0 {
                        store_line(other, places, group, at - LINE);
                    }
                    if line + 1 < lines {
                        load_line(other, places, group, at + LINE);
                    }
                }
            }
        }
        let last = if lines % 2 == 1 { &even } else { &odd };
        for group in 0..GROUPS {
            store_line(last, places, group, start + (lines - 1) * LINE);
        }
    }
}

/// Prefetches the lines for a register's lanes, if any lane is long enough.
#[inline(always)]
fn ask_ahead<V: Vector>(places: &Places, group: usize, at: usize, line: usize, reach: usize) {
    let lanes = group * V::BLOCKS..(group + 1) * V::BLOCKS;
    if line + INPUT_AHEAD < reach {
        for lane in lanes.clone() {
            V::ask_to_read(places.input[lane].wrapping_add(at + INPUT_AHEAD * LINE));
        }
    }
    if line + OUTPUT_AHEAD < reach && !places.stream {
        for lane in lanes {
            V::ask_to_write(places.output[lane].wrapping_add(at + OUTPUT_AHEAD * LINE));
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`; the register's lanes have a line there.
#[inline(always)]
pub(super) unsafe fn load_line<V: Vector>(
    lines: &mut Lines<V>,
    places: &Places,
    group: usize,
    at: usize,
) {
    // SAFETY: the caller's promise.
    let loaded = unsafe { V::gather_lines(&places.input[group * V::BLOCKS..], at) };
    for block in 0..LINE_BLOCKS {
        lines[block][group].write(loaded[block]);
    }
}

/// # Safety
/// As for [`load_line`]; the register's lines have been written.
#[inline(always)]
pub(super) unsafe fn store_line<V: Vector>(
    lines: &Lines<V>,
    places: &Places,
    group: usize,
    at: usize,
) {
    let output = &places.output[group * V::BLOCKS..];
    // SAFETY: the caller's promise; streamed outputs are multiples of a line.
    unsafe {
        let done = [
            lines[0][group].assume_init(),
            lines[1][group].assume_init(),
            lines[2][group].assume_init(),
            lines[3][group].assume_init(),
        ];
        if places.stream {
            V::stream_lines(done, output, at);
        } else {
            V::scatter_lines(done, output, at);
        }
    }
}

/// One block of every lane: `chain` becomes the cipher of `chain ⊕ plain`.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn encrypt_step<V: Vector, K: Keys<V>, const ROUNDS: usize>(
    keys: &K,
    chain: &mut [V; GROUPS],
    plain: &[V; GROUPS],
) {
    // SAFETY: the caller's promise.
    unsafe {
        for group in 0..GROUPS {
            chain[group] = chain[group].xor(plain[group]).xor(keys.key(0, group));
        }
        let middle = cut::<V>(MIDDLE, ROUNDS);
        encrypt_rounds(keys, chain, 1, middle);
        encrypt_rounds(keys, chain, middle, ROUNDS);
        for group in 0..GROUPS {
            chain[group] = chain[group].encrypt_last(keys.key(ROUNDS, group));
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn encrypt_rounds<V: Vector, K: Keys<V>>(
    keys: &K,
    chain: &mut [V; GROUPS],
    first: usize,
    end: usize,
) {
    for round in first..end {
        for group in 0..GROUPS {
            // SAFETY: the caller's promise.
            chain[group] = chain[group].encrypt_round(unsafe { keys.key(round, group) });
        }
    }
}

/// Encrypts blocks of lanes that each have a register of their own: a block goes straight from its
/// place to its lane and from there to its place. The inputs and outputs begin this many bytes
/// after `places`.
///
/// # Safety
/// As for [`encrypt_lanes`]; a register is one lane.
#[inline(always)]
pub(super) unsafe fn encrypt_straight<V: Vector, K: Keys<V>, const ROUNDS: usize>(
    keys: &K,
    chain: &mut [V; GROUPS],
    places: &Places,
    (input_at, output_at): (usize, usize),
    blocks: usize,
) {
    let (mut input, mut output) = ([std::ptr::null(); GROUPS], [std::ptr::null_mut(); GROUPS]);
    for group in 0..GROUPS {
        input[group] = places.input[group].wrapping_add(input_at);
        output[group] = places.output[group].wrapping_add(output_at);
    }
    // SAFETY: the caller's promise; each block is loaded and stored once.
    unsafe {
        // In pairs, which take one instruction to load and one to store.
        for _ in 0..blocks / 2 {
            let (mut first, mut second) = (*chain, *chain);
            for group in 0..GROUPS {
                first[group] = V::load(input[group]);
                second[group] = V::load(input[group].wrapping_add(BLOCK));
                input[group] = input[group].wrapping_add(2 * BLOCK);
            }
            encrypt_step::<V, K, ROUNDS>(keys, chain, &first);
            first = *chain;
            encrypt_step::<V, K, ROUNDS>(keys, chain, &second);
            for group in 0..GROUPS {
                first[group].store(output[group]);
                chain[group].store(output[group].wrapping_add(BLOCK));
                output[group] = output[group].wrapping_add(2 * BLOCK);
            }
        }
        if blocks % 2 == 1 {
            let mut last = *chain;
            for group in 0..GROUPS {
                last[group] = V::load(input[group]);
            }
            encrypt_step::<V, K, ROUNDS>(keys, chain, &last);
            for group in 0..GROUPS {
                chain[group].store(output[group]);
            }
        }
    }
}
