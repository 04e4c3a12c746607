//! The buffers of a stream's pieces.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use evener_core::{Direction, Engine, IgnorePoison, Kind, WipedBuffer};
use evener_format::FileCipher;

use crate::FileError;
use evener_seal::{bytes_at_once, chunks_in, zeros};

/// A number of pairs of buffers, made when first needed. Modules get theirs when they have taken
/// work: more pieces than the caches hold slow the cores down.
pub(super) struct Pool {
    free: Mutex<Free>,
    returned: Condvar,
    pieces: usize,
    chunks: u64,
    input: usize,
    output: usize,
}

struct Free {
    buffers: Vec<Buffers>,
    unmade: usize,
    /// The number of further pairs that may be made for modules.
    reserve: usize,
    /// Buffers in an engine's memory, which replace others that come back.
    lent: Vec<Buffers>,
    /// The number of pairs that an engine has lent so far.
    borrowed: usize,
}

/// One piece's input and output, wiped on drop.
pub(super) struct Buffers {
    pub(super) input: WipedBuffer,
    pub(super) output: WipedBuffer,
    pub(super) is_lent: bool,
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
        // One piece for each worker, one being read and one waiting on either side; or as many as
        // memory allows, since no worker waits for another's piece.
        let affordable = usize::try_from(memory as u64 / chunk.saturating_mul(2).max(1));
        let pieces = (seats.len() + 3).min(affordable.unwrap_or(usize::MAX)).max(1);
        let room = (memory / (2 * pieces)).min(USUAL_ROOM.max(chunk as usize));
        // An engine that wants many bytes at once gets several pieces, if there is memory.
        let wanted = |engine: &Arc<dyn Engine>| bytes_at_once(&**engine, file.cipher(), direction);
        let more = seats.iter().map(wanted).fold(0_usize, usize::saturating_add);
        let pieces = pieces.saturating_add(more / room.max(1)).min(memory / (2 * room).max(1));
        let pieces = pieces.max(1);
        let is_module = |engine: &&Arc<dyn Engine>| engine.description().kind == Kind::Module;
        let unmade = match seats.iter().filter(is_module).count() {
            modules if modules < seats.len() => pieces.min(seats.len() - modules + 3),
            _ => pieces,
        };
        let chunks = chunks_in(geometry, room);
        if chunks == 0 {
            return Err(FileError::Memory { needed: chunk.saturating_mul(2) });
        }
        let full = (chunks * chunk) as usize;
        // The last piece may have one more chunk, which is empty except for its tag or padding.
        let slack = 64;
        let (input, output) = match direction {
            Direction::Encrypt => (full, full + slack),
            Direction::Decrypt => (full + slack, full + slack),
        };
        let free = Mutex::new(Free {
            buffers: Vec::new(),
            unmade,
            reserve: pieces - unmade,
            lent: Vec::new(),
            borrowed: 0,
        });
        Ok(Pool { free, returned: Condvar::new(), pieces, chunks, input, output })
    }

    /// The greatest number of pieces.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// The number of full chunks in a piece.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Takes a pair of buffers; `None` when all that memory allows are in use.
    ///
    /// # Errors
    /// When there is no memory for a single pair.
    pub(super) fn take(&self) -> Result<Option<Buffers>, FileError> {
        let mut free = self.lock();
        if let Some(buffers) = free.buffers.pop() {
            return Ok(Some(buffers));
        }
        let Some(left) = free.unmade.checked_sub(1) else { return Ok(None) };
        match (zeros(self.input as u64), zeros(self.output as u64)) {
            (Ok(input), Ok(output)) => {
                free.unmade = left;
                Ok(Some(Buffers { input, output, is_lent: false }))
            }
            // Others come back, and memory may be available later.
            _ if free.unmade + free.reserve < self.pieces => Ok(None),
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }

    /// Waits a moment for buffers to be returned. None are returned once the workers are gone.
    pub(super) fn wait(&self) {
        let all_are_out = |free: &mut Free| free.buffers.is_empty();
        drop(self.returned.wait_timeout_while(self.lock(), MOMENT, all_are_out));
    }

    fn lock(&self) -> MutexGuard<'_, Free> {
        self.free.lock().ignore_poison()
    }

    /// Allows this many more of the pieces reserved for modules.
    pub(super) fn grant(&self, pieces: usize) {
        let mut free = self.lock();
        let granted = pieces.min(free.reserve);
        free.reserve -= granted;
        free.unmade += granted;
    }

    /// The number of pieces that make up `bytes` bytes.
    pub(super) fn pieces_of(&self, bytes: usize) -> usize {
        bytes / self.input.max(1)
    }

    /// Borrows buffers in an engine's memory for the pieces, as many more as it wants at once. Call
    /// it repeatedly on the engine's worker, once its session is open: the engine may take long to
    /// answer.
    pub(super) fn borrow_from(&self, engine: &dyn Engine, at_once: usize) {
        let lent = |bytes| engine.buffer(bytes).filter(|lent| lent.len() >= bytes);
        let are_enough = |free: &Free| free.borrowed >= self.pieces || free.lent.len() >= at_once;
        for _ in 0..at_once {
            if are_enough(&self.lock()) {
                return;
            }
            let (Some(input), Some(output)) = (lent(self.input), lent(self.output)) else {
                // The engine is not asked again.
                self.lock().borrowed = self.pieces;
                return;
            };
            let lent = Buffers { input, output, is_lent: true };
            let mut free = self.lock();
            free.borrowed += 1;
            if let Some(left) = free.unmade.checked_sub(1) {
                free.unmade = left;
                free.buffers.push(lent);
                self.returned.notify_one();
            } else {
                free.lent.push(lent);
            }
        }
    }

    pub(super) fn give_back(&self, buffers: Buffers) {
        let mut free = self.lock();
        let lent = if buffers.is_lent { None } else { free.lent.pop() };
        let (kept, unwanted) = match lent {
            Some(lent) => (lent, Some(buffers)),
            None => (buffers, None),
        };
        free.buffers.push(kept);
        drop(free);
        self.returned.notify_one();
        drop(unwanted);
    }
}

