//! Seals the files of a source under random names.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;
use evener_format::Layout;
use evener_format::index::{
    self, Commitment, Content, EntryPath, Padding, StorageName, commitment_of,
};
use evener_pipeline::Worker;

use super::assembler::{Assembler, Line, Slot};
use super::blob::SealedBlob;
use super::depot::{Depot, name_of, refused};
use super::hash::{Part, TreeHash};
use super::index_writer::Names;
use super::job::{Made, ShardFiles};
use super::origin::Recipes;
use super::own::Own;
use super::plain::MOST_AHEAD;
use super::snapshot::Snapshot;
use crate::Fault;
use crate::place::{
    Assembly, Entry, MOST_REPEATS, Metadata, NewObject, Origin, Reading, Store, may_repeat,
    write_to,
};
use crate::random_access::RandomAccess;
use crate::record::Record;
use crate::{Control, FileError, KeyRing};
use evener_seal::{Blob, Done, Draft, Objects, Opened, Room, SegmentError, Workspace, zeros};

/// The sealing of files, shared by all workers.
pub(super) struct Sealing<'a> {
    pub(super) origin: &'a dyn Origin,
    pub(super) store: &'a dyn Store,
    pub(super) depot: Depot<'a>,
    pub(super) keys: &'a KeyRing,
    pub(super) own: &'a Own,
    pub(super) generation: u64,
    pub(super) padding: Option<Padding>,
    pub(super) has_hashes: bool,
    pub(super) skip_changing: bool,
    pub(super) names: Mutex<Names>,
    pub(super) assembler: &'a Assembler<'a>,
    /// The generation before, if its content can be read.
    pub(super) before: Option<&'a Snapshot<'a>>,
    pub(super) recipes: Recipes,
    pub(super) control: &'a Control,
    pub(super) record: &'a Record<'a>,
    /// The shard of a job that is sealed.
    pub(super) shard: Option<&'a ShardFiles<'a>>,
}

/// A file to be sealed.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) entry: Arc<Entry>,
    pub(super) path: EntryPath,
    pub(super) slot: Slot,
    /// Its entry in the generation before.
    pub(super) before: Option<Arc<Line>>,
    /// The number of times that it has changed while it was read.
    pub(super) changes: u32,
}

impl Sealing<'_> {
    /// Returns whether a file has the content that the generation before has of it.
    fn is_same(
        &self,
        item: &Item,
        source: &Reading,
        worker: &Worker<'_>,
    ) -> Result<bool, FileError> {
        let (Some(snapshot), Some(before)) = (self.before, &item.before) else { return Ok(false) };
        let index::Kind::File(content) = &before.entry.kind else { return Ok(false) };
        if content.size != source.length() {
            return Ok(false);
        }
        let Some(engine) = snapshot
            .depot
            .run
            .seats
            .iter()
            .find(|engine| engine.description().name == worker.engine().description().name)
        else {
            return Ok(false);
        };
        // One that can't be read is sealed again.
        let opened = self.recipes.of(snapshot, content).and_then(|recipe| {
            let (blob, _) = SealedBlob::open(snapshot, *content, Some(recipe), &mut [])?;
            let blob = blob.read_ahead(snapshot, MOST_AHEAD);
            RandomAccess::of(Box::new(blob), self.keys, engine.clone())
        });
        let Ok(opened) = opened else { return Ok(false) };
        let length = COMPARED_AT_ONCE.min(content.size.max(1));
        let (mut plain, mut there) = (zeros(length)?, zeros(length)?);
        let mut at = 0;
        while at < content.size {
            let length = length.min(content.size - at) as usize;
            evener_seal::ReadAt::read_exact_at(source, &mut plain[..length], at)?;
            let read = opened.read_at(&mut there[..length], at);
            if read != Ok(length) || plain[..length] != there[..length] || self.control.is_stopped()
            {
                return Ok(false);
            }
            at += length as u64;
        }
        Ok(true)
    }

    /// The length of the plaintext of a file whose content has `length` bytes.
    fn padded_length(&self, length: u64, name: Option<StorageName>) -> u64 {
        let named = name.map_or(length, |name| length + name.bytes().len() as u64);
        self.padding.map_or(named, |padding| padding.length(named))
    }

    /// Gives a file the content that an earlier attempt at its shard has made.
    fn take_from_before(&self, item: &Item, source: &Reading, content: Content) {
        let metadata = source.0.metadata().unwrap_or(&item.entry.metadata);
        self.record.unchanged(|| item.entry.name.path().to_owned(), content.size);
        self.assembler.finish(item.slot, Some(self.line(item, metadata, content)));
    }

    /// The entry of a file with new content.
    fn line(&self, item: &Item, metadata: &Metadata, content: Content) -> Line {
        let entry = entry_of(&item.path, metadata, index::Kind::File(content));
        let (directory, stamp) = (item.path.directory.clone(), item.entry.stamp);
        Line { directory, entry, stamp, kept: None, before: None }
    }
}

