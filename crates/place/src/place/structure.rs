//! The directories and links of a transfer. Directories and symbolic links are made during the
//! walk; hard links, and the times of directories, need everything else.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use evener_core::shown;

use super::transfer::{Item, Transfer};
use super::{Entry, Fault, Kind, Metadata, Name, NewObject, Store, Tree};
use crate::tree::{is_same_time, notice_of_apart};
use crate::{FileError, Operation, Report, TransferOptions};

/// The directories and links that a walk has found so far.
#[derive(Default)]
pub(super) struct Structure {
    /// The directories, and whether this run has made each in the store.
    directories: Vec<(Entry, bool)>,
    /// The paths of those that hold something, for a store that has no empty ones.
    filled: Option<HashSet<PathBuf>>,
    symlinks: u64,
    /// Further names of objects, each with the output of the first.
    links: Vec<(Item, Link)>,
    /// The name that stands for an object's first name, where that one is left out.
    instead: HashMap<Name, Name>,
    /// Further names that are objects of their own, because the store has no links.
    apart: usize,
    has_metadata: bool,
}

/// The first name of a linked object, and its output's.
struct Link {
    first: Name,
    output: Name,
}

impl Structure {
    /// Notes that the directory of an entry holds something.
    fn fill(&mut self, entry: &Path) {
        if let (Some(filled), Some(above)) = (&mut self.filled, entry.parent())
            && !filled.contains(above)
        {
            filled.insert(above.to_owned());
        }
    }
}

