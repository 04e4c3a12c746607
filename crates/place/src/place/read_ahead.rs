//! Objects that are read in pieces.

use std::sync::Mutex;

use evener_core::IgnorePoison;

use super::{Blob, Fault, Metadata};

/// An object that is read from its beginning, mostly, in pieces: each request brings more.
pub struct ReadAhead {
    blob: Box<dyn Blob>,
    /// The most bytes of one request, unless a reader asks for more.
    most: usize,
    /// Where the bytes that are there begin, and those bytes.
    window: Mutex<(u64, Vec<u8>)>,
}

impl ReadAhead {
    /// The most bytes to read ahead of an object that is read whole.
    pub const MOST: usize = 8 << 20;

    /// Reads up to `most` bytes of an object at once.
    pub fn of(blob: Box<dyn Blob>, most: usize) -> ReadAhead {
        ReadAhead { blob, most: most.max(LEAST), window: Mutex::default() }
    }
}

impl Blob for ReadAhead {
    fn length(&self) -> u64 {
        self.blob.length()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        let mut window = self.window.lock().ignore_poison();
        let (start, bytes) = &mut *window;
        let found = at
            .checked_sub(*start)
            .and_then(|skipped| bytes.get(usize::try_from(skipped).ok()?..)?.get(..buffer.len()));
        if let Some(found) = found {
            buffer.copy_from_slice(found);
            return Ok(());
        }
        // Twice as much each time, as long as one follows the other.
        let follows = at >= *start && at <= *start + bytes.len() as u64;
        let more = if follows { 2 * bytes.len() } else { 0 };
        let length = buffer.len().max(more.clamp(LEAST, self.most)) as u64;
        let length = length.min(self.blob.length().saturating_sub(at));
        let mut next = vec![0; usize::try_from(length).unwrap_or(0).max(buffer.len())];
        self.blob.read_at(&mut next, at)?;
        buffer.copy_from_slice(&next[..buffer.len()]);
        *window = (at, next);
        Ok(())
    }

    fn check(&self) -> Result<(), Fault> {
        self.blob.check()
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.blob.metadata()
    }
}

const LEAST: usize = 64 << 10;