/// 16 Cobblestone chunks.
const USUAL_ROOM: usize = 264 << 10;
const MOMENT: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use evener_core::{
        Cipher, Description, EngineError, Key, Kind, Offer, Session, SessionRequest,
    };

    use super::*;
    use evener_format::{CobblestoneSuite, Recipe};

    #[test]
    fn buffers_that_no_memory_holds_are_an_error_unless_others_come_back() {
        let pool = |unmade, input| Pool {
            free: Mutex::new(Free {
                buffers: Vec::new(),
                unmade,
                reserve: 0,
                lent: Vec::new(),
                borrowed: 0,
            }),
            returned: Condvar::new(),
            pieces: 2,
            chunks: 1,
            input,
            output: 1,
        };
        let error = pool(2, usize::MAX).take().err().unwrap().to_string();
        assert!(error.contains("Cannot allocate memory"), "{error}");
        let one_is_out = pool(1, usize::MAX);
        assert!(one_is_out.take().unwrap().is_none());
        assert_eq!(one_is_out.lock().unmade, 1);
        let buffers = pool(1, 3).take().unwrap().unwrap();
        assert_eq!((buffers.input.len(), buffers.output.len()), (3, 1));
    }

    /// Lends memory of this length only, and wants that many bytes at once.
    struct Lender(Description, usize);

    impl Engine for Lender {
        fn description(&self) -> &Description {
            &self.0
        }

        fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
            Some(Offer::new(1).bytes(self.1))
        }

        fn open(&self, _: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
            Err(EngineError::Interrupted { engine: String::new() })
        }

        fn buffer(&self, bytes: usize) -> Option<WipedBuffer> {
            (bytes == self.1).then(|| WipedBuffer::zeros(bytes))
        }
    }

    #[test]
    fn what_an_engine_lends_takes_the_place_of_what_comes_back() {
        let pool = || Pool {
            free: Mutex::new(Free {
                buffers: Vec::new(),
                unmade: 2,
                reserve: 0,
                lent: Vec::new(),
                borrowed: 0,
            }),
            returned: Condvar::new(),
            pieces: 2,
            chunks: 1,
            input: 8,
            output: 8,
        };
        let description = Description::module(String::new());
        let without = pool();
        without.borrow_from(&Lender(description.clone(), 4), 12);
        assert_eq!(without.lock().unmade, 2);
        assert_eq!(without.lock().borrowed, 2);
        let pool = pool();
        let own = pool.take().unwrap().unwrap();
        // One pair is not made yet, and one is in use.
        pool.borrow_from(&Lender(description, 8), 12);
        let lent = pool.take().unwrap().unwrap();
        assert!(lent.is_lent && pool.take().unwrap().is_none());
        pool.give_back(own);
        assert!(pool.take().unwrap().unwrap().is_lent);
        pool.give_back(lent);
        assert!(pool.lock().lent.is_empty());
    }

    #[test]
    fn modules_add_pieces_when_they_take_several() {
        let engine = |kind, bytes| {
            let description = Description::new(String::new(), kind);
            Arc::new(Lender(description, bytes)) as Arc<dyn Engine>
        };
        let module = engine(Kind::Module, 4 * USUAL_ROOM);
        let seats = [engine(Kind::Cpu, 0), engine(Kind::Cpu, 0), Arc::clone(&module)];
        let key = Key::new(&[3; 32]).unwrap();
        let recipe = Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"").unwrap();
        let (file, _) = recipe.create().unwrap();
        let pool = Pool::new(&file, Direction::Encrypt, 64 << 20, &seats).unwrap();
        let mut out = Vec::new();
        let mut take = || {
            out.extend(std::iter::from_fn(|| pool.take().unwrap()));
            out.len()
        };
        assert_eq!(take(), 2 + 3);
        pool.grant(1);
        assert_eq!(take(), 2 + 3 + 1);
        pool.grant(pool.pieces_of(4 * USUAL_ROOM));
        assert_eq!((take(), pool.pieces()), (2 + 3 + 1 + 4, 2 + 3 + 1 + 4));
        let alone = Pool::new(&file, Direction::Encrypt, 64 << 20, &[module]).unwrap();
        assert_eq!(std::iter::from_fn(|| alone.take().unwrap()).count(), 1 + 3 + 4);
    }
}
