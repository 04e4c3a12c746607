//! One writer at a time for an object in segments.
//!
//! Linux lets one thread at a time write to a file: tmpfs, ext4, XFS and Btrfs lock the file for
//! each write, and the threads that wait for the lock spin. So a worker whose segment is ready
//! while another worker writes leaves it here in its buffer, takes a spare buffer, and continues
//! with the next segment. The worker that writes continues until nothing is left here. Without a
//! spare buffer a worker waits, asleep, until the writer has caught up.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard};

use evener_core::{IgnorePoison, WipedBuffer};

use super::workspace::zeros;

/// The finished segments of one object that wait to be written, and whether a worker writes.
#[derive(Default)]
pub(crate) struct Writing {
    state: Mutex<State>,
    /// The writer has caught up, or has ended.
    caught_up: Condvar,
}

#[derive(Default)]
struct State {
    has_writer: bool,
    waiting: VecDeque<Piece>,
}

/// A result with its bytes.
pub(crate) struct Piece {
    buffer: WipedBuffer,
    pub(crate) made: Made,
}

/// The result of these segments: `length` bytes that belong at an offset of the output.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) segments: Range<u64>,
    pub(crate) length: usize,
    pub(crate) offset: u64,
}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.made.length]
    }
}

/// The right to write to the file, until it is dropped.
pub(crate) struct Writer<'a> {
    writing: &'a Writing,
    spares: &'a Spares,
}

impl Writing {
    /// Hands in the result that is at the start of `buffer`.
    ///
    /// Either the caller becomes the output's writer: it writes it itself, and then everything that
    /// [`Writer::next`] returns. Or the current writer will write it, and `buffer` becomes
    /// another buffer of the same length.
    pub(crate) fn hand_in<'a>(
        &'a self,
        buffer: &mut WipedBuffer,
        made: Made,
        spares: &'a Spares,
    ) -> Option<Writer<'a>> {
        let mut state = self.lock();
        while state.has_writer {
            if let Some(spare) = spares.take(buffer.len()) {
                let buffer = std::mem::replace(buffer, spare);
                state.waiting.push_back(Piece { buffer, made });
                return None;
            }
            state = self.caught_up.wait(state).ignore_poison();
        }
        state.has_writer = true;
        Some(Writer { writing: self, spares })
    }

    /// Returns whether segments wait: another worker would only add to them.
    pub(crate) fn is_behind(&self) -> bool {
        !self.lock().waiting.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }
}

impl Writer<'_> {
    /// The next piece to write; `None` when everything handed in is written, and the caller is no
    /// longer the writer. `written` is the previous piece, whose buffer is free now.
    pub(crate) fn next(&mut self, written: Option<Piece>) -> Option<Piece> {
        let mut state = self.writing.lock();
        if let Some(piece) = written {
            self.spares.give_back(piece.buffer);
        }
        let next = state.waiting.pop_front();
        // Sleepers are woken a little before the writer runs out of work, not for each buffer.
        if state.waiting.len() <= CAUGHT_UP {
            self.writing.caught_up.notify_all();
        }
        state.has_writer = next.is_some();
        next
    }
}

impl Drop for Writer<'_> {
    /// Even after a panic, no worker waits for this one.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.writing.lock();
            state.has_writer = false;
            self.writing.caught_up.notify_all();
        }
    }
}

/// Buffers for workers that leave theirs, for all files; made when first needed. The workers that
/// need buffers of an unusual length [give](Spares::give_back) them.
pub(crate) struct Spares {
    room: usize,
    state: Mutex<Unused>,
}

struct Unused {
    buffers: Vec<WipedBuffer>,
    unmade: usize,
}

impl Spares {
    /// At most `number` buffers of `room` bytes.
    pub(crate) fn new(number: usize, room: usize) -> Spares {
        Spares { room, state: Mutex::new(Unused { buffers: Vec::new(), unmade: number }) }
    }