/// An entry of an index, of a kind and with the metadata of a source.
pub(super) fn entry_of(path: &EntryPath, metadata: &Metadata, kind: index::Kind) -> index::Entry {
    use std::os::unix::ffi::OsStrExt;
    let mut attributes: Vec<index::Attribute> = metadata
        .xattrs
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.clone()))
        .collect();
    attributes.sort();
    let modified = metadata.modified_since_1970();
    index::Entry {
        name: path.name.clone(),
        kind,
        mode: metadata.mode,
        modified: modified.map(|(seconds, nanoseconds)| (seconds, nanoseconds as u32)),
        owner: metadata.owner,
        attributes,
    }
}

/// The content of a file that is not sealed, of which only the size means something.
pub(super) fn no_content(size: u64) -> Content {
    Content {
        size,
        name: StorageName::new([0; StorageName::LENGTH]),
        offset: 0,
        length: 0,
        commitment: [0; 32],
        tag: [0; 16],
        key: Commitment([0; 32]),
        generation: 0,
        hash: None,
    }
}

/// A file of `data/` that is being written. Of one that has failed, only the reason is left.
pub(super) struct Writing {
    name: StorageName,
    /// The length of a file that is hashed, and its hash.
    hash: Option<(u64, Mutex<TreeHash>)>,
    state: Mutex<Result<Captured, Fault>>,
}

struct Captured {
    assembly: Assembly,
    /// The end of what was written so far, and its last bytes.
    end: u64,
    tag: [u8; 16],
}

impl Captured {
    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), Fault> {
        let end = offset + bytes.len() as u64;
        if let (true, Some(tag)) = (end > self.end, bytes.last_chunk()) {
            (self.end, self.tag) = (end, *tag);
        }
        self.assembly.write_at(bytes, offset)
    }
}

impl Draft for Writing {
    fn made(&self, bytes: &[u8], offset: u64) {
        if let Some((length, hash)) = &self.hash {
            // Before the lock: several workers hash at once.
            let part = Part::of(bytes, offset, *length);
            hash.lock().ignore_poison().take(part);
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        write_to(&self.state, |captured| captured.write(bytes, offset))
    }
}

/// A source, with padding behind it up to the length that is sealed: zeros, and at the end the name
/// of the file, if that is to show for which one it was made.
pub(super) struct Padded {
    source: Reading,
    length: u64,
    name: Option<StorageName>,
}

impl evener_seal::ReadAt for Padded {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
        let plain = self.source.length().saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (plain, padding) = buffer.split_at_mut(plain);
        padding.fill(0);
        if let Some(name) = &self.name {
            let begin = self.length - name.bytes().len() as u64;
            let at = offset + plain.len() as u64;
            for (byte, place) in name.bytes().iter().zip(begin..) {
                let index = place.checked_sub(at).and_then(|index| usize::try_from(index).ok());
                index
                    .and_then(|index| padding.get_mut(index))
                    .into_iter()
                    .for_each(|it| *it = *byte);
            }
        }
        if plain.is_empty() {
            return Ok(());
        }
        self.source.read_exact_at(plain, offset)
    }
}

impl Blob for Padded {
    fn length(&self) -> u64 {
        self.length
    }
}

