//! A worker's buffers and its parcel, kept between files.

use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine, EngineError, Parcel, WipedBuffer};
use evener_format::Recipe;
use rustix::io::Errno;

use super::processor::Processor;
use super::trail::{Seen, Trail};
use crate::{FileError, KeyRing};

/// The length of each of a worker's buffers, in bytes, when the buffers of all `workers` may take
/// `memory`.
///
/// Two buffers of the usual length fit a core's second-level cache beside its other data. A format
/// with longer chunks gets longer buffers. A single short file of this `length` gets shorter ones:
/// filling and wiping the usual ones would take longer than encrypting it.
pub(crate) fn room(memory: usize, workers: usize, keys: &KeyRing, length: Option<u64>) -> usize {
    let allowed = memory / (2 * workers.max(1));
    let usual = length.map_or(USUAL_ROOM, |length| length.min(USUAL_ROOM));
    let wanted = room_for_a_chunk(keys).max(usual);
    usize::try_from(wanted).unwrap_or(usize::MAX).min(allowed)
}

/// The number of workers, at least one, for which `memory` has buffers that hold a chunk each.
pub fn affordable_workers(memory: usize, keys: &KeyRing) -> usize {
    let each = room_for_a_chunk(keys).saturating_mul(2).max(1);
    usize::try_from(memory as u64 / each).unwrap_or(usize::MAX).max(1)
}

/// The length of a buffer that holds the longest chunk under any key, and a header. Encryption
/// needs it too: it reads an earlier run's output to see which key it has.
fn room_for_a_chunk(keys: &KeyRing) -> u64 {
    let longest = |recipe: &Recipe| recipe.geometry().longest_chunk();
    let chunk = keys.recipes().map(longest).max().unwrap_or(0);
    chunk.saturating_add(keys.bytes_to_open(&[]) as u64)
}

/// The number of further buffers of `room` bytes that the `workers` may have together within
/// `memory`: enough that a worker that writes has something to write while the others work.
pub(crate) fn spares(memory: usize, workers: usize, room: usize) -> usize {
    let left = memory.saturating_sub(2 * workers * room);
    left.checked_div(room).unwrap_or(0).min(SPARES * workers)
}

/// The buffer length of a worker whose engine wants [many bytes](evener_core::Offer::bytes) at
/// once, where all `workers` have buffers of `room` bytes and spares.
///
/// Such a worker has an input, an output and a spare. The buffers of all such workers share the
/// rest of `memory`.
pub(crate) fn large_room(
    memory: usize,
    seats: &[Arc<dyn Engine>],
    (cipher, direction): (Cipher, Direction),
    room: usize,
) -> usize {
    let wants = |engine: &&Arc<dyn Engine>| bytes_at_once(&***engine, cipher, direction) > room;
    let buffers = 3 * seats.iter().filter(wants).count();
    let left = memory.saturating_sub((2 + SPARES) * seats.len() * room);
    left.checked_div(buffers).unwrap_or(0).max(room)
}

/// The number of bytes that an engine wants at once; 0 if only the number of jobs matters.
pub fn bytes_at_once(engine: &dyn Engine, cipher: Cipher, direction: Direction) -> usize {
    engine.offer(cipher, direction).map_or(0, |offer| offer.bytes)
}

/// A buffer of `bytes` zeros in memory that the engine provides, or else in any memory; `None` if
/// there is none.
pub(crate) fn buffer_for(engine: &dyn Engine, bytes: usize) -> Option<WipedBuffer> {
    let lent = engine.buffer(bytes).filter(|lent| lent.len() >= bytes);
    lent.or_else(|| WipedBuffer::try_zeros(bytes))
}

/// Spare buffers for each worker.
const SPARES: usize = 4;

/// 16 Cobblestone chunks and some headers.
const USUAL_ROOM: u64 = 264 << 10;

/// A worker's buffers and its parcel, allocated once and wiped on drop.
pub struct Workspace {
    /// The input.
    pub input: WipedBuffer,
    /// The engine's output.
    pub output: WipedBuffer,
    /// The jobs of the next batch, which are in the buffers.
    pub parcel: Parcel,
    /// The verification result of the last segment.
    pub seen: Seen,
    /// The files that would be in doubt.
    pub trail: Arc<Trail>,
}

impl Workspace {
    /// Two buffers of `room` bytes each, which are empty if there is no memory for them.
    pub fn new(room: usize) -> Workspace {
        let buffer = || zeros(room as u64).unwrap_or_default();
        Workspace::of((buffer(), buffer()))
    }

    /// Two buffers of `bytes` bytes each, in memory that the engine provides; `None` if there is no
    /// memory.
    pub fn lent(engine: &dyn Engine, bytes: usize) -> Option<Workspace> {
        Some(Workspace::of((buffer_for(engine, bytes)?, buffer_for(engine, bytes)?)))
    }

    fn of((input, output): (WipedBuffer, WipedBuffer)) -> Workspace {
        Workspace {
            input,
            output,
            parcel: Parcel::default(),
            seen: Seen::default(),
            trail: Arc::default(),
        }
    }

    /// Returns whether there was memory for the buffers.
    pub fn has_room(&self, room: usize) -> bool {
        self.input.len() >= room && self.output.len() >= room
    }

    /// The number of pieces of at most `room` bytes that fit each of the buffers; at least one.
    pub fn pieces(&self, room: usize) -> u64 {
        let shorter = self.input.len().min(self.output.len());
        shorter.checked_div(room).unwrap_or(0).max(1) as u64
    }

    /// Has the jobs of the parcel done. Returns the result of `read` on the finished parcel;
    /// then the parcel is empty again, and the buffers are back in their places.
    pub fn process<R>(
        &mut self,
        processor: &mut impl Processor,
        cipher: Cipher,
        direction: Direction,
        read: impl FnOnce(&Parcel) -> R,
    ) -> Result<R, EngineError> {
        let Workspace { input, output, parcel, .. } = self;
        parcel.add(std::mem::take(input), std::mem::take(output));
        let processed = processor.process_parcel(cipher, direction, parcel);
        let result = processed.map(|()| read(parcel));
        (*input, *output) = parcel.drain().next().unwrap_or_default();
        result
    }
}

/// A buffer of `length` zeros, wiped on drop.
///
/// # Errors
/// When there is no memory for it.
pub fn zeros(length: u64) -> Result<WipedBuffer, FileError> {
    let buffer = usize::try_from(length).ok().and_then(WipedBuffer::try_zeros);
    buffer.ok_or_else(|| FileError::system("get memory for its chunks")(Errno::NOMEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_no_memory_holds_is_an_error() {
        assert_eq!(*zeros(3).unwrap(), [0; 3]);
        for length in [isize::MAX as u64 + 1, u64::MAX] {
            let words = zeros(length).unwrap_err().to_string();
            assert!(words.contains("Cannot allocate memory"), "{words}");
        }
        assert!(!Workspace::new(usize::MAX).has_room(1));
    }
}
