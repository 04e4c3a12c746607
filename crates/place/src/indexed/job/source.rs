//! The source of a shard.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::rows::Row;
use crate::place::{Abilities, Blob, Entry, Origin};
use crate::{Fault, Name};

/// The source of a job, of which only the rows of a shard are walked.
pub(super) struct Source<'a> {
    origin: &'a dyn Origin,
    /// The entries, and the versions of objects in the plan.
    rows: Vec<(Entry, Vec<u8>)>,
    /// True to take objects that are no files any more for gone ones.
    pub(super) skips_gone: bool,
    is_overtaken: AtomicBool,
}

impl<'a> Source<'a> {
    pub(super) fn new(origin: &'a dyn Origin, rows: Vec<Row>, skips_gone: bool) -> Source<'a> {
        let rows = rows.into_iter().map(Row::into_entry).collect();
        Source { origin, rows, skips_gone, is_overtaken: AtomicBool::new(false) }
    }

    /// The versions of the objects in the plan.
    pub(super) fn versions(&self) -> HashMap<Name, Vec<u8>> {
        let objects = self.rows.iter().filter(|(_, version)| !version.is_empty());
        objects.map(|(entry, version)| (entry.name.clone(), version.clone())).collect()
    }

    /// Ends the attempt with the next file that it begins: another one has done the shard.
    pub(super) fn overtake(&self) {
        self.is_overtaken.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_overtaken(&self) -> bool {
        self.is_overtaken.load(Ordering::Relaxed)
    }
}

impl Origin for Source<'_> {
    fn abilities(&self) -> Abilities {
        self.origin.abilities().sorted()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        Box::new(self.rows.iter().map(|(entry, _)| Ok(entry.clone())))
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        if self.is_overtaken() {
            // It ends the run.
            return Err(Fault::Closed("another attempt has done the shard".to_owned()));
        }
        self.origin.open(name, first).map_err(|fault| match fault {
            Fault::Refused(_) if self.skips_gone => Fault::Missing(name.clone()),
            fault => fault,
        })
    }

    fn path(&self) -> Option<&Path> {
        self.origin.path()
    }

    fn label(&self) -> PathBuf {
        self.origin.label()
    }
}
