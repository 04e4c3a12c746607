//! Random access to an encrypted file.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use evener_core::{Direction, Engine};
use evener_format::FileCipher;
use evener_pipeline::Worker;
use rustix::fs::CWD;

use crate::seal::{
    Blob, Prepared, ReadAt, SegmentError, Segments, Workspace, block_before, bytes_to_prepare,
    prepare_sealed, process_segment, zeros,
};
use crate::source::Source;
use crate::{FileError, KeyRing};

/// The plaintext of an encrypted file, any part of which can be read; each read decrypts and
/// authenticates only the chunks that it touches (`openssl enc` files have no authentication).
/// Stays on the thread that opened it.
///
/// Opening reads the last chunk, so that a truncated file is refused then.
///
/// [`random_access`] opens one; in the facade, `Evener::random_access` does.
pub struct RandomAccess<'e> {
    source: Source,
    cipher: FileCipher,
    segments: Segments,
    workspace: Workspace,
    worker: Worker<'e>,
    length: u64,
    position: u64,
    /// The number and length of the segment that is decrypted in the workspace's output buffer.
    current: Option<(u64, usize)>,
}

/// Opens an encrypted file to read any part of it. The engine is used as it is: one that is not
/// trusted should have a guard.
///
/// # Errors
/// When the file can't be read, no key fits, or its last chunk is not authentic.
pub fn random_access<'e>(
    path: &Path,
    keys: &KeyRing,
    engine: &'e Arc<dyn Engine>,
) -> Result<RandomAccess<'e>, FileError> {
    RandomAccess::open(path, keys, engine)
}

impl<'e> RandomAccess<'e> {
    fn open(
        path: &Path,
        keys: &KeyRing,
        engine: &'e Arc<dyn Engine>,
    ) -> Result<RandomAccess<'e>, FileError> {
        let source = Source::open(rustix::fd::AsFd::as_fd(&CWD), path.as_os_str(), true)?;
        let mut worker = Worker::new(engine.as_ref(), 0);
        let length = source.length().min(bytes_to_prepare(keys));
        let mut beginning = zeros(length)?;
        source.read_exact_at(&mut beginning, 0)?;
        // It gets plaintext, under the wrong keys as well as the right one.
        let mut scratch = zeros(length)?;
        let Prepared { cipher, layout, .. } =
            prepare_sealed(keys, &beginning, source.length(), &mut scratch, &mut worker)?;
        if cipher.is_chained(Direction::Decrypt) {
            return Err(FileError::Refused(
                "can only be read from its beginning, being in OFB mode; decrypt it as a whole"
                    .to_owned(),
            ));
        }
        // A chunk is never longer than the file, whatever the format's chunk size.
        let room = cipher.geometry().longest_chunk().min(source.length()) as usize;
        let workspace = Workspace::new(room);
        if !workspace.has_room(room) {
            return Err(FileError::Memory { needed: 2 * room as u64 });
        }
        let mut opened = RandomAccess {
            segments: Segments::new(layout, cipher.geometry(), room)?,
            workspace,
            source,
            cipher,
            worker,
            length: 0,
            position: 0,
            current: None,
        };
        let last = opened.segments.count() - 1;
        let written = opened.load(last)?;
        opened.length = opened.segments.segment(last).plain.start + written as u64;
        Ok(opened)
    }

    /// The plaintext's length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "as of a file")]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Reads into `buffer` from `offset` on. Returns the number of bytes read, less than the
    /// buffer's length only at the end.
    ///
    /// # Errors
    /// When reading fails or a chunk is not authentic.
    pub fn read_at(&mut self, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
        let mut done = 0;
        while done < buffer.len() {
            let at = offset.saturating_add(done as u64);
            let Some(chunk) = self.segments.layout().chunk_at(at).filter(|_| at < self.length)
            else {
                break;
            };
            let index = self.segments.of_chunk(chunk);
            let written = self.load(index)?;
            let start = (at - self.segments.segment(index).plain.start) as usize;
            let Some(found) = self.workspace.output.get(start..written).filter(|f| !f.is_empty())
            else {
                break;
            };
            let count = found.len().min(buffer.len() - done);
            buffer[done..done + count].copy_from_slice(&found[..count]);
            done += count;
        }
        Ok(done)
    }

    /// Decrypts a segment into the output buffer, unless it is there already; returns its length.
    fn load(&mut self, index: u64) -> Result<usize, FileError> {
        if let Some((_, written)) = self.current.filter(|(there, _)| *there == index) {
            return Ok(written);
        }
        self.current = None;
        let segment = self.segments.segment(index);
        let direction = Direction::Decrypt;
        let (length, _) = segment.lengths(&self.cipher, direction);
        let before = block_before(&self.source, &self.cipher, segment.sealed.start)?;
        self.source.read_exact_at(&mut self.workspace.input[..length], segment.sealed.start)?;
        let written = process_segment(
            &self.cipher,
            &self.segments,
            &segment,
            direction,
            before,
            &mut self.workspace,
            &mut self.worker,
        )?;
        self.current = Some((index, written));
        Ok(written)
    }
}

impl fmt::Debug for RandomAccess<'_> {
    /// Omits the plaintext that it holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RandomAccess")
            .field("length", &self.length)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Read for RandomAccess<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.read_at(buffer, self.position).map_err(io::Error::other)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for RandomAccess<'_> {
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

impl From<SegmentError> for FileError {
    fn from(error: SegmentError) -> FileError {
        match error {
            SegmentError::File(error) => error,
            SegmentError::Engine(error) => error.into(),
        }
    }
}
