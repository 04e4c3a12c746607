//! A worker's buffers and job list, kept between files.

use std::sync::Arc;

use evener_core::{Job, WipedBuffer};

use rustix::io::Errno;

use crate::error::IntoSystemError;
use crate::format::Recipe;
use crate::trail::{Seen, Trail};
use crate::{FileError, KeyRing};

/// How long each of a worker's buffers is to be, in bytes, when the buffers of all `workers`
/// may take `memory`.
///
/// Two buffers of the usual length fit a core's second-level cache beside what else it needs.
/// A format with longer chunks gets longer ones, and a single short file of this `length` shorter
/// ones: to fill and to wipe them would take longer than to encrypt it.
pub(crate) fn room(memory: usize, workers: usize, keys: &KeyRing, length: Option<u64>) -> usize {
    let allowed = memory / (2 * workers.max(1));
    let longest = |recipe: &Recipe| recipe.geometry().longest_chunk();
    let chunk = keys.recipes().map(longest).max().unwrap_or(0);
    let header = keys.longest_header() as u64;
    let usual = length.map_or(USUAL_ROOM, |length| length.min(USUAL_ROOM));
    let wanted = chunk.saturating_add(header).max(usual);
    usize::try_from(wanted).unwrap_or(usize::MAX).min(allowed)
}

/// How many more buffers of `room` bytes the `workers` may have together within `memory`: enough
/// that a worker that writes has something to write while the others work.
pub(crate) fn spares(memory: usize, workers: usize, room: usize) -> usize {
    let left = memory.saturating_sub(2 * workers * room);
    left.checked_div(room).unwrap_or(0).min(SPARES * workers)
}

/// Spare buffers for each worker.
const SPARES: usize = 4;

/// 16 Cobblestone chunks and some headers.
const USUAL_ROOM: u64 = 264 << 10;

/// A worker's buffers and job list, allocated once and wiped on drop.
pub(crate) struct Workspace {
    /// The input.
    pub(crate) input: WipedBuffer,
    /// The engine's output.
    pub(crate) output: WipedBuffer,
    jobs: Vec<Job<'static>>,
    /// The verification result of the last segment.
    pub(crate) seen: Seen,
    /// The files that would be in doubt.
    pub(crate) trail: Arc<Trail>,
}

impl Workspace {
    /// Two buffers of `room` bytes each, which are empty where there is no memory for them.
    pub(crate) fn new(room: usize) -> Workspace {
        let buffer = || zeros(room as u64).unwrap_or_default();
        Workspace {
            input: buffer(),
            output: buffer(),
            jobs: Vec::new(),
            seen: Seen::default(),
            trail: Arc::default(),
        }
    }

    /// Whether there was memory for the buffers.
    pub(crate) fn has_room(&self, room: usize) -> bool {
        self.input.len() >= room && self.output.len() >= room
    }

    /// Both buffers and an empty job list; give the list back with
    /// [`emptied`](evener_pipeline::emptied).
    pub(crate) fn parts(&mut self) -> (&mut [u8], &mut [u8], &mut Vec<Job<'static>>) {
        (&mut self.input, &mut self.output, &mut self.jobs)
    }
}

/// A buffer of so many zeros, wiped on drop.
///
/// # Errors
/// When there is no memory for it.
pub(crate) fn zeros(length: u64) -> Result<WipedBuffer, FileError> {
    let buffer = usize::try_from(length).ok().and_then(WipedBuffer::try_zeros);
    buffer.ok_or_else(|| FileError::System {
        action: "get memory for its chunks",
        errno: Errno::NOMEM.system(),
    })
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
