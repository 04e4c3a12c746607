//! The buffers of a stream's pieces.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use evener_core::{Direction, Engine, IgnorePoison, WipedBuffer};

use super::chunks_in;
use crate::FileError;
use crate::format::FileCipher;
use crate::workspace::{buffer_for, bytes_at_once, zeros};

/// A fixed number of pairs of buffers, made when they are first needed.
pub(super) struct Pool {
    free: Mutex<Free>,
    returned: Condvar,
    pieces: usize,
    chunks: u64,
    input: usize,
    output: usize,
    /// An engine that wants many bytes at once, and may have memory for them.
    lender: Option<Arc<dyn Engine>>,
}

struct Free {
    buffers: Vec<Buffers>,
    unmade: usize,
}

/// One piece's input and output, wiped on drop.
pub(super) struct Buffers {
    pub(super) input: WipedBuffer,
    pub(super) output: WipedBuffer,
}

impl Pool {
    /// A pool for pieces of `file`, within `memory` bytes, for workers on these engines.
    pub(super) fn new(
        file: &FileCipher,
        direction: Direction,
        memory: usize,
        seats: &[Arc<dyn Engine>],
    ) -> Result<Pool, FileError> {
        let geometry = file.geometry();
        let chunk = geometry.longest_chunk();
        // One piece for each worker, one being read and one waiting on either side; or as many
        // as there is memory for, since nobody waits for the piece of another.
        let affordable = usize::try_from(memory as u64 / chunk.saturating_mul(2).max(1));
        let pieces = (seats.len() + 3).min(affordable.unwrap_or(usize::MAX)).max(1);
        let room = (memory / (2 * pieces)).min(USUAL_ROOM.max(chunk as usize));
        // An engine that wants many bytes at once gets several pieces, where there is memory.
        let wanted = |engine: &Arc<dyn Engine>| bytes_at_once(&**engine, file.cipher(), direction);
        let more = seats.iter().map(wanted).fold(0_usize, usize::saturating_add);
        let pieces = pieces.saturating_add(more / room.max(1)).min(memory / (2 * room).max(1));
        let pieces = pieces.max(1);
        let lender = seats.iter().max_by_key(|engine| wanted(engine));
        let lender = lender.filter(|_| more > 0).cloned();
        let chunks = chunks_in(geometry, room);
        if chunks == 0 {
            return Err(FileError::Memory { needed: chunk.saturating_mul(2) });
        }
        let full = (chunks * chunk) as usize;
        // The last piece may have one chunk more, which is empty but for its tag or padding.
        let slack = 64;
        let (input, output) = match direction {
            Direction::Encrypt => (full, full + slack),
            Direction::Decrypt => (full + slack, full + slack),
        };
        let free = Mutex::new(Free { buffers: Vec::new(), unmade: pieces });
        Ok(Pool { free, returned: Condvar::new(), pieces, chunks, input, output, lender })
    }

    /// How many pieces there are at most.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// How many full chunks make a piece.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Takes a pair of buffers; `None` when all that there is memory for are out.
    ///
    /// # Errors
    /// When there is no memory for a single pair.
    pub(super) fn take(&self) -> Result<Option<Buffers>, FileError> {
        let mut free = self.lock();
        if let Some(buffers) = free.buffers.pop() {
            return Ok(Some(buffers));
        }
        let Some(left) = free.unmade.checked_sub(1) else { return Ok(None) };
        match (self.buffer(self.input), self.buffer(self.output)) {
            (Ok(input), Ok(output)) => {
                free.unmade = left;
                Ok(Some(Buffers { input, output }))
            }
            // Others come back, and later there may be memory.
            _ if free.unmade < self.pieces => Ok(None),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Waits a moment for buffers to be given back. Nobody gives any back once the workers are gone.
    pub(super) fn wait(&self) {
        let all_are_out = |free: &mut Free| free.buffers.is_empty();
        drop(self.returned.wait_timeout_while(self.lock(), MOMENT, all_are_out));
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().ignore_poison()
    }

    fn buffer(&self, length: usize) -> Result<WipedBuffer, FileError> {
        let lent = self.lender.as_ref().and_then(|engine| buffer_for(&**engine, length));
        lent.map_or_else(|| zeros(length as u64), Ok)
    }

    pub(super) fn give_back(&self, buffers: Buffers) {
        self.lock().buffers.push(buffers);
        self.returned.notify_one();
    }
}

/// 16 Cobblestone chunks.
const USUAL_ROOM: usize = 264 << 10;
const MOMENT: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_no_memory_holds_are_an_error_unless_others_come_back() {
        let pool = |unmade, input| Pool {
            free: Mutex::new(Free { buffers: Vec::new(), unmade }),
            returned: Condvar::new(),
            pieces: 2,
            chunks: 1,
            input,
            output: 1,
            lender: None,
        };
        let error = pool(2, usize::MAX).take().err().unwrap().to_string();
        assert!(error.contains("Cannot allocate memory"), "{error}");
        let one_is_out = pool(1, usize::MAX);
        assert!(one_is_out.take().unwrap().is_none());
        assert_eq!(one_is_out.lock().unmade, 1);
        let buffers = pool(1, 3).take().unwrap().unwrap();
        assert_eq!((buffers.input.len(), buffers.output.len()), (3, 1));
    }
}
