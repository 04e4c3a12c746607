//! The rows of a job: entries of its source in the index's order, with the versions that they had.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use evener_format::index::{self, Block, BlockWriter, Content, EntryPath};
use evener_format::{Cobblestone, Layout};

use crate::place::{Blob, Entry, Kind, Metadata, Stamp};
use crate::{Fault, FileError};

use super::super::depot::refused;
use super::super::sealing::{entry_of, no_content};

/// An entry of the source, as the planner found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) directory: Arc<[u8]>,
    /// The entry; that of a file has its size and [version](version_of), and no other content.
    pub(super) entry: index::Entry,
}

impl Row {
    /// The row of an entry; `None` for one that is not transferred.
    pub(super) fn of(directory: &mut Arc<[u8]>, entry: &Entry) -> Option<Row> {
        use std::os::unix::ffi::OsStrExt;
        let path = EntryPath::of(entry.name.path().as_os_str().as_bytes());
        if **directory != *path.directory {
            *directory = path.directory.clone();
        }
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let kind = match &entry.kind {
            // Names of one file may come to differ while the job goes on.
            Kind::Object | Kind::HardLink(_) => {
                index::Kind::File(planned(entry.length.unwrap_or(0)))
            }
            Kind::Directory => index::Kind::Directory,
            Kind::SymbolicLink(target) => index::Kind::Symlink(bytes(target)),
            Kind::LeftOut(_) => return None,
        };
        let mut row = entry_of(&path, &entry.metadata, kind);
        if matches!(row.kind, index::Kind::File(_)) {
            let version = version_of(
                entry.version.as_deref(),
                (&entry.metadata, entry.stamp),
                entry.length.unwrap_or(0),
            );
            row.attributes = vec![(VERSION.to_vec(), version)];
        }
        Some(Row { directory: directory.clone(), entry: row })
    }

    /// A directory that the names below it imply.
    pub(super) fn implied(path: EntryPath) -> Row {
        let entry = entry_of(&path, &Metadata::default(), index::Kind::Directory);
        Row { directory: path.directory, entry }
    }

    /// Checks that an index can have the row.
    pub(super) fn check(&self) -> Result<(), FileError> {
        let pushed = BlockWriter::default().push(&self.directory, &self.entry);
        pushed.map(drop).map_err(|error| refused(error.to_string()))
    }

    pub(super) fn path(&self) -> EntryPath {
        EntryPath { directory: self.directory.clone(), name: self.entry.name.clone() }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.entry.kind == index::Kind::Directory
    }

    /// The size of a file in bytes; 0 for all else.
    pub(super) fn size(&self) -> u64 {
        match &self.entry.kind {
            index::Kind::File(content) => content.size,
            _ => 0,
        }
    }

    /// The entry of the source that the row describes, and its version.
    pub(super) fn into_entry(mut self) -> (Entry, Vec<u8>) {
        use std::os::unix::ffi::OsStringExt;
        let path = std::ffi::OsString::from_vec(self.path().whole()).into();
        let (mut version, size) = (Vec::new(), self.size());
        if matches!(self.entry.kind, index::Kind::File(_)) {
            let attributes = std::mem::take(&mut self.entry.attributes);
            version = attributes.into_iter().map(|(_, value)| value).next().unwrap_or_default();
        }
        let (mut entry, _) = super::super::origin::entry(path, self.entry);
        if entry.kind == Kind::Object {
            entry.length = Some(size);
        }
        (entry, version)
    }
}

/// The version of an object: the text that its store gives it, or else its length, its time, and its
/// time of change where the place has that, since the other one can be set back.
fn version_of(
    version: Option<&str>,
    (metadata, stamp): (&Metadata, Option<Stamp>),
    length: u64,
) -> Vec<u8> {
    let stated = || {
        let (seconds, nanoseconds) = metadata.modified_since_1970().unwrap_or_default();
        let mut stated = format!("{length} {seconds}.{nanoseconds:09}");
        if let Some(Stamp { changed: (seconds, nanoseconds), .. }) = stamp {
            stated.push_str(&format!(" {seconds}.{nanoseconds:09}"));
        }
        stated
    };
    version.map_or_else(stated, str::to_owned).into_bytes()
}

/// The version of an open object, in the words of [`Row::of`].
pub(super) fn version_of_blob(blob: &dyn Blob, walked: &Metadata) -> Vec<u8> {
    let version = blob.version().map(|version| version.text);
    let metadata = blob.metadata().unwrap_or(walked);
    version_of(version.as_deref(), (metadata, blob.stamp()), blob.length())
}

/// The content of a file that is still to be sealed.
fn planned(size: u64) -> Content {
    let layout = Layout::for_plaintext(&Cobblestone::GEOMETRY, size);
    let length = layout.map_or(0, |layout| layout.sealed_length());
    Content { length, generation: 1, ..no_content(size) }
}

/// Writes rows as blocks, each behind its length in bytes (32 bits, little endian).
#[derive(Default)]
pub(super) struct RowWriter {
    block: BlockWriter,
    bytes: Vec<u8>,
}

impl RowWriter {
    /// Adds a row. They come in order.
    pub(super) fn push(&mut self, row: &Row) -> Result<(), FileError> {
        let failed = |error: index::IndexError| refused(error.to_string());
        if !self.block.push(&row.directory, &row.entry).map_err(failed)? {
            self.end_block();
            self.block.push(&row.directory, &row.entry).map_err(failed)?;
        }
        Ok(())
    }

    /// The bytes of all blocks that are full, which are given out only once.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// The bytes that were not given out.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.end_block();
        self.bytes
    }

    fn end_block(&mut self) {
        if self.block.first().is_some() {
            let block = std::mem::take(&mut self.block).finish(None);
            self.bytes.extend((block.len() as u32).to_le_bytes());
            self.bytes.extend(block);
        }
    }
}

/// Reads what a [`RowWriter`] has written.
pub(super) struct RowReader<R> {
    source: R,
    rows: std::vec::IntoIter<(Arc<[u8]>, index::Entry)>,
}

impl<R: Read> RowReader<R> {
    pub(super) fn new(source: R) -> RowReader<R> {
        RowReader { source, rows: Vec::new().into_iter() }
    }

    /// The next row; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Row>, FileError> {
        loop {
            if let Some((directory, entry)) = self.rows.next() {
                return Ok(Some(Row { directory, entry }));
            }
            let mut length = [0; 4];
            match self.source.read(&mut length[..1]) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) => return Err(unread(&error)),
            }
            self.source.read_exact(&mut length[1..]).map_err(|error| unread(&error))?;
            let length = u64::from(u32::from_le_bytes(length));
            let mut bytes = Vec::new();
            let read = self.source.by_ref().take(length).read_to_end(&mut bytes);
            if read.map_err(|error| unread(&error))? as u64 != length {
                return Err(refused("the rows of the job are cut"));
            }
            let block = Block::parse(&bytes).map_err(|error| refused(error.to_string()))?;
            self.rows = block.entries.into_iter();
        }
    }
}

fn unread(error: &std::io::Error) -> FileError {
    Fault::Failed(format!("can't read the rows of the job: {error}")).into()
}

/// The attribute that holds a file's version in rows.
const VERSION: &[u8] = b"version";
