//! The objects of a run, open for reading and being written, as the sealer needs them.

use std::path::PathBuf;
use std::sync::Arc;

use evener_core::{Direction, Iv};
use evener_format::{FileCipher, Header, Recipe};
use evener_pipeline::Worker;

use super::segment::{SegmentError, Segments};
use super::workspace::Workspace;
use crate::FileError;

/// An object whose bytes can be read in any order.
pub trait ReadAt {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// When reading fails, or the object has become shorter.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError>;
}

/// An output that can be read back.
pub trait ReadBack: ReadAt {
    /// Returns whether it ends at `offset`.
    ///
    /// # Errors
    /// When that can't be read.
    fn ends_at(&self, offset: u64) -> Result<bool, FileError>;
}

/// An object that is open for reading.
pub trait Blob: ReadAt + Send + Sync {
    /// Its length at opening, in bytes.
    fn length(&self) -> u64;

    /// Its first bytes, at most `most` of them.
    fn beginning(&self, most: u64) -> Result<Vec<u8>, FileError> {
        let mut beginning = vec![0; self.length().min(most) as usize];
        self.read_exact_at(&mut beginning, 0)?;
        Ok(beginning)
    }

    /// What opens it, where that is known without trying the operation's keys.
    fn recipe(&self) -> Option<&Recipe> {
        None
    }
}

/// An object that is being written, and has no name yet. Dropping it aborts it.
pub trait Draft: Send + Sync {
    /// Looks at `bytes`, which will be written at `offset`, while they are in the processor's cache.
    /// Every byte comes once, before it is written; several workers come at once.
    fn made(&self, bytes: &[u8], offset: u64) {
        let _ = (bytes, offset);
    }

    /// Writes all of `bytes` at `offset`. Only one worker at a time writes, in any order.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError>;
}

/// The objects of one run.
pub trait Objects: Sync + Sized {
    /// Objects that are fed together, such as the files of a directory.
    type Group: Clone + Send + Sync;
    /// One object of a group, which is not open yet.
    type Item: Clone + Send + Sync;
    /// An open source.
    type Blob: Blob;
    /// An output.
    type Draft: Draft;

    /// Returns whether two tasks' groups are one.
    fn is_same(one: &Self::Group, other: &Self::Group) -> bool;

    /// Opens an object, unless there is nothing to do for it. `room` is what the worker's buffers
    /// have left.
    fn open(
        &self,
        group: &Self::Group,
        item: &Self::Item,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<Opened<Self::Blob>, SegmentError>;

    /// Begins an object's output; `None` when nothing is written.
    fn begin(
        &self,
        group: &Self::Group,
        item: &Self::Item,
        blob: &Self::Blob,
    ) -> Result<Option<Self::Draft>, FileError>;

    /// Ends an object: checks its source, publishes its output and counts it.
    fn finish(
        &self,
        done: Done<'_, Self>,
        output: Option<Self::Draft>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError>;

    /// The item to do again after this error, if that may help.
    fn again(&self, item: &Self::Item, error: &FileError) -> Option<Self::Item>;

    /// An item that was begun, for another worker after an engine has failed.
    fn returned(item: Self::Item) -> Self::Item {
        item
    }

    /// Records an object that was not done.
    fn failed(&self, group: &Self::Group, item: &Self::Item, error: FileError);

    /// Names the output at which writing failed.
    fn at_output(&self, group: &Self::Group, item: &Self::Item, error: FileError) -> FileError {
        let _ = (group, item);
        error
    }

    /// The name under which an object is reported.
    fn path(group: &Self::Group, item: &Self::Item) -> PathBuf;
}

/// The unused parts of a worker's buffers.
pub struct Room<'a> {
    /// For what is read of the object.
    pub input: &'a mut [u8],
    /// For anything else.
    pub scratch: &'a mut [u8],
    /// True if they are the whole buffers.
    pub is_all: bool,
}

/// The result of opening an object.
pub enum Opened<B> {
    /// It is open, and its first bytes, so many, are at the start of the room's input.
    Blob(B, usize),
    /// There is nothing more to do.
    Finished,
    /// Looking at it takes more room than the objects already begun by the worker leave.
    Full,
}

/// An object whose every byte has been processed and written.
pub struct Done<'a, O: Objects> {
    /// The group of its item.
    pub group: &'a O::Group,
    /// The item that was opened.
    pub item: &'a O::Item,
    /// The open source.
    pub blob: &'a Arc<O::Blob>,
    /// The cipher and keys that processed it.
    pub cipher: &'a FileCipher,
    /// The segments in which it was processed.
    pub segments: &'a Segments,
    /// The header that was written, if a sealed object was made.
    pub header: Option<&'a Header>,
    /// The length of the result, in bytes.
    pub length: u64,
}

/// The ciphertext block before `offset`, if the cipher chains and there is one: the IV of the data
/// at `offset`.
pub fn block_before(
    sealed: &(impl ReadAt + ?Sized),
    cipher: &FileCipher,
    offset: u64,
) -> Result<Option<Iv>, FileError> {
    if !cipher.is_chained(Direction::Encrypt) || offset <= cipher.geometry().header {
        return Ok(None);
    }
    let mut block = [0; Iv::MAX_LENGTH];
    let block = &mut block[..cipher.cipher().iv_length()];
    sealed.read_exact_at(block, offset.saturating_sub(block.len() as u64))?;
    Ok(Iv::new(block).ok())
}
