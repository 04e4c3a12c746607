//! Puts entries that are finished in any order into the order of the walk.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use evener_core::IgnorePoison;
use evener_format::index::{Entry, EntryPath, Kind};

use super::depot::refused;
use super::firsts::Firsts;
use super::index_writer::{IndexDone, IndexWriter};
use super::old::hash;
use crate::place::Stamp;
use crate::{Control, FileError};

/// An entry for the index.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) directory: Arc<[u8]>,
    pub(super) entry: Entry,
    pub(super) stamp: Option<Stamp>,
    /// Of a further name that the generation before has, and that is kept as it was there.
    pub(super) kept: Option<Kept>,
    /// The entry of the generation before in the place of a further name.
    pub(super) before: Option<Box<Entry>>,
}

/// A further name whose content stays that of the generation before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    /// True if its first name is known to have no longer that content.
    pub(super) is_replaced: bool,
    /// True if it is reported that it could not be read.
    pub(super) is_told: bool,
}

/// A place for an entry that is still to be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u64);

/// Takes entries from the walk and from workers, and gives them to the index in order.
pub(super) struct Assembler<'a> {
    window: Mutex<Window<'a>>,
    moved: Condvar,
    control: &'a Control,
}

struct Window<'a> {
    /// The number of the first slot.
    first: u64,
    /// `None` for those that are not finished, `Some(None)` for those without an entry.
    slots: VecDeque<Option<Option<Line>>>,
    /// `None` once it has ended.
    index: Option<IndexWriter<'a>>,
    error: Option<FileError>,
    /// True while the walk waits for room.
    is_waited_for: bool,
    /// The number of further names in the slots.
    links: u64,
    /// Paths of files that have no entry, each with the further name that is to have the content.
    lost: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Further names that are to have the content, with their slots.
    heirs: Vec<(Slot, Line)>,
    firsts: Firsts<'a>,
    /// Hashes of the paths of files that have no longer the content of before.
    replaced: HashSet<u64>,
    /// First names of before, each with the name that has its content now.
    holders: HashMap<Vec<u8>, Vec<u8>>,
    /// Names that are kept, whose content was not found.
    unkept: Vec<Vec<u8>>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(
        index: IndexWriter<'a>,
        firsts: Firsts<'a>,
        control: &'a Control,
    ) -> Assembler<'a> {
        let window = Window {
            first: 0,
            slots: VecDeque::new(),
            index: Some(index),
            error: None,
            is_waited_for: false,
            links: 0,
            lost: HashMap::new(),
            heirs: Vec::new(),
            firsts,
            replaced: HashSet::new(),
            holders: HashMap::new(),
            unkept: Vec::new(),
        };
        Assembler { window: Mutex::new(window), moved: Condvar::new(), control }
    }

    /// Has the index note what the generation before has.
    pub(super) fn with_index(&self, act: impl FnOnce(&mut IndexWriter<'a>)) {
        if let Some(index) = &mut self.lock().index {
            act(index);
        }
    }

    /// Adds a finished entry.
    pub(super) fn add(&self, line: Line) {
        let mut window = self.wait_for_room();
        window.links += u64::from(line.is_link());
        window.note(&line);
        window.slots.push_back(Some(Some(line)));
        window.advance();
    }

    /// Adds a slot for an entry that a worker will finish. Waits while too many are open.
    pub(super) fn reserve(&self) -> Slot {
        let mut window = self.wait_for_room();
        window.slots.push_back(None);
        Slot(window.first + window.slots.len() as u64 - 1)
    }

    /// Finishes a slot; `None` leaves it without an entry.
    pub(super) fn finish(&self, Slot(number): Slot, line: Option<Line>) {
        let mut window = self.lock();
        let at = number.checked_sub(window.first).and_then(|at| usize::try_from(at).ok());
        line.iter().for_each(|line| window.note(line));
        let is_link = line.as_ref().is_some_and(Line::is_link);
        if let Some(slot) = at.and_then(|at| window.slots.get_mut(at)) {
            *slot = Some(line);
            window.links += u64::from(is_link);
        }
        window.advance();
        if window.is_waited_for {
            self.moved.notify_all();
        }
    }

    /// Finishes the slot of a file that could not be sealed, with its entry of before.
    pub(super) fn fail(&self, slot: Slot, path: &EntryPath, mut before: Option<Line>) {
        let has_content = |line: &Line| matches!(line.entry.kind, Kind::File(_));
        if !before.as_ref().is_some_and(|line| line.kept.is_some() || has_content(line)) {
            self.lock().lost.insert(path.whole(), None);
        }
        if let Some(kept) = before.as_mut().and_then(|line| line.kept.as_mut()) {
            kept.is_told = true;
        }
        self.finish(slot, before);
    }

    /// Notes that a file has no longer the content of before.
    pub(super) fn replaced(&self, path: &EntryPath) {
        self.lock().replaced.insert(hash(path));
    }

    /// The paths that nobody was told of, and that are left out since the content that they had is
    /// not found.
    pub(super) fn unkept(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.lock().unkept)
    }

    /// Further names of files that could not be sealed under their first ones: each is to be sealed
    /// in the slot that it has.
    pub(super) fn heirs(&self) -> Vec<(Slot, Line)> {
        std::mem::take(&mut self.lock().heirs)
    }

    /// Waits a moment for such names.
    pub(super) fn wait_for_heirs(&self) -> Vec<(Slot, Line)> {
        let mut window = self.lock();
        if window.links > 0 && window.heirs.is_empty() {
            window = self.wait(window);
        }
        std::mem::take(&mut window.heirs)
    }

    /// Returns whether further names are not in the index yet.
    pub(super) fn has_links(&self) -> bool {
        self.lock().links > 0
    }

    /// Ends the index with an error: nothing more can be written.
    pub(super) fn give_up(&self, error: FileError) {
        self.lock().error.get_or_insert(error);
        self.moved.notify_all();
    }

    /// Returns whether nothing more can be written.
    pub(super) fn has_failed(&self) -> bool {
        self.lock().error.is_some()
    }

    /// Ends the index. Slots that nobody has finished have no entry.
    pub(super) fn end(&self) -> Result<IndexDone, FileError> {
        let mut window = self.lock();
        while !window.slots.is_empty() {
            window.slots.iter_mut().for_each(|slot| {
                slot.get_or_insert(None);
            });
            window.advance();
        }
        match (window.error.take(), window.index.take()) {
            (Some(error), _) => Err(error),
            (None, Some(index)) => index.finish(),
            (None, None) => Err(refused("the index has ended")),
        }
    }

    fn wait_for_room(&self) -> MutexGuard<'_, Window<'a>> {
        let mut window = self.lock();
        while window.slots.len() >= MOST_OPEN
            && !self.control.is_stopped()
            && window.error.is_none()
            && window.heirs.is_empty()
        {
            window = self.wait(window);
        }
        window
    }

    fn wait<'w>(&self, mut window: MutexGuard<'w, Window<'a>>) -> MutexGuard<'w, Window<'a>> {
        window.is_waited_for = true;
        let mut window = self.moved.wait_timeout(window, STOP_IS_SEEN).ignore_poison().0;
        window.is_waited_for = false;
        window
    }

    fn lock(&self) -> MutexGuard<'_, Window<'a>> {
        self.window.lock().ignore_poison()
    }
}

