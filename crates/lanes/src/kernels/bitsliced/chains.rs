//! CBC encryption (NIST SP 800-38A, section 6.2) of eight messages side by side.
//!
//! Each block of a message depends on the previous one, so every lane encrypts a different message.
//! A lane whose message has ended gets the next one at once, which costs little beside the two
//! thousand instructions of a step of eight blocks. Lanes without a message encrypt zeros.

use std::ptr;
use std::slice;

use evener_core::{Job, Key, Padding, Records, padding};

use super::LANES;
use super::keys::Keys;
use super::sys::{self, Chains};
use crate::kernels::parallel::Text;
use crate::kernels::records::Field;
use crate::kernels::rows::Plan;
use crate::kernels::vector::{BLOCK, Block, wipe};
use crate::kernels::{Room, State};

/// Buffers that are reused for later batches.
pub(in crate::kernels) struct LanesRoom {
    /// Keys for messages with their own.
    own: Keys,
    plan: Plan,
}

impl LanesRoom {
    pub(in crate::kernels) fn new() -> LanesRoom {
        LanesRoom { own: Keys::new(), plan: Plan::new() }
    }
}

/// Encrypts every pending job with a key, and sets its outcome. Jobs without a key stay pending.
///
/// # Safety
/// The CPU has NEON.
pub(super) unsafe fn encrypt_jobs(state: &mut State, batch: &mut [Job<'_>]) {
    let Room::Lanes(room) = &mut state.own else { return };
    let LanesRoom { own, plan } = &mut **room;
    for window in batch.chunks_mut(Plan::LONGEST) {
        plan.make(window, state.cipher, state.shared.is_some());
        // SAFETY: a plan has only jobs whose shape is sound, and each once; keys have the
        // cipher's length.
        unsafe {
            if let Some(keys) = &state.shared {
                let mut places = plan.with_session_key().iter();
                encrypt(keys, || Some(Message::of(&mut window[usize::from(*places.next()?)])));
            }
            for places in plan.with_own_keys().chunks(LANES) {
                let mut keys = [&[][..]; LANES];
                for (key, &place) in keys.iter_mut().zip(places) {
                    let own = window[usize::from(place)].key.or(state.key.as_ref());
                    *key = own.map_or(&[], Key::bytes);
                }
                own.expand(&keys[..places.len()]);
                // At most one for each lane; lanes take them in order.
                let mut places = places.iter();
                encrypt(own, || Some(Message::of(&mut window[usize::from(*places.next()?)])));
            }
        }
    }
}

/// Encrypts records.
///
/// # Safety
/// The CPU has NEON. The records are for this mode and direction.
pub(super) unsafe fn encrypt_records(
    keys: &Keys,
    records: &mut Records<'_>,
    _stream: bool,
) -> bool {
    let field = Field::of(records);
    let mut numbers = records.done()..field.count;
    // SAFETY: the records have their lengths and, with padding, room for another block.
    unsafe {
        encrypt(keys, || {
            let record = numbers.next()?;
            let input = field.input.add(record * field.input_stride);
            Some(Message {
                iv: field.ivs.add(record * BLOCK).cast::<Block>().read(),
                input,
                output: field.output.add(record * field.output_stride),
                blocks: field.length / BLOCK,
                tail: field.padded.then_some(field.length % BLOCK),
            })
        });
    }
    records.advance(field.count);
    true
}

/// Encrypts one text, in the time of eight.
///
/// # Safety
/// The CPU has NEON. The text is valid, and whole blocks.
pub(super) unsafe fn encrypt_text(keys: &Keys, text: &Text) {
    let &Text { iv, input, output, length, .. } = text;
    let mut message = Some(Message { iv, input, output, blocks: length / BLOCK, tail: None });
    // SAFETY: the caller's promise.
    unsafe { encrypt(keys, || message.take()) }
}

/// A message to encrypt.
struct Message {
    iv: Block,
    input: *const u8,
    output: *mut u8,
    /// Its whole blocks.
    blocks: usize,
    /// Number of bytes after them, if these are to be padded.
    tail: Option<usize>,
}

impl Message {
    /// The message of a job whose lengths were checked.
    fn of(job: &mut Job<'_>) -> Message {
        let (whole, tail) = job.input.as_chunks::<BLOCK>();
        Message {
            iv: job.iv.bytes().first_chunk().copied().unwrap_or_default(),
            input: job.input.as_ptr(),
            output: job.output.as_mut_ptr(),
            blocks: whole.len(),
            tail: (job.padding == Padding::Pkcs7).then_some(tail.len()),
        }
    }
}

/// Encrypts all messages that `next` returns, in order. If each lane has its own key, there are at
/// most as many messages as lanes, and the first message gets the first lane.
///
/// # Safety
/// The CPU has NEON. A message's blocks and tail may be read, and written with the tail as a block,
/// until the end. Messages write to different places, and none writes past what it has read.
unsafe fn encrypt(keys: &Keys, mut next: impl FnMut() -> Option<Message>) {
    let mut idle = [0; IDLE_LENGTH];
    let mut tails = [None; LANES];
    let mut tail_blocks = [[0; BLOCK]; LANES];
    let mut left = [0; LANES];
    let mut chains = Chains {
        input: [ptr::null(); LANES],
        output: [ptr::null_mut(); LANES],
        last: [[0; BLOCK]; LANES],
    };
    loop {
        for lane in 0..LANES {
            while left[lane] == 0 {
                if let Some(tail) = tails[lane].take() {
                    // SAFETY: the lane's whole blocks are done, so the tail is next.
                    let tail = unsafe { slice::from_raw_parts(chains.input[lane], tail) };
                    padding::fill_last_block(&mut tail_blocks[lane], tail);
                    chains.input[lane] = tail_blocks[lane].as_ptr();
                    left[lane] = 1;
                } else if let Some(message) = next() {
                    chains.input[lane] = message.input;
                    chains.output[lane] = message.output;
                    chains.last[lane] = message.iv;
                    (left[lane], tails[lane]) = (message.blocks, message.tail);
                } else {
                    break;
                }
            }
        }
        let is_busy = |left: &&usize| **left > 0;
        let Some(&shortest) = left.iter().filter(is_busy).min() else { break };
        let mut run = shortest;
        for lane in (0..LANES).filter(|&lane| left[lane] == 0) {
            chains.input[lane] = ZEROS.as_ptr();
            chains.output[lane] = idle.as_mut_ptr();
            run = run.min(IDLE_LENGTH / BLOCK);
        }
        // SAFETY: the caller's promise: no message has fewer than `run` blocks left, and idle lanes
        // have room for `run` blocks.
        unsafe { sys::chain(keys.sliced(), &mut chains, run) }
        for left in &mut left {
            *left = left.saturating_sub(run);
        }
    }
    wipe(&mut tail_blocks);
}

/// Length of the buffers of idle lanes, in bytes.
const IDLE_LENGTH: usize = 2048;

/// The input of idle lanes.
static ZEROS: [u8; IDLE_LENGTH] = [0; IDLE_LENGTH];
