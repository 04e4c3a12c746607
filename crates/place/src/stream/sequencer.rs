//! Restores the order of finished pieces.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::pool::Buffers;
use crate::{FileError, Refusal};
use evener_core::IgnorePoison;

/// Writes pieces in the order of their numbers, which may differ from the order of completion.
///
/// A worker that delivers a piece continues at once, unless the piece is the next to be written:
/// then that worker writes it and all that follow it without a gap.
pub(super) struct Sequencer<'a> {
    write: &'a WriteAll<'a>,
    state: Mutex<State>,
}

/// Writes all of some bytes at the end, which is at an offset.
pub(super) type WriteAll<'a> = dyn Fn(&[u8], u64) -> Result<(), FileError> + Sync + 'a;

struct State {
    next: u64,
    offset: u64,
    writing: bool,
    ready: BTreeMap<u64, Finished>,
}

/// A processed piece: the first `written` bytes of its output buffer are the result.
pub(super) struct Finished {
    pub(super) buffers: Buffers,
    pub(super) written: usize,
}

impl<'a> Sequencer<'a> {
    /// Writes `header` and waits for piece 0.
    pub(super) fn new(write: &'a WriteAll<'a>, header: &[u8]) -> Result<Sequencer<'a>, FileError> {
        write(header, 0)?;
        let offset = header.len() as u64;
        let state = State { next: 0, offset, writing: false, ready: BTreeMap::new() };
        Ok(Sequencer { write, state: Mutex::new(state) })
    }

    /// Takes a finished piece and writes all that can be written now, passing the buffers of each
    /// piece written to `release`.
    ///
    /// # Errors
    /// When writing fails, or a piece of this number was delivered before.
    pub(super) fn deliver(
        &self,
        number: u64,
        piece: Finished,
        release: impl Fn(Buffers),
    ) -> Result<(), FileError> {
        let mut state = self.lock();
        let first = state.next + u64::from(state.writing);
        if number < first || state.ready.insert(number, piece).is_some() {
            return Err(Refusal::StreamTwice.into());
        }
        if state.writing {
            return Ok(());
        }
        loop {
            let next = state.next;
            let Some(piece) = state.ready.remove(&next) else {
                state.writing = false;
                return Ok(());
            };
            let offset = state.offset;
            state.writing = true;
            drop(state);
            // On an error `writing` stays set, so that nothing is written after the gap.
            (self.write)(&piece.buffers.output[..piece.written], offset)?;
            release(piece.buffers);
            state = self.lock();
            state.next += 1;
            state.offset += piece.written as u64;
        }
    }

    /// The number of bytes written, the header included.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().offset
    }

    /// The number of pieces written.
    pub(super) fn pieces(&self) -> u64 {
        self.lock().next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }
}

#[cfg(test)]
mod tests {
    use evener_core::WipedBuffer;

    use super::*;

    /// The piece of this number: one byte more than its number, each of that value.
    fn finished(number: u64) -> Finished {
        let mut output = WipedBuffer::zeros(8);
        output.fill(number as u8);
        let buffers = Buffers { input: WipedBuffer::zeros(0), output, is_lent: false };
        Finished { buffers, written: number as usize + 1 }
    }

    #[test]
    fn pieces_are_written_in_order_and_none_stands_for_another() {
        const PIECES: u64 = 4;
        // Every order of five deliveries, one of which must be a repetition.
        for course in 0..PIECES.pow(5) {
            let written = Mutex::new(Vec::new());
            let write = |bytes: &[u8], offset| {
                let mut written = written.lock().unwrap();
                assert_eq!(written.len() as u64, offset);
                written.extend_from_slice(bytes);
                Ok(())
            };
            let sequencer = Sequencer::new(&write, b"").unwrap();
            let mut delivered = Vec::new();
            for turn in 0..5 {
                let number = course / PIECES.pow(turn) % PIECES;
                let is_new = !delivered.contains(&number);
                let again = |_: Buffers| {
                    // A piece that is being written was delivered, too.
                    let next = sequencer.pieces();
                    assert!(sequencer.deliver(next, finished(next), |_| {}).is_err());
                };
                let result = sequencer.deliver(number, finished(number), again);
                assert_eq!(result.is_ok(), is_new, "{delivered:?}, then {number}");
                if !is_new {
                    break;
                }
                delivered.push(number);
            }
            let end = (0..PIECES).take_while(|number| delivered.contains(number)).count() as u64;
            assert_eq!(sequencer.pieces(), end, "{delivered:?}");
            let right: Vec<_> = (0..end).flat_map(|it| vec![it as u8; it as usize + 1]).collect();
            assert_eq!(sequencer.bytes(), right.len() as u64);
            assert_eq!(*written.lock().unwrap(), right);
        }
    }
}