impl Window<'_> {
    /// Notes a file that was sealed, for another run.
    fn note(&mut self, line: &Line) {
        if let (None, Some(index)) = (&self.error, &mut self.index) {
            self.error = index.note(line).err();
        }
    }

    fn advance(&mut self) {
        while let Some(Some(_)) = self.slots.front() {
            if self.has_heir() {
                return;
            }
            let line = self.slots.pop_front().flatten().flatten();
            self.first += 1;
            let line = line.and_then(|line| self.settled(line));
            let (Some(line), None, Some(index)) = (line, &self.error, &mut self.index) else {
                continue;
            };
            let Line { directory, entry, stamp, .. } = line;
            self.error = index.push(&directory, &entry, stamp.as_ref()).err();
        }
    }

    /// Gives a further name that is kept the content that it had, unless its first name has that
    /// still. First names come before further ones, so all that they have is known.
    fn settled(&mut self, mut line: Line) -> Option<Line> {
        if line.before.as_ref().is_some_and(|before| matches!(before.kind, Kind::File(_))) {
            self.replaced.insert(hash(&line.entry_path()));
        }
        let path = line.entry_path().whole();
        let (Some(kept), Kind::Further(first)) = (line.kept, &mut line.entry.kind) else {
            return Some(line);
        };
        let mut is_link = true;
        if let Some(holder) = self.holders.get(first) {
            first.clone_from(holder);
        } else if kept.is_replaced || self.replaced.contains(&hash(&EntryPath::of(first))) {
            if let Some(content) = self.firsts.content(first) {
                self.holders.insert(std::mem::take(first), path);
                line.entry.kind = Kind::File(content);
                // The stamp may be that of newer content.
                line.stamp = None;
                return Some(line);
            }
            is_link = false;
        }
        match kept.is_told {
            // Other names can't be further ones of a further name.
            true => drop(self.lost.insert(path, None)),
            false if is_link => {}
            false => self.unkept.push(path),
        }
        is_link.then_some(line)
    }

    /// Returns whether the first slot has a further name of a file that has no entry. That name is
    /// to be sealed in the slot, and stands for the file.
    fn has_heir(&mut self) -> bool {
        let Some(Some(Some(line))) = self.slots.front_mut() else { return false };
        let path = line.entry_path().whole();
        let Kind::Further(first) = &mut line.entry.kind else { return false };
        self.links -= 1;
        if line.kept.is_some() {
            return false;
        }
        let Some(instead) = self.lost.get(first) else { return false };
        if let Some(instead) = instead.as_ref().filter(|it| !self.lost.contains_key(*it)) {
            first.clone_from(instead);
            return false;
        }
        self.lost.insert(std::mem::take(first), Some(path));
        let line = self.slots[0].take().flatten();
        self.heirs.extend(line.map(|line| (Slot(self.first), line)));
        true
    }
}

impl Line {
    fn is_link(&self) -> bool {
        matches!(self.entry.kind, Kind::Further(_))
    }

    pub(super) fn entry_path(&self) -> EntryPath {
        EntryPath { directory: self.directory.clone(), name: self.entry.name.clone() }
    }
}

/// The most entries that wait for one in front of them.
const MOST_OPEN: usize = 1 << 16;
const STOP_IS_SEEN: Duration = Duration::from_millis(100);
