//! The files that an attempt at a shard makes, or finds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use evener_core::{Engine, IgnorePoison};
use evener_format::index::{Content, JobNames, StorageName, commitment_of};
use evener_format::{Cobblestone, Layout};
use evener_pipeline::Worker;

use super::super::depot::{Depot, name_of, refused};
use super::super::sealing::{Item, Sealing};
use super::receipt::Made;
use super::rows::version_of_blob;
use crate::place::{Blob, Reading};
use crate::random_access::RandomAccess;
use crate::{Fault, FileError, Name};

/// The files of an attempt at a shard.
pub(in crate::indexed) struct ShardFiles<'a> {
    pub(super) depot: Depot<'a>,
    pub(super) names: &'a JobNames,
    /// The versions of the objects in the plan.
    pub(super) versions: HashMap<Name, Vec<u8>>,
    /// True if no other attempt's file serves this one.
    pub(super) has_own_files: bool,
    /// True if an earlier attempt has begun, so files may be there.
    pub(super) may_be_there: bool,
    /// True to leave out objects that are gone.
    pub(super) skips_gone: bool,
    pub(super) found: Mutex<ShardFound>,
}

/// The findings of an attempt.
#[derive(Default)]
pub(super) struct ShardFound {
    pub(super) files: Vec<Made>,
    pub(super) already: u64,
    /// The paths of objects that are not as they were in the plan, and of those that are gone.
    pub(super) changed: Vec<Name>,
    pub(super) gone: Vec<Name>,
    /// Files that are there under the names of some of this shard's, and are none.
    pub(super) conflicts: u64,
}

impl ShardFiles<'_> {
    /// The name of the file for an object; `None` if each attempt takes an unused one.
    pub(in crate::indexed) fn name(
        &self,
        item: &Item,
        source: &Reading,
    ) -> Result<Option<StorageName>, FileError> {
        if self.has_own_files {
            return Ok(None);
        }
        let version = version_of_blob(&*source.0, &item.entry.metadata);
        Ok(Some(self.names.name(&item.path.whole(), &version)?))
    }

    pub(in crate::indexed) fn unused_name(&self) -> Result<StorageName, FileError> {
        Ok(self.names.unused()?)
    }

    /// Returns whether it is worth a request to look for files of earlier attempts.
    pub(in crate::indexed) fn may_be_there(&self) -> bool {
        self.may_be_there
    }

    /// Finds the file that an earlier attempt has made for an object. Its last chunk is authentic,
    /// which also holds for its length, and has the name that was meant; so nobody without the key
    /// can have put another file there.
    pub(in crate::indexed) fn find(
        &self,
        sealing: &Sealing<'_>,
        item: &Item,
        source: &Reading,
        (name, padded): (StorageName, u64),
        worker: &Worker<'_>,
    ) -> Result<Option<Content>, FileError> {
        let (blob, _) = match self.depot.origin.open(&name_of(name), &mut []) {
            Err(Fault::Missing(_)) => return Ok(None),
            Err(fault) => return Err(Fault::Failed(fault.to_string()).into()),
            Ok(opened) => opened,
        };
        let length = Layout::for_plaintext(&Cobblestone::GEOMETRY, padded)?.sealed_length();
        if blob.length() != length {
            return Err(self.conflict(name));
        }
        let version = blob.version().map(|version| version.text);
        let read = Arc::new(ReadOnce { blob, parts: Mutex::default() });
        let at = padded - StorageName::LENGTH as u64;
        let mut there = [0; StorageName::LENGTH];
        let opened = RandomAccess::of(Box::new(read.clone()), sealing.keys, self.engine(worker)?);
        match opened.and_then(|opened| opened.read_at(&mut there, at)) {
            Ok(read) if read == there.len() && there == *name.bytes() => {}
            Ok(_) | Err(FileError::Format(_) | FileError::Rejected { .. }) => {
                return Err(self.conflict(name));
            }
            Err(FileError::RejectedEnd { .. }) => return Err(self.conflict(name)),
            Err(FileError::Place(Fault::Missing(_))) => return Err(Fault::Changed.into()),
            Err(error) => return Err(error),
        }
        // The same bytes as were authenticated: the place might answer otherwise now.
        let mut tag = [0; 16];
        let header = read.part(0, Cobblestone::HEADER_LENGTH);
        let commitment = header.as_deref().and_then(commitment_of);
        let (Some(commitment), Some(last)) = (commitment, read.part(length - 16, tag.len())) else {
            return Err(self.conflict(name));
        };
        tag.copy_from_slice(&last);
        let content = Content {
            size: source.0.length(),
            name,
            offset: 0,
            length,
            commitment,
            tag,
            key: sealing.own.keys.commitment(),
            generation: sealing.generation,
            hash: None,
        };
        self.found.lock().ignore_poison().already += 1;
        self.made(item, source, Made { name, length, version });
        Ok(Some(content))
    }

    /// Notes a file that belongs to the shard.
    pub(in crate::indexed) fn made(&self, item: &Item, source: &Reading, made: Made) {
        let version = version_of_blob(&*source.0, &item.entry.metadata);
        let mut found = self.found.lock().ignore_poison();
        found.files.push(made);
        if self.versions.get(&item.entry.name) != Some(&version) {
            found.changed.push(item.entry.name.clone());
        }
    }

    /// Leaves out an object that is gone. Returns false if it is a failure.
    pub(in crate::indexed) fn leaves_out(&self, item: &Item) -> bool {
        if self.skips_gone {
            self.found.lock().ignore_poison().gone.push(item.entry.name.clone());
        }
        self.skips_gone
    }

    fn conflict(&self, name: StorageName) -> FileError {
        self.found.lock().ignore_poison().conflicts += 1;
        refused(format!(
            "its file {name} is there already and was not made by this job for it; remove that file \
             from the target if nothing else needs it, and run the shard again"
        ))
    }

    fn engine(&self, worker: &Worker<'_>) -> Result<Arc<dyn Engine>, FileError> {
        let seats = &self.depot.run.seats;
        let name = &worker.engine().description().name;
        let same = seats.iter().find(|engine| engine.description().name == *name);
        let engine = same.or(seats.first()).ok_or_else(|| refused("there is no engine"))?;
        Ok(engine.clone())
    }
}

/// A blob of which each byte is read only once, so that all who read it see the same. It is for
/// those who read little.
struct ReadOnce {
    blob: Box<dyn Blob>,
    /// The parts that were read, with their offsets.
    parts: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl ReadOnce {
    /// A part that was read, if it was read with one call.
    fn part(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        let parts = self.parts.lock().ignore_poison();
        parts.iter().find_map(|(start, bytes)| {
            let begin = usize::try_from(at.checked_sub(*start)?).ok()?;
            bytes.get(begin..begin.checked_add(length)?).map(<[u8]>::to_vec)
        })
    }
}

impl Blob for Arc<ReadOnce> {
    fn length(&self) -> u64 {
        self.blob.length()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        match self.part(at, buffer.len()) {
            Some(part) => buffer.copy_from_slice(&part),
            None => {
                self.blob.read_at(buffer, at)?;
                self.parts.lock().ignore_poison().push((at, buffer.to_vec()));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Fault> {
        self.blob.check()
    }
}