    /// A buffer of this length.
    fn take(&self, length: usize) -> Option<WipedBuffer> {
        let mut unused = self.lock();
        if let Some(at) = unused.buffers.iter().rposition(|buffer| buffer.len() == length) {
            return Some(unused.buffers.swap_remove(at));
        }
        if length != self.room {
            return None;
        }
        let left = unused.unmade.checked_sub(1)?;
        // Without memory for a spare, the worker waits for the writer; later there may be memory.
        let spare = zeros(self.room as u64).ok()?;
        unused.unmade = left;
        Some(spare)
    }

    /// Adds an unused buffer.
    pub(crate) fn give_back(&self, buffer: WipedBuffer) {
        self.lock().buffers.push(buffer);
    }

    fn lock(&self) -> MutexGuard<'_, Unused> {
        self.state.lock().ignore_poison()
    }
}

/// The most pieces that wait when sleeping workers are woken.
const CAUGHT_UP: usize = 2;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;

    use super::*;

    const ROOM: usize = 8;

    /// The file as it is written: each piece's first byte at its offset.
    struct File {
        bytes: Vec<AtomicU64>,
        is_busy: AtomicBool,
    }

    impl File {
        fn write(&self, bytes: &[u8], offset: u64) {
            assert!(!self.is_busy.swap(true, Ordering::SeqCst), "two wrote at once");
            self.bytes[offset as usize].fetch_add(u64::from(bytes[0]), Ordering::SeqCst);
            thread::yield_now();
            self.is_busy.store(false, Ordering::SeqCst);
        }
    }

    /// The result of one segment of one byte.
    fn made(offset: u64) -> Made {
        Made { segments: offset..offset + 1, length: 1, offset }
    }

    /// A worker's action for each of its segments.
    fn work(file: &File, writing: &Writing, spares: &Spares, offsets: impl Iterator<Item = u64>) {
        let mut buffer = WipedBuffer::zeros(ROOM);
        for offset in offsets {
            buffer[0] = (offset % 251) as u8 + 1;
            let Some(mut writer) = writing.hand_in(&mut buffer, made(offset), spares) else {
                assert_eq!(buffer.len(), ROOM);
                continue;
            };
            file.write(&buffer[..1], offset);
            let mut written = None;
            while let Some(piece) = writer.next(written.take()) {
                file.write(piece.bytes(), piece.made.offset);
                written = Some(piece);
            }
        }
    }

    #[test]
    fn each_piece_is_written_once_by_one_writer_at_a_time_whatever_spares_there_are() {
        const PIECES: u64 = 3000;
        for (workers, number) in [(1, 0), (2, 0), (2, 1), (3, 2), (8, 3), (4, 100)] {
            let bytes = (0..PIECES).map(|_| AtomicU64::new(0)).collect();
            let file = File { bytes, is_busy: AtomicBool::new(false) };
            let (writing, spares) = (Writing::default(), Spares::new(number, ROOM));
            thread::scope(|scope| {
                for worker in 0..workers {
                    let offsets = (worker..PIECES).step_by(workers as usize);
                    scope.spawn(|| work(&file, &writing, &spares, offsets));
                }
            });
            for (offset, byte) in file.bytes.iter().enumerate() {
                assert_eq!(byte.load(Ordering::SeqCst), offset as u64 % 251 + 1);
            }
            assert!(!writing.is_behind() && !writing.lock().has_writer);
            let unused = spares.lock();
            assert_eq!(unused.unmade + unused.buffers.len(), number);
        }
    }

    #[test]
    fn a_spare_that_no_memory_holds_can_be_made_later() {
        let spares = Spares::new(1, usize::MAX);
        assert!(spares.take(usize::MAX).is_none());
        let unused = spares.lock();
        assert_eq!(unused.unmade + unused.buffers.len(), 1);
    }

    #[test]
    fn a_writer_that_panics_leaves_its_turn() {
        let (writing, spares) = (Writing::default(), Spares::new(0, ROOM));
        let mut buffer = WipedBuffer::zeros(ROOM);
        thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let mut buffer = WipedBuffer::zeros(ROOM);
                let _writer = writing.hand_in(&mut buffer, made(0), &spares);
                std::panic::resume_unwind(Box::new(()));
            });
            assert!(panics.join().is_err());
        });
        assert!(writing.hand_in(&mut buffer, made(0), &spares).is_some());
    }
}
