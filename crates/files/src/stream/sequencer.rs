//! Restores the order of finished pieces.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::Sink;
use super::pool::Buffers;
use crate::FileError;
use evener_core::IgnorePoison;

/// Writes pieces in the order of their numbers, which may differ from the order of completion.
///
/// A worker that delivers a piece goes on at once, unless it is the next to be written: then
/// that worker writes it and all that follow it without a gap.
pub(super) struct Sequencer<'a> {
    sink: &'a Sink,
    state: Mutex<State>,
}

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
    pub(super) fn new(sink: &'a Sink, header: &[u8]) -> Result<Sequencer<'a>, FileError> {
        sink.write_all(header, 0)?;
        let offset = header.len() as u64;
        let state = State { next: 0, offset, writing: false, ready: BTreeMap::new() };
        Ok(Sequencer { sink, state: Mutex::new(state) })
    }

    /// Takes a finished piece and writes what can be written now, passing the buffers of each
    /// piece written to `release`.
    pub(super) fn deliver(
        &self,
        number: u64,
        piece: Finished,
        release: impl Fn(Buffers),
    ) -> Result<(), FileError> {
        let mut state = self.lock();
        state.ready.insert(number, piece);
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
            self.sink.write_all(&piece.buffers.output[..piece.written], offset)?;
            release(piece.buffers);
            state = self.lock();
            state.next += 1;
            state.offset += piece.written as u64;
        }
    }

    /// How many bytes were written, the header included.
    pub(super) fn bytes(&self) -> u64 {
        self.lock().offset
    }

    /// How many pieces were written.
    pub(super) fn pieces(&self) -> u64 {
        self.lock().next
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }
}
