//! Walks a source and the generation before side by side.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use evener_format::index::{self, Entry as IndexEntry, EntryPath};

use super::ahead::{Batch, walk_ahead};
use super::assembler::{Assembler, Line, Slot};
use super::old::{Notes, Old, OldLine, modified};
use super::sealing::{Item, Sealing, entry_of};
use super::writer::SealedOptions;
use crate::place::{Entry, Kind, Origin, Stamp};
use crate::record::Record;
use crate::selection::Watch;
use crate::{Fault, Name, TransferOptions};
use evener_seal::Feed;

/// The findings of a walk.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) directories: u64,
    pub(super) symlinks: u64,
    pub(super) hard_links: u64,
    pub(super) gone: u64,
    pub(super) moved: u64,
}

/// A walk through the source.
pub(super) struct Merge<'a> {
    origin: &'a dyn Origin,
    notes: Notes<'a>,
    sealed: &'a SealedOptions,
    selection: Watch<'a>,
    found: Found,
    /// A time before the entries that come now were looked at.
    time: SystemTime,
    /// The directory of the last entry.
    directory: Arc<[u8]>,
    /// The name that stands for a file's first one, where that is left out.
    instead: HashMap<Name, Name>,
    tells_of_no_state: bool,
    /// True if the source can't change.
    is_fixed: bool,
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        origin: &'a dyn Origin,
        assembler: &'a Assembler<'a>,
        record: &'a Record<'a>,
        options: &'a TransferOptions,
        sealed: &'a SealedOptions,
        is_fixed: bool,
    ) -> Merge<'a> {
        Merge {
            origin,
            notes: Notes { assembler, record },
            sealed,
            selection: options.selection.watch(),
            found: Found::default(),
            time: SystemTime::UNIX_EPOCH,
            directory: [].into(),
            instead: HashMap::new(),
            tells_of_no_state: false,
            is_fixed,
        }
    }

    /// Feeds the files that have changed, and gives all other entries to the index.
    pub(super) fn walk(&mut self, old: &mut Old<'_>, feed: &Feed<'_, Sealing<'_>>) {
        let (origin, control) = (self.origin, self.notes.record.control());
        walk_ahead(origin, control, |batches| self.merge(batches, old, feed));
    }

    fn merge(
        &mut self,
        batches: &mut dyn Iterator<Item = Batch>,
        old: &mut Old<'_>,
        feed: &Feed<'_, Sealing<'_>>,
    ) {
        let (mut items, mut behind) = (Vec::new(), 0);
        while !self.is_over() {
            let Some(Batch { time, entries }) = batches.next() else { break };
            self.time = time;
            items.extend(self.heirs(self.notes.assembler.heirs(), old));
            behind += entries.len();
            for entry in entries {
                match entry {
                    Ok(entry) => items.extend(self.entry(entry, old)),
                    Err(Fault::Entry { name, reason }) => self.unread(&name, reason, old),
                    Err(fault) => self.notes.record.failed(Path::new(""), fault.into()),
                }
            }
            let is_far_behind = behind >= MOST_BEHIND;
            if items.len() >= BATCH || is_far_behind {
                self.feed(&mut items, feed);
            }
            if is_far_behind {
                feed.hold();
                behind = 0;
            }
        }
        self.feed_heirs(&mut items, old, feed);
        match self.is_over() {
            true => feed.stop(),
            false => self.feed(&mut items, feed),
        }
    }

    /// Waits until every further name is in the index, or has to be sealed itself.
    fn feed_heirs(
        &mut self,
        items: &mut Vec<Item>,
        old: &mut Old<'_>,
        feed: &Feed<'_, Sealing<'_>>,
    ) {
        if self.sealed.dry_run {
            return;
        }
        while !self.is_over() && !feed.is_stopped() && self.notes.assembler.has_links() {
            self.feed(items, feed);
            feed.hold();
            items.extend(self.heirs(self.notes.assembler.wait_for_heirs(), old));
        }
    }

    /// Returns further names to seal in place of first ones that could not be sealed.
    fn heirs(&mut self, heirs: Vec<(Slot, Line)>, old: &mut Old<'_>) -> Vec<Item> {
        let item = |(slot, line): (Slot, Line)| {
            let before = line.before.as_ref();
            let before = before.and_then(|it| old.kept(line.directory.clone(), (**it).clone()));
            let path = line.entry_path();
            let name = PathBuf::from(OsString::from_vec(path.whole()));
            let (entry, _) = super::origin::entry(name, line.entry);
            let entry = Arc::new(Entry { kind: Kind::Object, ..entry });
            Item { entry, path, slot, before: before.map(Arc::new), changes: 0 }
        };
        self.found.hard_links -= heirs.len() as u64;
        self.notes.record.fed(heirs.len() as u64);
        heirs.into_iter().map(item).collect()
    }

    /// Returns whether the run ends before the walk does.
    fn is_over(&self) -> bool {
        self.notes.record.control().is_stopped() || self.notes.assembler.has_failed()
    }

    fn feed(&self, items: &mut Vec<Item>, feed: &Feed<'_, Sealing<'_>>) {
        if items.is_empty() {
            return;
        }
        if self.sealed.dry_run {
            for item in items.drain(..) {
                let (path, is_update) = (item.entry.name.path().to_owned(), item.before.is_some());
                self.notes.record.done(|| path, item.entry.length.unwrap_or(0), 0, is_update);
                self.notes.assembler.finish(item.slot, None);
            }
            return;
        }
        feed.push((), std::mem::take(items));
    }

    /// Ends the walk: what the source no longer has is counted, and the selection reports.
    pub(super) fn end(mut self, old: &mut Old<'_>) -> Found {
        if !self.notes.record.control().is_stopped() {
            old.end(&self.notes);
            for path in self.notes.assembler.unkept() {
                self.notes.unkept(&path);
            }
            for reason in self.selection.notices(None) {
                self.notes.record.notice(Path::new(""), reason);
            }
            for (path, error) in self.selection.missing(None) {
                self.notes.record.failed(path, error);
            }
            if self.tells_of_no_state {
                self.notes.record.notice(Path::new(""), NO_STATE);
            }
        }
        self.found.gone = old.passed.number;
        self.found
    }

    /// An entry that can't be read stays as it was, with everything below it.
    fn unread(&mut self, name: &Name, reason: String, old: &mut Old<'_>) {
        self.notes.record.failed(name.path(), Fault::Failed(reason).into());
        let path = self.path(name);
        let before = old.find(&path, &self.notes);
        // A directory was returned before it was read.
        old.passed.unread.push(path.whole());
        if let Some(line) = before.and_then(|it| old.kept(path.directory.clone(), it.entry)) {
            self.notes.assembler.add(line);
        }
    }

    /// Takes an entry of the source. Returns the item to do if its content is to be sealed.
    fn entry(&mut self, entry: Entry, old: &mut Old<'_>) -> Option<Item> {
        let path = entry.name.path();
        let is_taken = match entry.kind {
            Kind::Directory => self.selection.enters(path),
            _ => self.selection.takes_below_root(path),
        };
        if !is_taken {
            return None;
        }
        let at = self.path(&entry.name);
        let kind = match &entry.kind {
            Kind::LeftOut(reason) => {
                self.notes.record.left_out(path, reason);
                return None;
            }
            Kind::Object => return self.object(entry, at, old),
            Kind::HardLink(first) => {
                let first = match self.selection.takes_below_root(first.path()) {
                    true => first.clone(),
                    false => self
                        .instead
                        .entry(first.clone())
                        .or_insert_with(|| entry.name.clone())
                        .clone(),
                };
                if first == entry.name {
                    return self.object(entry, at, old);
                }
                self.found.hard_links += 1;
                self.notes.record.fed(1);
                self.notes.record.linked(|| path.to_owned());
                index::Kind::Further(first.path().as_os_str().as_bytes().to_vec())
            }
            Kind::Directory => {
                self.found.directories += 1;
                index::Kind::Directory
            }
            Kind::SymbolicLink(target) => {
                self.found.symlinks += 1;
                index::Kind::Symlink(target.as_os_str().as_bytes().to_vec())
            }
        };
        let before = old.find(&at, &self.notes).map(|before| before.entry);
        let mut line = self.line(&at, entry_of(&at, &entry.metadata, kind), entry.stamp);
        match (before, &line.entry.kind) {
            (Some(before), index::Kind::Further(_)) => line.before = Some(Box::new(before)),
            (Some(before), _) => old.replaced(&at, &before),
            (None, _) => {}
        }
        self.notes.assembler.add(line);
        None
    }

    fn object(&mut self, mut entry: Entry, at: EntryPath, old: &mut Old<'_>) -> Option<Item> {
        self.notes.record.fed(1);
        if self.is_fixed {
            entry.stamp = old.source(&at, &self.notes);
        }
        let before = old.find(&at, &self.notes);
        let stopped = old.find_stopped(&at, &self.notes);
        let carried = match self.unchanged(&entry, before.as_ref(), old) {
            Some(content) => Some((content, before.as_ref())),
            None => stopped
                .as_ref()
                .and_then(|stopped| self.unchanged(&entry, Some(stopped), old))
                .map(|content| (content, stopped.as_ref())),
        };
        if let Some((content, line)) = carried {
            let kind = index::Kind::File(content);
            if let Some(before) = before.as_ref().filter(|before| before.entry.kind != kind) {
                old.replaced(&at, &before.entry);
            }
            let stamp = entry.stamp.filter(|stamp| self.is_settled(stamp));
            let mut carried = entry_of(&at, &entry.metadata, kind);
            if self.sealed.xattrs {
                self.add_attributes(&mut carried, &entry, line);
            }
            let line = self.line(&at, carried, stamp);
            let length = entry.length.unwrap_or(0);
            self.notes.record.unchanged(|| entry.name.path().to_owned(), length);
            self.notes.assembler.add(line);
            return None;
        }
        if let Some(before) = before.as_ref().filter(|before| old.is_moved(&before.entry)) {
            old.replaced(&at, &before.entry);
        }
        let before = before.and_then(|before| old.kept(at.directory.clone(), before.entry));
        let before = before.map(Arc::new);
        entry.stamp = entry.stamp.filter(|stamp| self.is_settled(stamp));
        let slot = self.notes.assembler.reserve();
        Some(Item { entry: Arc::new(entry), path: at, slot, before, changes: 0 })
    }

    /// Adds the extended attributes of a file that is not read. A change of them changes its stamp.
    fn add_attributes(&self, carried: &mut IndexEntry, source: &Entry, line: Option<&OldLine>) {
        let known = line.filter(|line| {
            line.has_attributes
                && line.stamp.flatten().is_some()
                && line.stamp == Some(source.stamp)
        });
        if let Some(known) = known {
            carried.attributes.clone_from(&known.entry.attributes);
            return;
        }
        match self.origin.open(&source.name, &mut []) {
            Ok((blob, _)) => {
                let metadata = blob.metadata().unwrap_or(&source.metadata);
                let kind = carried.kind.clone();
                let path =
                    EntryPath { directory: self.directory.clone(), name: carried.name.clone() };
                carried.attributes = entry_of(&path, metadata, kind).attributes;
            }
            Err(fault) => self.notes.record.failed(source.name.path(), fault.into()),
        }
    }

    /// The content of a file that has not changed.
    fn unchanged(
        &mut self,
        entry: &Entry,
        before: Option<&OldLine>,
        old: &mut Old<'_>,
    ) -> Option<index::Content> {
        if self.sealed.compares {
            return None;
        }
        let Some(before) = before else {
            let moved = old.moved(entry);
            self.found.moved += u64::from(moved.is_some());
            return moved;
        };
        let index::Kind::File(content) = &before.entry.kind else { return None };
        let is_same = Some(content.size) == entry.length
            && before.entry.modified.is_some()
            && before.entry.modified == modified(entry)
            && !old.moved.contains(&content.name);
        let is_known = match &before.stamp {
            // Size and time decide.
            None => true,
            // A tree that is sealed anew never changes, with or without stamps of its sources.
            Some(stamp) => *stamp == entry.stamp && (stamp.is_some() || self.is_fixed),
        };
        self.tells_of_no_state |= is_same && before.stamp.is_none();
        (is_same && is_known).then_some(*content)
    }

    fn path(&mut self, name: &Name) -> EntryPath {
        let bytes = name.path().as_os_str().as_bytes();
        let (directory, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
            None => (&bytes[..0], bytes),
        };
        if *self.directory != *directory {
            self.directory = directory.into();
        }
        EntryPath { directory: self.directory.clone(), name: name.to_vec() }
    }

    /// Returns whether a file that was written to after the walk looked at it got another time of
    /// change.
    fn is_settled(&self, stamp: &Stamp) -> bool {
        let walked = self.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (seconds, nanoseconds) = stamp.changed;
        let changed = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        walked.as_nanos() as i128 - changed > COARSEST_CLOCK
    }

    fn line(&self, path: &EntryPath, entry: IndexEntry, stamp: Option<Stamp>) -> Line {
        Line { directory: path.directory.clone(), entry, stamp, kept: None, before: None }
    }
}

/// The number of files in one task.
const BATCH: usize = 32;

/// The number of entries after which workers seal the files among them. The assembler has room for many
/// times more, and the walk would wait for ever for a file that nobody seals.
const MOST_BEHIND: usize = 1 << 10;

/// The resolution of the times of change of local file systems, in nanoseconds, and some more.
const COARSEST_CLOCK: i128 = 50_000_000;

const NO_STATE: &str = "this machine has no state of the tree's newest generation, so files of the same \
                        size and time count as unchanged; --checksum compares their content";
