//! Finds out whether a stream goes on behind a full chunk before anything has come from there.

use std::sync::Arc;

use evener_core::{Direction, Engine, Kind, WipedBuffer};
use evener_format::{Ending, FileCipher};
use evener_seal::{Alone, is_authentic, zeros};

use super::work::{cut, may_be_full};

/// Looks at full chunks that nothing has followed yet.
pub(super) struct Trial<'a> {
    file: &'a FileCipher,
    direction: Direction,
    /// The engine that decrypts such a chunk to see how it was made, if formats show it that way.
    engine: Option<Alone>,
    scratch: WipedBuffer,
}

impl<'a> Trial<'a> {
    /// Takes the first of these engines that computes on a core.
    pub(super) fn new<'e>(
        file: &'a FileCipher,
        direction: Direction,
        engines: impl Iterator<Item = &'e Arc<dyn Engine>>,
    ) -> Trial<'a> {
        let shows = file.geometry().ending == Ending::MayBeFull && direction == Direction::Decrypt;
        let is_able = |engine: &&Arc<dyn Engine>| {
            engine.description().kind == Kind::Cpu
                && engine.offer(file.cipher(), direction).is_some()
        };
        let engine = engines.filter(|_| shows).find(is_able).cloned().map(Alone::new);
        Trial { file, direction, engine, scratch: WipedBuffer::zeros(0) }
    }

    /// Returns whether more must follow whole chunks, which are all of `input` and the first of
    /// which is number `first`: their format has no full last chunk, or the last of them was not
    /// sealed as the last of its file. Otherwise only the next byte shows it, or the end.
    pub(super) fn shows_more(&mut self, first: u64, input: &[u8]) -> bool {
        !may_be_full(self.file.geometry(), self.direction)
            || self.is_sealed_as_inner(first, input) == Some(true)
    }

    fn is_sealed_as_inner(&mut self, first: u64, input: &[u8]) -> Option<bool> {
        let engine = self.engine.as_mut()?;
        let chunks = cut(self.file.geometry(), self.direction, first, input.len() as u64, false);
        let chunk = chunks.ok()?.pop()?;
        let length = (chunk.sealed.end - chunk.sealed.start) as usize;
        let input = &input[input.len().checked_sub(length)?..];
        if self.scratch.len() < length {
            self.scratch = zeros(length as u64).ok()?;
        }
        is_authentic(self.file, chunk, input, &mut self.scratch, engine).ok()
    }
}
