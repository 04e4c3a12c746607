//! Random access to an encrypted object.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use evener_core::{Direction, Engine, IgnorePoison};
use evener_format::FileCipher;
use rustix::fs::CWD;

use crate::long_read;
use crate::place::{self, Reading};
use crate::source::Source;
use crate::{FileError, KeyRing, Refusal};
use evener_seal::{
    Alone, Blob, Prepared, Segments, Workspace, block_before, bytes_to_prepare, prepare_sealed,
    process_segment, zeros,
};

/// The plaintext of an encrypted object, any part of which can be read; each read decrypts and
/// authenticates only the chunks that it touches (`openssl enc` files have no authentication).
/// Threads can share it.
///
/// Opening reads the last chunk, so that a truncated object is refused then.
///
/// [`random_access`] opens a file; in the facade, `Evener::open_at` does.
pub struct RandomAccess {
    blob: Box<dyn Blob>,
    cipher: FileCipher,
    segments: Segments,
    length: u64,
    position: u64,
    engine: Arc<dyn Engine>,
    workers: usize,
    state: Mutex<State>,
}

struct State {
    workspace: Workspace,
    engine: Alone,
    /// The number and length of the segment that is decrypted in the workspace's output buffer.
    current: Option<(u64, usize)>,
}

/// Opens an encrypted file to read any part of it. The engine is used as it is: one that is not
/// trusted should have a guard.
///
/// # Errors
/// When the file can't be read, no key fits, or its last chunk is not authentic.
pub fn random_access(
    path: impl AsRef<Path>,
    keys: &KeyRing,
    engine: Arc<dyn Engine>,
) -> Result<RandomAccess, FileError> {
    let file = Source::open(rustix::fd::AsFd::as_fd(&CWD), path.as_ref().as_os_str(), true)?;
    RandomAccess::open(Box::new(file), keys, engine)
}

impl RandomAccess {
    /// Opens an encrypted object of any [place](crate::Origin), as [`random_access`] opens a file.
    ///
    /// # Errors
    /// Those of [`random_access`].
    pub fn of(
        blob: Box<dyn place::Blob>,
        keys: &KeyRing,
        engine: Arc<dyn Engine>,
    ) -> Result<RandomAccess, FileError> {
        let plain = blob.plain_length();
        let mut opened = RandomAccess::open(Box::new(Reading(blob)), keys, engine)?;
        // Padding may follow.
        opened.length = opened.length.min(plain.unwrap_or(u64::MAX));
        Ok(opened)
    }

    fn open(
        blob: Box<dyn Blob>,
        keys: &KeyRing,
        engine: Arc<dyn Engine>,
    ) -> Result<RandomAccess, FileError> {
        let mut alone = Alone::new(Arc::clone(&engine));
        let length = blob.length().min(bytes_to_prepare(keys));
        let mut beginning = zeros(length)?;
        blob.read_exact_at(&mut beginning, 0)?;
        // It gets plaintext, under the wrong keys as well as the right one.
        let mut scratch = zeros(length)?;
        let Prepared { cipher, layout, .. } =
            prepare_sealed(keys, &beginning, &*blob, &mut scratch, &mut alone)?;
        if cipher.is_chained(Direction::Decrypt) {
            return Err(Refusal::OnlyFromBeginning.into());
        }
        // A chunk is never longer than the object, whatever the format's chunk size.
        let room = cipher.geometry().longest_chunk().min(blob.length()) as usize;
        let workspace = Workspace::new(room);
        if !workspace.has_room(room) {
            return Err(FileError::Memory { needed: 2 * room as u64 });
        }
        let segments = Segments::new(layout, cipher.geometry(), room)?;
        let state = Mutex::new(State { workspace, engine: alone, current: None });
        let (length, position, workers) = (0, 0, 1);
        let mut opened =
            RandomAccess { blob, cipher, segments, length, position, engine, workers, state };
        let last = opened.segments.count() - 1;
        let written = opened.load(&mut opened.lock(), last)?;
        opened.length = opened.segments.segment(last).plain.start + written as u64;
        Ok(opened)
    }

    /// Lets a long read use up to `workers` threads; otherwise it uses the caller's alone.
    #[must_use]
    pub fn with_workers(mut self, workers: usize) -> RandomAccess {
        self.workers = workers;
        self
    }

