//! A generation of a sealed tree as its plaintext.

use std::sync::Arc;

use evener_core::Engine;

use super::depot::refused;
use super::origin::Sealed;
use super::reader::any_ring;
use super::snapshot::Snapshot;
use super::wanted::Wanted;
use crate::place::{Abilities, Blob, Entry, Origin};
use crate::random_access::RandomAccess;
use crate::{Fault, FileError, KeyRing, Name, RunSettings};

/// A generation of a sealed tree, decrypted as it is read.
pub(super) struct Plain<'a> {
    sealed: Sealed<'a>,
    ring: KeyRing,
    engine: Arc<dyn Engine>,
}

impl<'a> Plain<'a> {
    pub(super) fn new(snapshot: &'a Snapshot<'a>) -> Result<Plain<'a>, FileError> {
        Ok(Plain {
            sealed: Sealed::new(snapshot, Wanted::default()),
            ring: any_ring(snapshot)?,
            engine: engine(snapshot.depot.run)?,
        })
    }
}

fn engine(run: &RunSettings) -> Result<Arc<dyn Engine>, FileError> {
    let engine = run.reference.as_ref().or_else(|| run.seats.first());
    engine.cloned().ok_or_else(|| refused("no engine was selected"))
}

impl Origin for Plain<'_> {
    fn abilities(&self) -> Abilities {
        self.sealed.abilities().sorted()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        let plain = |entry: Entry| Entry { length: self.sealed.plain_length(&entry.name), ..entry };
        Box::new(self.sealed.walk().map(move |entry| entry.map(plain)))
    }

    fn open(&self, name: &Name, _: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let (blob, _) = self.sealed.open_part(name, &mut [])?;
        blob.check_whole()?;
        let blob = blob.read_ahead(self.sealed.snapshot(), MOST_AHEAD);
        let opened = RandomAccess::of(Box::new(blob), &self.ring, self.engine.clone());
        Ok((Box::new(Opened(opened.map_err(fault)?)), 0))
    }
}

/// An open file.
struct Opened(RandomAccess);

impl Blob for Opened {
    fn length(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        match self.0.read_at(buffer, at).map_err(fault)? {
            read if read == buffer.len() => Ok(()),
            _ => Err(Fault::Changed),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// The most bytes to read ahead: each worker has a file.
pub(super) const MOST_AHEAD: usize = 1 << 20;

fn fault(error: FileError) -> Fault {
    match error {
        FileError::Place(fault) => fault,
        error => Fault::Failed(error.to_string()),
    }
}