impl Objects for Sealing<'_> {
    type Group = ();
    type Item = Item;
    type Blob = Padded;
    type Draft = Writing;

    fn is_same((): &(), (): &()) -> bool {
        true
    }

    fn open(
        &self,
        (): &(),
        item: &Item,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<Opened<Padded>, SegmentError> {
        // The first bytes of a long file are read with its first segment.
        let room_for = room.input.len() as u64;
        let is_long = item.entry.length.is_some_and(|length| length > room_for);
        let first: &mut [u8] = if is_long { &mut [] } else { &mut *room.input };
        let (blob, read) = self.origin.open(&item.entry.name, first).map_err(FileError::from)?;
        let source = Reading(blob);
        let length = source.length();
        let read = read.min(usize::try_from(length).unwrap_or(usize::MAX));
        if self.is_same(item, &source, worker)? && source.0.check().is_ok() {
            let before = item.before.as_ref().map(|line| line.entry.kind.clone());
            if let Some(index::Kind::File(content)) = before {
                let metadata = source.0.metadata().unwrap_or(&item.entry.metadata);
                self.assembler.finish(item.slot, Some(self.line(item, metadata, content)));
                self.record.unchanged(|| item.entry.name.path().to_owned(), length);
                return Ok(Opened::Finished);
            }
        }
        let name = self.shard.map(|shard| shard.name(item, &source)).transpose()?.flatten();
        let padded = self.padded_length(length, name);
        if let (Some(shard), Some(name)) = (self.shard, name)
            && shard.may_be_there()
            && let Some(content) = shard.find(self, item, &source, (name, padded), worker)?
        {
            self.take_from_before(item, &source, content);
            return Ok(Opened::Finished);
        }
        if length > room_for {
            source.0.will_read_all();
        }
        Ok(Opened::Blob(Padded { source, length: padded, name }, read))
    }

    fn begin(&self, (): &(), _: &Item, source: &Padded) -> Result<Option<Writing>, FileError> {
        self.own.publish(&self.depot)?;
        let name = match (source.name, self.shard) {
            (Some(name), _) => name,
            (None, Some(shard)) => shard.unused_name()?,
            (None, None) => self.names.lock().ignore_poison().next()?,
        };
        let geometry = self.keys.primary().geometry();
        let longest = Layout::for_plaintext(&geometry, source.length)?.sealed_length();
        let (place, metadata) = (name_of(name), Metadata::default());
        let object = NewObject { longest, ..NewObject::new(&place, &metadata) };
        let part = self.store.abilities().part();
        let draft = match self.store.begin(&object) {
            // Another attempt has made the file meanwhile; `finish` takes that one.
            Err(Fault::Exists(_)) if source.name.is_some() => return Ok(None),
            begun => begun?,
        };
        let assembly = Assembly::new(draft, part, longest)?;
        let captured = Captured { assembly, end: 0, tag: [0; 16] };
        let hash = self.has_hashes.then(|| (longest, Mutex::new(TreeHash::new(longest))));
        Ok(Some(Writing { name, hash, state: Mutex::new(Ok(captured)) }))
    }

    fn finish(
        &self,
        done: Done<'_, Self>,
        output: Option<Writing>,
        _: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError> {
        let Done { item, blob, length, header, .. } = done;
        let source = &blob.source;
        let changed = source.0.check().err();
        match &changed {
            Some(Fault::Changed) if item.changes == MOST_REPEATS && !self.skip_changing => {}
            Some(fault) => return Err(fault.clone().into()),
            None => {}
        }
        let commitment = header.and_then(|header| commitment_of(header.bytes()));
        let there = match (&output, self.shard, blob.name) {
            (None, Some(shard), Some(name)) => {
                shard.find(self, item, source, (name, blob.length), worker)?
            }
            _ => None,
        };
        if let Some(there) = there {
            self.take_from_before(item, source, there);
            return Ok(());
        }
        let (Some(Writing { name, hash, state }), Some(commitment)) = (output, commitment) else {
            return Err(Fault::Failed("nothing was written".to_owned()).into());
        };
        let Captured { assembly, tag, .. } = state.into_inner().ignore_poison()?;
        let hash = match hash {
            None => None,
            Some((_, hash)) => {
                let hash = hash.into_inner().ignore_poison().finish();
                Some(hash.ok_or(Fault::Failed(NOT_HASHED.to_owned()))?)
            }
        };
        let version = match (assembly.publish(length), self.shard, blob.name) {
            (Err(Fault::Exists(_)), Some(shard), Some(name)) => {
                let there = shard.find(self, item, source, (name, blob.length), worker)?;
                let there = there.ok_or_else(|| Fault::Failed(GONE_AGAIN.to_owned()))?;
                self.take_from_before(item, source, there);
                return Ok(());
            }
            (published, ..) => published?,
        };
        if let Some(shard) = self.shard {
            shard.made(item, source, Made { name, length, version });
        }
        let content = Content {
            size: source.length(),
            name,
            offset: 0,
            length,
            commitment,
            tag,
            key: self.own.keys.commitment(),
            generation: self.generation,
            hash,
        };
        let metadata = source.0.metadata().unwrap_or(&item.entry.metadata);
        let mut line = self.line(item, metadata, content);
        let path = || item.entry.name.path().to_owned();
        self.record.done(path, source.length(), length, item.before.is_some());
        if changed.is_some() {
            line.stamp = None;
            self.record.stored_changing(item.entry.name.path());
        }
        if item.before.as_ref().is_some_and(|it| matches!(it.entry.kind, index::Kind::File(_))) {
            self.assembler.replaced(&item.path);
        }
        self.assembler.finish(item.slot, Some(line));
        worker.count_units(1);
        Ok(())
    }

    fn again(&self, item: &Item, error: &FileError) -> Option<Item> {
        may_repeat(error, item.changes, self.control)
            .then(|| Item { changes: item.changes + 1, ..item.clone() })
    }

    fn failed(&self, (): &(), item: &Item, error: FileError) {
        // Its entry stays as it was.
        self.assembler.fail(item.slot, &item.path, item.before.as_deref().cloned());
        match error {
            FileError::Place(Fault::Missing(name))
                if self.shard.is_some() && name == item.entry.name =>
            {
                match self.shard.is_some_and(|shard| shard.leaves_out(item)) {
                    true => self.record.left_out_file(item.entry.name.path(), IS_GONE),
                    false => self.record.failed_file(item.entry.name.path(), refused(IS_GONE)),
                }
            }
            // Every other file would fail in the same way.
            FileError::Place(Fault::Closed(_)) => self.assembler.give_up(error),
            error => self.record.failed_file(item.entry.name.path(), error),
        }
    }

    fn path((): &(), item: &Item) -> PathBuf {
        item.entry.name.path().to_owned()
    }
}

const IS_GONE: &str = "it was there when the job was planned, and is gone, or is no file any more";

const GONE_AGAIN: &str = "another attempt had made its file, which is gone again";

const NOT_HASHED: &str = "not all of it was hashed";

const COMPARED_AT_ONCE: u64 = 1 << 20;