    /// The plaintext's length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "as of a file")]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns the part of the object that reading a range of the plaintext needs, for places that
    /// do better with one long read than with one for each chunk.
    pub fn sealed_range(&self, plain: Range<u64>) -> Range<u64> {
        let last = plain.end.min(self.length).saturating_sub(1);
        let chunks = self.segments.layout().chunk_at(plain.start).filter(|_| plain.start <= last);
        let Some((first, last)) = chunks.zip(self.segments.layout().chunk_at(last)) else {
            return 0..0;
        };
        let [first, last] = [first, last].map(|chunk| self.segments.of_chunk(chunk));
        self.segments.run(&(first..last + 1)).sealed
    }

    /// Reads into `buffer` from `offset` on. Returns the number of bytes read, less than the
    /// buffer's length only at the end.
    ///
    /// # Errors
    /// When reading fails or a chunk is not authentic. Nothing unauthentic is left in the buffer.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset.saturating_add(done as u64);
            let Some(chunk) = self.segments.layout().chunk_at(at).filter(|_| at < self.length)
            else {
                break;
            };
            let whole = self.whole_chunks(chunk, at, buffer.len() - done);
            if whole.end - whole.start > 1 {
                done += self.read_whole(whole, &mut buffer[done..])?;
                continue;
            }
            let state = &mut *self.lock();
            let index = self.segments.of_chunk(chunk);
            let written = self.load(state, index)?;
            let start = (at - self.segments.segment(index).plain.start) as usize;
            let Some(found) = state.workspace.output.get(start..written).filter(|f| !f.is_empty())
            else {
                break;
            };
            let left = usize::try_from(self.length - at).unwrap_or(usize::MAX);
            let count = found.len().min(buffer.len() - done).min(left);
            buffer[done..done + count].copy_from_slice(&found[..count]);
            done += count;
        }
        Ok(done)
    }

    /// The chunks that begin at `at`, with the number `first`, and fit the next `room` bytes. Those
    /// of `openssl enc` depend on each other, so they count as none.
    fn whole_chunks(&self, first: u64, at: u64, room: usize) -> Range<u64> {
        let layout = self.segments.layout();
        let begins = layout.chunk(first).plain.start == at;
        if !begins || !self.cipher.cipher().is_authenticated() {
            return first..first;
        }
        let end = at.saturating_add(room as u64).min(self.length);
        first..layout.chunk_at(end).unwrap_or(layout.chunks())
    }

    /// Decrypts whole chunks straight into a buffer; returns their length.
    fn read_whole(&self, chunks: Range<u64>, buffer: &mut [u8]) -> Result<usize, FileError> {
        let layout = self.segments.layout();
        let plain = layout.chunk(chunks.start).plain.start..layout.chunk(chunks.end - 1).plain.end;
        let buffer = &mut buffer[..(plain.end - plain.start) as usize];
        let file = long_read::Sealed { blob: &*self.blob, cipher: &self.cipher, layout };
        file.read(chunks, buffer, &self.engine, self.workers)?;
        Ok(buffer.len())
    }

    /// Decrypts a segment into the output buffer, unless it is there already; returns its length.
    fn load(&self, state: &mut State, index: u64) -> Result<usize, FileError> {
        if let Some((_, written)) = state.current.filter(|(there, _)| *there == index) {
            return Ok(written);
        }
        state.current = None;
        let segment = self.segments.segment(index);
        let direction = Direction::Decrypt;
        let length = segment.input_length(direction);
        let before = block_before(&*self.blob, &self.cipher, segment.sealed.start)?;
        let State { workspace, engine, .. } = state;
        self.blob.read_exact_at(&mut workspace.input[..length], segment.sealed.start)?;
        let (file, segments) = (&self.cipher, &self.segments);
        let written =
            process_segment(file, segments, &segment, direction, before, workspace, engine)?;
        state.current = Some((index, written));
        Ok(written)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().ignore_poison()
    }
}

impl fmt::Debug for RandomAccess {
    /// Omits the plaintext that it holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RandomAccess")
            .field("length", &self.length)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Read for RandomAccess {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(buffer, self.position).map_err(io::Error::other)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for RandomAccess {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::End(distance) => self.length.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "seek before the start");
        self.position = position.ok_or_else(outside)?;
        Ok(self.position)
    }
}
