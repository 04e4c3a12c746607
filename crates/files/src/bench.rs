//! A worker's buffers and job list, kept between files.

use std::sync::Arc;

use evener_core::Job;
use zeroize::Zeroizing;

use crate::KeyRing;
use crate::format::Recipe;
use crate::segment::longest_chunk;
use crate::trail::{Seen, Trail};

/// How long each of a worker's buffers is to be, in bytes, when the buffers of all `workers`
/// may take `memory`.
///
/// Two buffers of the usual length fit a core's second-level cache beside what else it needs.
/// A format with longer chunks gets longer ones.
pub(crate) fn room(memory: usize, workers: usize, keys: &KeyRing) -> usize {
    let allowed = memory / (2 * workers.max(1));
    let longest = |recipe: &Recipe| longest_chunk(&recipe.geometry());
    let chunk = keys.recipes().map(longest).max().unwrap_or(0);
    let header = keys.longest_header() as u64;
    let wanted = chunk.saturating_add(header).max(USUAL_ROOM as u64);
    usize::try_from(wanted).unwrap_or(usize::MAX).min(allowed)
}

/// 16 Cobblestone chunks and some headers.
const USUAL_ROOM: usize = 264 << 10;

/// A worker's buffers and job list, allocated once and wiped on drop.
pub(crate) struct Bench {
    /// The input.
    pub(crate) input: Zeroizing<Vec<u8>>,
    /// The engine's output.
    pub(crate) output: Zeroizing<Vec<u8>>,
    jobs: Vec<Job<'static>>,
    /// The verification result of the last segment.
    pub(crate) seen: Seen,
    /// The files that would be in doubt.
    pub(crate) trail: Arc<Trail>,
}

impl Bench {
    /// Two buffers of `room` bytes each, which are empty where there is no memory for them.
    pub(crate) fn new(room: usize) -> Bench {
        let buffer = || {
            let mut buffer = Vec::new();
            if buffer.try_reserve_exact(room).is_ok() {
                buffer.resize(room, 0);
            }
            Zeroizing::new(buffer)
        };
        Bench {
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
