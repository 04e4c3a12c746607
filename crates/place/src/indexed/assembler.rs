//! Puts entries that are finished in any order into the order of the walk.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use evener_core::IgnorePoison;
use evener_format::index::Entry;

use super::depot::refused;
use super::index_writer::{IndexDone, IndexWriter};
use crate::place::Stamp;
use crate::{Control, FileError};

/// An entry for the index.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) directory: Arc<[u8]>,
    pub(super) entry: Entry,
    pub(super) stamp: Option<Stamp>,
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
}

impl<'a> Assembler<'a> {
    pub(super) fn new(index: IndexWriter<'a>, control: &'a Control) -> Assembler<'a> {
        let window = Window {
            first: 0,
            slots: VecDeque::new(),
            index: Some(index),
            error: None,
            is_waited_for: false,
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
        if let Some(slot) = at.and_then(|at| window.slots.get_mut(at)) {
            *slot = Some(line);
        }
        window.advance();
        if window.is_waited_for {
            self.moved.notify_all();
        }
    }

    /// Returns whether the index could not be written.
    pub(super) fn has_failed(&self) -> bool {
        self.lock().error.is_some()
    }

    /// Ends the index. Slots that nobody has finished have no entry.
    pub(super) fn end(&self) -> Result<IndexDone, FileError> {
        let mut window = self.lock();
        window.slots.iter_mut().for_each(|slot| {
            slot.get_or_insert(None);
        });
        window.advance();
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
        {
            window.is_waited_for = true;
            window = self.moved.wait_timeout(window, STOP_IS_SEEN).ignore_poison().0;
        }
        window.is_waited_for = false;
        window
    }

    fn lock(&self) -> MutexGuard<'_, Window<'a>> {
        self.window.lock().ignore_poison()
    }
}

impl Window<'_> {
    fn advance(&mut self) {
        while let Some(Some(_)) = self.slots.front() {
            let line = self.slots.pop_front().flatten().flatten();
            self.first += 1;
            let (Some(line), None, Some(index)) = (line, &self.error, &mut self.index) else {
                continue;
            };
            let Line { directory, entry, stamp } = line;
            self.error = index.push(&directory, &entry, stamp.as_ref()).err();
        }
    }
}

/// The most entries that wait for one in front of them.
const MOST_OPEN: usize = 1 << 16;
const STOP_IS_SEEN: Duration = Duration::from_millis(100);
