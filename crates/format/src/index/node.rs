//! Nodes, and references to blocks and nodes.

use super::StorageName;
use super::cbor::{Reader, Writer};
use super::key_list::KeyList;
use super::path::{MOST_NAME, check_directory, is_name};
use super::{
    Commitment, EntryPath, IndexError, MOST_ENTRIES, MOST_FILE, MOST_NODE, MOST_PATH,
    MOST_REFERENCES, Padding,
};
use crate::{Cobblestone, Layout};

/// Names a block or a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The path of its first entry.
    pub first: EntryPath,
    /// The file in `data/`.
    pub name: StorageName,
    /// The file's length in bytes.
    pub length: u64,
    /// The SHA-256 of the file.
    pub digest: [u8; 32],
    /// The writer's key that sealed it.
    pub key: Commitment,
    /// The generation at which its writer aimed.
    pub generation: u64,
}

/// The plaintext of a node: a CBOR sequence of the list of keys, the references to blocks, and null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The references, in the order of their first paths. There is at least one.
    pub references: Vec<Reference>,
}

impl Node {
    /// The number of entries that the blocks of a node can hold.
    pub const MOST_ENTRIES: u64 = (MOST_REFERENCES * MOST_ENTRIES) as u64;

    /// Reads the plaintext of a node.
    ///
    /// # Errors
    /// [`IndexError::Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Node, IndexError> {
        let mut reader = Reader::new(bytes, MOST_NODE);
        let keys = KeyList::read(&mut reader, MOST_REFERENCES)?;
        let mut references: Vec<Reference> = Vec::new();
        while !reader.null()? {
            let reference = Reference::read(&mut reader, &keys)?;
            if references.len() == MOST_REFERENCES {
                return Err(IndexError::Malformed("a node has too many references"));
            }
            check_order(references.last(), &reference)?;
            references.push(reference);
        }
        if references.is_empty() {
            return Err(IndexError::Malformed("a node has no reference"));
        }
        reader.padding()?;
        Ok(Node { references })
    }
}

/// Checks that a reference comes behind another.
pub(super) fn check_order(last: Option<&Reference>, next: &Reference) -> Result<(), IndexError> {
    match last.is_none_or(|last| last.first < next.first) {
        true => Ok(()),
        false => Err(IndexError::Malformed("references are out of order")),
    }
}

impl Reference {
    pub(super) fn write(&self, writer: &mut Writer<'_>, keys: &mut KeyList) {
        writer.array(7);
        writer.bytes(&self.first.directory);
        writer.bytes(&self.first.name);
        writer.bytes(self.name.bytes());
        writer.number(self.length);
        writer.bytes(&self.digest);
        writer.number(keys.number(self.key));
        writer.number(self.generation);
    }

    pub(super) fn read(reader: &mut Reader<'_>, keys: &KeyList) -> Result<Reference, IndexError> {
        reader.array(7, 7)?;
        let directory = reader.bytes(MOST_PATH)?;
        check_directory(&directory)?;
        let first = EntryPath { directory: directory.into(), name: reader.bytes(MOST_NAME)? };
        let is_root = first.directory.is_empty() && first.name.is_empty();
        if !is_root && !is_name(&first.name) {
            return Err(IndexError::Malformed("a name is invalid"));
        }
        let reference = Reference {
            first,
            name: StorageName::new(reader.fixed()?),
            length: reader.number()?,
            digest: reader.fixed()?,
            key: keys.get(reader.number()?)?,
            generation: reader.generation()?,
        };
        let is_possible = reference.length <= MOST_FILE
            && Layout::for_sealed(&Cobblestone::GEOMETRY, reference.length).is_ok();
        match is_possible {
            true => Ok(reference),
            false => Err(IndexError::Malformed("a file of the index can't have this length")),
        }
    }
}

/// Puts a node together.
#[derive(Debug, Default)]
pub struct NodeWriter {
    keys: KeyList,
    body: Vec<u8>,
    first: Option<EntryPath>,
    references: usize,
}

impl NodeWriter {
    /// Adds a reference. They come in order. Returns false if the node is full: then it must end
    /// before this one.
    pub fn push(&mut self, reference: &Reference) -> bool {
        let (keys, length) = (self.keys.len(), self.body.len());
        reference.write(&mut Writer::new(&mut self.body), &mut self.keys);
        let is_long = self.keys.bytes() + self.body.len() + 1 > MOST_NODE;
        if self.references > 0 && (is_long || self.references == MOST_REFERENCES) {
            self.body.truncate(length);
            self.keys.truncate(keys);
            return false;
        }
        self.first.get_or_insert_with(|| reference.first.clone());
        self.references += 1;
        true
    }

    /// The path of the first entry; `None` while there is none.
    pub fn first(&self) -> Option<&EntryPath> {
        self.first.as_ref()
    }

    /// The plaintext of the node, padded.
    pub fn finish(self, padding: Option<Padding>) -> Vec<u8> {
        self.keys.sequence(&self.body, padding)
    }
}
