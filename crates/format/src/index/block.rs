//! Blocks of entries.

use std::sync::Arc;

use super::cbor::{Reader, Writer};
use super::key_list::KeyList;
use super::path::check_directory;
use super::{
    Commitment, Entry, EntryPath, IndexError, MOST_BLOCK, MOST_ENTRIES, MOST_PATH, Padding,
    compare_directories,
};

/// The plaintext of a block: a CBOR sequence of the list of keys, then for each directory its path
/// and its entries, then null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The entries with their directories, in order. There is at least one.
    pub entries: Vec<(Arc<[u8]>, Entry)>,
    /// The keys that sealed their content.
    pub keys: Vec<Commitment>,
}

impl Block {
    /// Reads the plaintext of a block.
    ///
    /// # Errors
    /// [`IndexError::Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Block, IndexError> {
        let mut reader = Reader::new(bytes, MOST_BLOCK);
        let keys = KeyList::read(&mut reader, MOST_ENTRIES)?;
        let mut entries: Vec<(Arc<[u8]>, Entry)> = Vec::new();
        while !reader.null()? {
            let last = entries.last().map(|(directory, last)| (directory, &last.name[..]));
            let directory = match last {
                Some((directory, _)) if !reader.bytes_follow()? => directory.clone(),
                _ => read_directory(&mut reader, last.map(|(directory, _)| &directory[..]))?,
            };
            let entry = Entry::read(&mut reader, &directory, &keys)?;
            check_order(last, &directory, &entry)?;
            if entries.len() == MOST_ENTRIES {
                return Err(IndexError::Malformed("a block has too many entries"));
            }
            entries.push((directory, entry));
        }
        if entries.is_empty() {
            return Err(IndexError::Malformed("a block has no entry"));
        }
        reader.padding()?;
        Ok(Block { entries, keys: keys.into_keys() })
    }
}

/// Reads the path of a directory that comes behind another.
fn read_directory(reader: &mut Reader<'_>, last: Option<&[u8]>) -> Result<Arc<[u8]>, IndexError> {
    let directory = reader.bytes(MOST_PATH)?;
    check_directory(&directory)?;
    match last.is_none_or(|last| compare_directories(last, &directory).is_lt()) {
        true => Ok(directory.into()),
        false => Err(IndexError::Malformed("directories are out of order")),
    }
}

/// Checks that an entry comes behind another.
fn check_order(
    last: Option<(&Arc<[u8]>, &[u8])>,
    directory: &Arc<[u8]>,
    entry: &Entry,
) -> Result<(), IndexError> {
    let is_behind = last.is_none_or(|(before, name)| {
        compare_directories(before, directory).then_with(|| name.cmp(&entry.name)).is_lt()
    });
    match is_behind {
        true => Ok(()),
        false => Err(IndexError::Malformed("entries are out of order")),
    }
}

/// Puts a block together.
#[derive(Debug, Default)]
pub struct BlockWriter {
    keys: KeyList,
    body: Vec<u8>,
    first: Option<EntryPath>,
    last: Option<(Arc<[u8]>, Vec<u8>)>,
    entries: usize,
}

impl BlockWriter {
    /// Adds an entry. Entries come in order. Returns false if the block is full: then it must end
    /// before this entry.
    ///
    /// # Errors
    /// [`IndexError::Limit`] for an entry that fits no block, and [`IndexError::Malformed`] for one
    /// that no reader would take.
    pub fn push(&mut self, directory: &Arc<[u8]>, entry: &Entry) -> Result<bool, IndexError> {
        let last = self.last.as_ref().map(|(directory, name)| (directory, &name[..]));
        check_directory(directory)?;
        entry.check(directory)?;
        check_order(last, directory, entry)?;
        let (keys, length) = (self.keys.len(), self.body.len());
        let mut writer = Writer::new(&mut self.body);
        if last.is_none_or(|(last, _)| last != directory) {
            writer.bytes(directory);
        }
        entry.write(&mut writer, &mut self.keys);
        let is_long = self.keys.bytes() + self.body.len() + 1 > MOST_BLOCK;
        if is_long || self.entries == MOST_ENTRIES {
            self.body.truncate(length);
            self.keys.truncate(keys);
            return match self.entries {
                0 => Err(IndexError::Limit(
                    "its path, target and attributes take more than 512 KiB, which is too much for \
                     a sealed tree",
                )),
                _ => Ok(false),
            };
        }
        self.first.get_or_insert_with(|| EntryPath {
            directory: directory.clone(),
            name: entry.name.clone(),
        });
        self.last = Some((directory.clone(), entry.name.clone()));
        self.entries += 1;
        Ok(true)
    }

    /// The path of the first entry; `None` while there is none.
    pub fn first(&self) -> Option<&EntryPath> {
        self.first.as_ref()
    }

    /// The plaintext of the block, padded.
    pub fn finish(self, padding: Option<Padding>) -> Vec<u8> {
        self.keys.sequence(&self.body, padding)
    }
}
