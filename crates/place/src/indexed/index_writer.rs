//! Writes an index: entries in order become blocks, blocks nodes.

use std::collections::HashMap;
use std::sync::Arc;

use evener_format::index::{
    BlockWriter, Border, Entry, EntryPath, JobNames, Kind, NodeWriter, Padding, Purpose, Reference,
    StorageName,
};
use sha2::{Digest, Sha256};

use super::assembler::Line;
use super::depot::{Created, Depot, refused};
use super::own::Own;
use super::state::{Stamps, StateWriter};
use crate::FileError;
use crate::place::Stamp;

/// How the index of a generation is written.
pub(super) struct IndexSettings<'a> {
    pub(super) depot: Depot<'a>,
    pub(super) own: &'a Own,
    pub(super) generation: u64,
    pub(super) border: Border,
    pub(super) padding: Option<Padding>,
    /// True to write nothing.
    pub(super) dry_run: bool,
    /// Names for a part of an index, of which only blocks are written.
    pub(super) part: Option<&'a JobNames>,
}

/// Writes an index.
pub(super) struct IndexWriter<'a> {
    settings: IndexSettings<'a>,
    names: Names,
    block: BlockWriter,
    stamps: Stamps,
    node: NodeWriter,
    /// Blocks and nodes of the generation before, by the SHA-256 of their plaintext.
    known: HashMap<[u8; 32], Reference>,
    /// The nodes of the newest generation.
    nodes_before: Vec<StorageName>,
    state: Option<StateWriter>,
    last: Option<EntryPath>,
    done: IndexDone,
}

/// A written index.
#[derive(Default)]
pub(super) struct IndexDone {
    /// The nodes; of a part of an index its blocks.
    pub(super) nodes: Vec<Reference>,
    /// The versions of a part's blocks, where the place tells them.
    pub(super) versions: Vec<Option<String>>,
    pub(super) entries: u64,
    /// The bytes of all files' content.
    pub(super) bytes: u64,
    /// True if it is that of the newest generation.
    pub(super) is_same: bool,
    /// The number of blocks and nodes that are new, and their bytes.
    pub(super) written: u64,
    pub(super) bytes_written: u64,
    pub(super) state: Option<StateWriter>,
}