impl Transfer<'_> {
    /// Nothing was found yet.
    pub(super) fn structure(&self) -> Structure {
        let filled = self.store.is_some_and(|store| store.tree().is_none()).then(HashSet::new);
        Structure { filled, ..Structure::default() }
    }

    /// Makes the counterpart of a directory or a link. Returns the item to do if the entry is an
    /// object.
    pub(super) fn sort(&self, entry: Entry, structure: &mut Structure) -> Option<Item> {
        let path = entry.name.path();
        structure.fill(path);
        let is_taken = match entry.kind {
            // These have names with the suffix.
            Kind::Object | Kind::HardLink(_) => true,
            Kind::Directory => self.takes_directory(path),
            Kind::SymbolicLink(_) | Kind::LeftOut(_) => self.takes(path),
        };
        if !is_taken {
            return None;
        }
        structure.has_metadata |= entry.metadata != Metadata::default();
        match &entry.kind {
            Kind::LeftOut(reason) => self.record.left_out(path, reason),
            Kind::Directory => self.make_directory(entry, structure),
            Kind::SymbolicLink(target) => match self.make_symlink(&entry, target) {
                Ok(()) => structure.symlinks += 1,
                Err(fault) => self.record.failed(path, fault.into()),
            },
            Kind::Object | Kind::HardLink(_) => {
                let item = self.item(entry)?;
                return match &item.entry.kind {
                    Kind::HardLink(first) => self.sort_link(first.clone(), item, structure),
                    _ => Some(item),
                };
            }
        }
        None
    }

    /// Keeps a further name of an object for the end, unless it is to be done as an object.
    fn sort_link(&self, first: Name, item: Item, structure: &mut Structure) -> Option<Item> {
        if self.store.is_some_and(|store| store.tree().is_none()) {
            structure.apart += 1;
            return Some(item);
        }
        let stands = match self.output_of(&first) {
            Some(_) => first,
            None => structure.instead.entry(first).or_insert(item.entry.name.clone()).clone(),
        };
        if stands == item.entry.name {
            return Some(item);
        }
        let output = self.output_of(&stands)?;
        self.record.fed(1);
        structure.links.push((item, Link { first: stands, output }));
        None
    }

    fn make_directory(&self, entry: Entry, structure: &mut Structure) {
        let made = self.tree().map_or(Ok(false), |tree| tree.make_directory(&self.like(&entry)));
        match made {
            Ok(is_new) => structure.directories.push((entry, is_new)),
            Err(fault) => self.record.failed(entry.name.path(), fault.into()),
        }
    }

    fn make_symlink(&self, entry: &Entry, target: &Path) -> Result<(), Fault> {
        let Some(store) = self.store else { return Ok(()) };
        let tree = store.tree().ok_or_else(|| Fault::Refused(NO_SYMLINKS.to_owned()))?;
        let new = self.like(entry);
        let TransferOptions { resume, update, .. } = *self.options;
        if !resume && !update {
            return tree.symlink(&new, target);
        }
        let is_link = |kind: &Kind| matches!(kind, Kind::SymbolicLink(_));
        let is_other =
            |there: &Entry| there.kind != entry.kind && !(update && is_link(&there.kind));
        match store.look(&entry.name)?.filter(|there| !is_other(there)) {
            Some(there) if there.kind == entry.kind && has_time_of(&there, entry) => Ok(()),
            // The run was killed before it gave the link its time, or the link has changed.
            Some(_) => tree.symlink(&NewObject { replaces: true, ..new }, target),
            None => tree.symlink(&new, target),
        }
    }

    /// Makes the hard links, when all objects are done. Returns the names that can't be linked and
    /// are to be done as objects of their own.
    pub(super) fn make_links(&self, structure: &mut Structure, report: &mut Report) -> Vec<Item> {
        let (mut apart, mut reason) = (Vec::new(), NO_LINKS.to_owned());
        for (item, link) in std::mem::take(&mut structure.links) {
            match self.make_link(&item, &link) {
                Ok(()) => {
                    self.record.linked(|| item.entry.name.path().to_owned());
                    report.hard_links += 1;
                }
                // An earlier run may have stored it as an object.
                Err(FileError::Place(Fault::Exists(_))) if self.keeps_outputs() => {
                    apart.push(item);
                }
                Err(FileError::Place(Fault::Refused(why))) => {
                    reason = why;
                    structure.apart += 1;
                    apart.push(item);
                }
                Err(error) => self.record.failed_file(item.entry.name.path(), error),
            }
        }
        if structure.apart > 0 && self.store.is_some() {
            self.record.notice(Path::new(""), notice_of_apart(structure.apart, &reason));
        }
        apart
    }

    fn make_link(&self, item: &Item, link: &Link) -> Result<(), FileError> {
        if self.control.is_stopped() {
            return Err(FileError::Interrupted);
        }
        if self.record.has_failed(link.first.path()) {
            return Err(FileError::LinkedToFailed(shown(link.first.path()).to_string()));
        }
        if self.store.is_none() {
            return Ok(self.origin.open(&link.first, &mut []).map(drop)?);
        }
        let tree = self.tree().ok_or_else(|| Fault::Refused(NO_LINKS.to_owned()))?;
        let new = self.new_object(&item.output, &item.entry.metadata, 0);
        match tree.hard_link(&new, &link.output) {
            Err(Fault::Exists(_)) if self.is_copy(&item.output, &link.output)? => {
                Ok(tree.hard_link(&NewObject { replaces: true, ..new }, &link.output)?)
            }
            linked => Ok(linked?),
        }
    }

    /// To resume: returns whether an output looks like a copy of another: an earlier
    /// run may have found its source's names in another order.
    fn is_copy(&self, output: &Name, other: &Name) -> Result<bool, Fault> {
        let Some(store) = self.store.filter(|_| self.keeps_outputs()) else {
            return Ok(false);
        };
        let (Some(one), Some(other)) = (store.look(output)?, store.look(other)?) else {
            return Ok(false);
        };
        let has_time = one.metadata.modified.is_some();
        let (name, version) = (other.name.clone(), other.version.clone());
        Ok(has_time && Entry { name, version, stamp: other.stamp, ..one } == other)
    }

    /// Ends the directories, when everything in them is done, and tells what the store lacks.
    pub(super) fn settle(&self, structure: Structure, report: &mut Report) {
        report.directories = structure.directories.len() as u64;
        report.symlinks = structure.symlinks;
        let Some(store) = self.store.filter(|_| !self.control.is_stopped()) else { return };
        match store.tree() {
            // Those inside others come first.
            Some(tree) => structure.directories.iter().rev().for_each(|(entry, is_new)| {
                if *is_new || self.keeps_outputs() {
                    self.settle_directory(tree, entry, *is_new);
                }
            }),
            None => self.tell_of_empty(&structure),
        }
        if structure.has_metadata && !store.abilities().keeps_metadata() {
            self.record.notice(Path::new(""), NO_METADATA);
        }
        store.notices().into_iter().for_each(|it| self.record.notice(Path::new(""), it));
    }

    fn settle_directory(&self, tree: &dyn Tree, entry: &Entry, is_new: bool) {
        match tree.settle(&self.like(entry), is_new) {
            Ok(true) => {}
            Ok(false) => self.record.notice(entry.name.path(), KEPT),
            Err(fault) => self.record.failed(entry.name.path(), fault.into()),
        }
    }

    /// For a store without directories: those that hold something need not exist.
    fn tell_of_empty(&self, structure: &Structure) {
        for (Entry { name, .. }, _) in &structure.directories {
            let is_filled = structure.filled.as_ref().is_some_and(|it| it.contains(name.path()));
            if !is_filled && *name != Name::root() {
                self.record.failed(name.path(), Fault::Refused(NO_DIRECTORIES.to_owned()).into());
            }
        }
    }

    /// Returns whether outputs of an earlier run stay.
    fn keeps_outputs(&self) -> bool {
        self.options.resume || self.options.update
    }

    fn tree(&self) -> Option<&dyn Tree> {
        self.store.and_then(Store::tree)
    }

    /// The counterpart of a directory or a symbolic link, which has the same name.
    fn like<'e>(&self, entry: &'e Entry) -> NewObject<'e> {
        self.new_object(&entry.name, &entry.metadata, 0)
    }

    /// An entry to be made, with the metadata of its source.
    pub(super) fn new_object<'e>(
        &self,
        name: &'e Name,
        metadata: &'e Metadata,
        longest: u64,
    ) -> NewObject<'e> {
        let replaces = self.options.overwrite;
        let is_plain = self.operation != Operation::Encrypt;
        NewObject { name, metadata, replaces, is_plain, longest, version: None, changed: None }
    }
}

/// Returns whether an entry has the time of another, as far as both are known.
fn has_time_of(there: &Entry, source: &Entry) -> bool {
    let time = |entry: &Entry| entry.metadata.modified_since_1970();
    time(source).zip(time(there)).is_none_or(|(source, there)| is_same_time(source, there))
}

const NO_SYMLINKS: &str = "the place it would go to has no symbolic links, so it was not stored";
const NO_LINKS: &str = "the place has no hard links";
const NO_DIRECTORIES: &str =
    "it is empty, and the place it would go to has no directories, so it was not stored";
const NO_METADATA: &str = "the place keeps no modes, times and owners, so none were stored";
const KEPT: &str =
    "the directory was there before with another mode, owner or time, which it keeps";