impl<'a> IndexWriter<'a> {
    pub(super) fn new(settings: IndexSettings<'a>, state: Option<StateWriter>) -> IndexWriter<'a> {
        IndexWriter {
            settings,
            names: Names::default(),
            block: BlockWriter::default(),
            stamps: Stamps::default(),
            node: NodeWriter::default(),
            known: HashMap::new(),
            nodes_before: Vec::new(),
            state,
            last: None,
            done: IndexDone::default(),
        }
    }

    /// Notes a block or node of the generation before.
    pub(super) fn know(&mut self, plain: [u8; 32], reference: &Reference) {
        self.known.insert(plain, reference.clone());
    }

    /// Notes a node of the newest generation. They come in order.
    pub(super) fn know_node(&mut self, reference: &Reference) {
        self.nodes_before.push(reference.name);
    }

    /// Adds an entry. They come in order.
    pub(super) fn push(
        &mut self,
        directory: &Arc<[u8]>,
        entry: &Entry,
        stamp: Option<&Stamp>,
    ) -> Result<(), FileError> {
        let path = EntryPath { directory: directory.clone(), name: entry.name.clone() };
        if self.last.as_ref().is_some_and(|last| *last >= path) {
            return Err(refused("the source does not walk in order"));
        }
        if self.settings.dry_run {
            return Ok(());
        }
        let limit = |error: evener_format::index::IndexError| refused(error.to_string());
        if self.block.first().is_some() && self.settings.border.begins_block(&path) {
            self.end_block()?;
        }
        if !self.block.push(directory, entry).map_err(limit)? {
            self.end_block()?;
            self.block.push(directory, entry).map_err(limit)?;
        }
        self.stamps.push(stamp);
        self.last = Some(path);
        self.done.entries += 1;
        if let Kind::File(content) = &entry.kind {
            self.done.bytes += content.size;
        }
        Ok(())
    }

    /// Notes a file that was sealed for this generation, before its entry comes.
    pub(super) fn note(&mut self, line: &Line) -> Result<(), FileError> {
        let (Kind::File(content), Some(state)) = (&line.entry.kind, &mut self.state) else {
            return Ok(());
        };
        if content.generation != self.settings.generation {
            return Ok(());
        }
        let (last, open) = (self.last.as_ref(), self.block.first());
        let is_in_block = |path: &EntryPath| {
            last.is_some_and(|last| path <= last) && open.is_none_or(|first| path < first)
        };
        state.note(line, is_in_block)
    }

    /// Ends the index.
    pub(super) fn finish(mut self) -> Result<IndexDone, FileError> {
        self.end_block()?;
        self.end_node()?;
        let nodes = self.done.nodes.iter().map(|node| node.name);
        let is_same = nodes.eq(self.nodes_before.iter().copied());
        Ok(IndexDone { state: self.state, is_same, ..self.done })
    }

    fn end_block(&mut self) -> Result<(), FileError> {
        let Some(first) = self.block.first().cloned() else { return Ok(()) };
        let plain = std::mem::take(&mut self.block).finish(self.settings.padding);
        let reference = self.store(Purpose::Block, first, &plain)?;
        let stamps = std::mem::take(&mut self.stamps);
        if let Some(state) = &mut self.state {
            state.block(&reference, &plain, &stamps)?;
        }
        if self.settings.part.is_some() {
            self.done.nodes.push(reference);
            return Ok(());
        }
        self.add_block(&reference)
    }

    /// Adds a block that was written elsewhere, with so many entries and bytes of content. They come
    /// in order.
    pub(super) fn push_block(
        &mut self,
        reference: &Reference,
        (entries, bytes): (u64, u64),
    ) -> Result<(), FileError> {
        self.done.entries += entries;
        self.done.bytes += bytes;
        self.add_block(reference)
    }

    fn add_block(&mut self, reference: &Reference) -> Result<(), FileError> {
        let begins = self.settings.border.begins_node(&reference.first);
        if begins && self.node.first().is_some() {
            self.end_node()?;
        }
        if !self.node.push(reference) {
            self.end_node()?;
            self.node.push(reference);
        }
        Ok(())
    }

    fn end_node(&mut self) -> Result<(), FileError> {
        let Some(first) = self.node.first().cloned() else { return Ok(()) };
        let plain = std::mem::take(&mut self.node).finish(self.settings.padding);
        let reference = self.store(Purpose::Node, first, &plain)?;
        if let Some(state) = &mut self.state {
            state.node(&reference, &plain)?;
        }
        self.done.nodes.push(reference);
        Ok(())
    }

    /// Stores a block or node, unless the generation before has it.
    fn store(
        &mut self,
        purpose: Purpose,
        first: EntryPath,
        plain: &[u8],
    ) -> Result<Reference, FileError> {
        if let Some(known) = self.known.get::<[u8; 32]>(&Sha256::digest(plain).into()) {
            return Ok(known.clone());
        }
        let IndexSettings { depot, own, generation, .. } = &self.settings;
        own.publish(depot)?;
        let keys = &own.keys;
        let sealed = depot.seal(keys.recipe(purpose, *generation)?, plain)?;
        let name = match self.settings.part {
            Some(names) => names.unused()?,
            None => self.names.next()?,
        };
        let (created, version) = depot.create_with_version(&name.path(), &sealed)?;
        if created == Created::Taken {
            return Err(refused(format!("`{name}` is there already")));
        }
        if self.settings.part.is_some() {
            self.done.versions.push(version);
        }
        self.done.written += 1;
        self.done.bytes_written += sealed.len() as u64;
        Ok(Reference {
            first,
            name,
            length: sealed.len() as u64,
            digest: Sha256::digest(&sealed).into(),
            key: keys.commitment(),
            generation: *generation,
        })
    }
}

/// Makes names for `data/`. Some files in a row share a directory.
#[derive(Default)]
pub(super) struct Names {
    directory: u8,
    /// Random bytes, of which each name takes the last ones.
    random: Vec<u8>,
}

impl Names {
    pub(super) fn next(&mut self) -> Result<StorageName, FileError> {
        let mut name = [0; StorageName::LENGTH];
        let random = name.len() - 1;
        if self.random.len() < random {
            self.random.resize(1 + NAMES_IN_A_ROW * random, 0);
            getrandom::fill(&mut self.random).map_err(|error| refused(error.to_string()))?;
            self.directory = self.random.swap_remove(0);
        }
        name[0] = self.directory;
        let rest = self.random.len() - random;
        name[1..].copy_from_slice(&self.random[rest..]);
        self.random.truncate(rest);
        Ok(StorageName::new(name))
    }
}

const NAMES_IN_A_ROW: usize = 256;
