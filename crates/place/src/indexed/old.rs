//! The generation before a new one, and a run that was stopped, as a walk passes them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use evener_format::index::{self, Block, Entry as IndexEntry, EntryPath, StorageName};
use sha2::{Digest, Sha256};

use super::assembler::{Assembler, Kept, Line};
use super::depot::refused;
use super::snapshot::{Part, Parts, Snapshot};
use super::state::{StatePart, StateReader};
use super::wanted::{Wanted, is_below};
use crate::FileError;
use crate::place::{Entry, Stamp};
use crate::record::Record;

/// Where the old entries' fate is noted.
#[derive(Clone, Copy)]
pub(super) struct Notes<'a> {
    pub(super) assembler: &'a Assembler<'a>,
    pub(super) record: &'a Record<'a>,
}

impl Notes<'_> {
    /// Reports a name that is left out since the content that it had is not found.
    pub(super) fn unkept(&self, path: &[u8]) {
        self.record.failed(Path::new(OsStr::from_bytes(path)), refused(UNKEPT));
    }

    /// Has the index note a block or node of an earlier run.
    fn know(&self, plain: &[u8], reference: &index::Reference) {
        let digest = Sha256::digest(plain).into();
        self.assembler.with_index(|index| index.know(digest, reference));
    }
}

/// An entry of the generation before.
pub(super) struct OldLine {
    pub(super) path: EntryPath,
    pub(super) entry: IndexEntry,
    /// The state of its source then; `None` where no state tells.
    pub(super) stamp: Option<Option<Stamp>>,
    /// True if it has the extended attributes that its source had.
    pub(super) has_attributes: bool,
}

/// Blocks, by their offsets, and numbers in them of files, by device and inode.
type Moves = HashMap<(u64, u64), (u64, u16)>;

/// Entries of an earlier generation, or of a run that was stopped, in order.
struct Stream<'s> {
    source: Source<'s>,
    /// True if they are those of the newest generation.
    is_newest: bool,
    /// True if the next index may have the same blocks.
    shares_blocks: bool,
    lines: VecDeque<OldLine>,
}

enum Source<'s> {
    State(Box<StateReader>),
    Index(Parts<'s>),
    Nothing,
}

/// The generation before, and a run that was stopped.
pub(super) struct Old<'s> {
    before: Stream<'s>,
    stopped: Stream<'s>,
    /// The generation that is sealed anew, with the states of its sources.
    sources: Stream<'s>,
    /// Files that runs had finished when they were stopped.
    finished: BTreeMap<EntryPath, OldLine>,
    /// Where each file of the state is; made when it is first needed.
    moves: Option<Moves>,
    /// The content of files that were moved.
    pub(super) moved: HashSet<StorageName>,
    pub(super) passed: Passed,
}

impl<'s> Stream<'s> {
    fn of(source: Source<'s>, is_newest: bool) -> Stream<'s> {
        Stream { source, is_newest, shares_blocks: true, lines: VecDeque::new() }
    }

    /// The entry with a path. Paths come in order; `pass` gets the entries between them.
    fn find(
        &mut self,
        path: &EntryPath,
        notes: &Notes<'_>,
        mut pass: impl FnMut(OldLine),
    ) -> Option<OldLine> {
        while self.fill(notes) {
            match self.lines.front()?.path.cmp(path) {
                std::cmp::Ordering::Greater => return None,
                std::cmp::Ordering::Equal => return self.lines.pop_front(),
                std::cmp::Ordering::Less => self.lines.pop_front().into_iter().for_each(&mut pass),
            }
        }
        None
    }

    /// Reads the next block, if there are no entries. Returns false at the end.
    fn fill(&mut self, notes: &Notes<'_>) -> bool {
        while self.lines.is_empty() {
            let read = match &mut self.source {
                Source::State(state) => {
                    let notes = self.shares_blocks.then_some((notes, self.is_newest));
                    read_state(state, notes, &mut self.lines)
                }
                Source::Index(parts) => read_index(parts, notes, &mut self.lines),
                Source::Nothing => return false,
            };
            match read {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    let notice = format!(
                        "the generation before can't be read whole ({error}), so more files than \
                         have changed are sealed again"
                    );
                    notes.record.notice(Path::new(""), notice);
                    if matches!(self.source, Source::State(_)) {
                        self.source = Source::Nothing;
                    }
                }
            }
        }
        true
    }
}

impl<'s> Old<'s> {
    /// Reads the writer's own state if that is of the last generation, else that generation's index,
    /// else a state that is older; and those of runs that were stopped, the longest first.
    pub(super) fn new(
        state: Option<StateReader>,
        is_own: bool,
        snapshot: Option<&'s Snapshot<'s>>,
        stopped: Vec<StateReader>,
        sources: Option<StateReader>,
    ) -> Old<'s> {
        let state_of =
            |it: Option<StateReader>| it.map_or(Source::Nothing, |it| Source::State(Box::new(it)));
        let is_newest = is_own || snapshot.is_some();
        let before = match (state, snapshot) {
            (Some(state), _) if is_own => Source::State(Box::new(state)),
            (_, Some(snapshot)) => Source::Index(snapshot.parts(Wanted::default())),
            (Some(state), None) => Source::State(Box::new(state)),
            (None, None) => Source::Nothing,
        };
        let mut finished = BTreeMap::new();
        stopped.iter().for_each(|stopped| stopped.add_finished(&mut finished));
        let stopped = stopped.into_iter().next();
        Old {
            before: Stream::of(before, is_newest),
            stopped: Stream::of(state_of(stopped), false),
            sources: Stream { shares_blocks: false, ..Stream::of(state_of(sources), false) },
            finished,
            moves: None,
            moved: HashSet::new(),
            passed: Passed::default(),
        }
    }

    /// The entry of the generation before with a path. Paths come in order; entries between them are
    /// gone.
    pub(super) fn find(&mut self, path: &EntryPath, notes: &Notes<'_>) -> Option<OldLine> {
        let Old { before, moved, passed, .. } = self;
        before.find(path, notes, |line| passed.take(line, moved, notes))
    }

    /// The entry that a run made before it was stopped.
    pub(super) fn find_stopped(&mut self, path: &EntryPath, notes: &Notes<'_>) -> Option<OldLine> {
        let Old { stopped, finished, .. } = self;
        stopped.find(path, notes, drop).or_else(|| finished.remove(path))
    }

    /// The state of the source of a file in a tree that is sealed anew.
    pub(super) fn source(&mut self, path: &EntryPath, notes: &Notes<'_>) -> Option<Stamp> {
        self.sources.find(path, notes, drop)?.stamp.flatten()
    }

    /// Counts the entries that follow: they are gone.
    pub(super) fn end(&mut self, notes: &Notes<'_>) {
        while self.before.fill(notes) {
            while let Some(line) = self.before.lines.pop_front() {
                self.passed.take(line, &self.moved, notes);
            }
        }
    }

    /// The content of a file that the source had under another name.
    pub(super) fn moved(&mut self, entry: &Entry) -> Option<index::Content> {
        let stamp = entry.stamp.as_ref()?;
        let Source::State(state) = &self.before.source else { return None };
        if self.moves.is_none() {
            self.moves = Some(moves(state.again().ok()?).unwrap_or_default());
        }
        let (at, number) = *self.moves.as_ref()?.get(&(stamp.device, stamp.inode))?;
        let Ok(Some(StatePart::Block { plain, .. })) = state.again().ok()?.part_at(at) else {
            return None;
        };
        let (directory, old) = Block::parse(&plain).ok()?.entries.into_iter().nth(number.into())?;
        let path = EntryPath { directory, name: old.name.clone() };
        let index::Kind::File(content) = &old.kind else { return None };
        let is_same = Some(content.size) == entry.length
            && old.modified.is_some()
            && old.modified == modified(entry);
        let is_ahead = self.before.lines.front().is_none_or(|line| line.path <= path);
        let fate = self.passed.fates.get_mut(&hash(&path));
        let is_gone = is_ahead || fate.as_ref().is_some_and(|fate| **fate == Fate::Gone);
        if !is_same || !is_gone || !self.moved.insert(content.name) {
            return None;
        }
        if let Some(fate) = fate {
            *fate = Fate::Moved;
        }
        Some(*content)
    }

    /// Notes that the source has something else now where the generation before has an entry.
    pub(super) fn replaced(&mut self, path: &EntryPath, entry: &IndexEntry) {
        let index::Kind::File(content) = &entry.kind else { return };
        let is_moved = self.moved.contains(&content.name);
        let fate = if is_moved { Fate::Moved } else { Fate::Replaced };
        self.passed.fates.insert(hash(path), fate);
    }

    /// An entry as it is kept if its source can't be read. `None` if its content belongs to another
    /// entry now.
    pub(super) fn kept(&mut self, directory: Arc<[u8]>, entry: IndexEntry) -> Option<Line> {
        match self.is_moved(&entry) {
            true => None,
            false => self.passed.kept(directory, entry, None),
        }
    }

    /// Returns whether the content of an entry has a new name.
    pub(super) fn is_moved(&self, entry: &IndexEntry) -> bool {
        matches!(&entry.kind, index::Kind::File(content) if self.moved.contains(&content.name))
    }
}

/// The entries of the generation before that the walk has passed over.
#[derive(Default)]
pub(super) struct Passed {
    /// The number of those that are gone.
    pub(super) number: u64,
    /// The fate of files that no longer have their content, by hashes of their paths.
    fates: HashMap<u64, Fate>,
    /// Directories that could not be read.
    pub(super) unread: Vec<Vec<u8>>,
}

/// The fate of a file of the generation before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// No entry has its content.
    Gone,
    /// Its content has a new name.
    Moved,
    /// Its content is not for new names.
    Replaced,
}

impl Passed {
    /// An entry that is kept as it was. `None` if it is a further name of a file that was moved.
    fn kept(
        &mut self,
        directory: Arc<[u8]>,
        entry: IndexEntry,
        stamp: Option<Stamp>,
    ) -> Option<Line> {
        let mut line = Line { directory, entry, stamp, kept: None, before: None };
        if let index::Kind::Further(first) = &line.entry.kind {
            let fate = self.fates.get_mut(&hash(&EntryPath::of(first)));
            let is_replaced = fate.is_some();
            match fate {
                Some(Fate::Moved) => return None,
                Some(fate) => *fate = Fate::Replaced,
                None => {}
            }
            line.kept = Some(Kept { is_replaced, is_told: false });
        }
        Some(line)
    }

    /// Takes an entry that the walk has not found. Below a directory that could not be read, it stays
    /// as it was.
    fn take(&mut self, line: OldLine, moved: &HashSet<StorageName>, notes: &Notes<'_>) {
        let OldLine { path, entry, stamp, .. } = line;
        let is_moved =
            matches!(&entry.kind, index::Kind::File(content) if moved.contains(&content.name));
        if !is_moved && self.unread.iter().any(|above| is_below(&path.directory, above)) {
            match self.kept(path.directory.clone(), entry, stamp.flatten()) {
                Some(line) => notes.assembler.add(line),
                None => notes.unkept(&path.whole()),
            }
            return;
        }
        self.number += u64::from(!is_moved);
        if matches!(entry.kind, index::Kind::File(_)) {
            let fate = if is_moved { Fate::Moved } else { Fate::Gone };
            self.fates.insert(hash(&path), fate);
        }
    }
}

fn read_state(
    state: &mut StateReader,
    notes: Option<(&Notes<'_>, bool)>,
    lines: &mut VecDeque<OldLine>,
) -> Result<bool, FileError> {
    match state.next()? {
        None => return Ok(false),
        Some(StatePart::Node(reference, plain)) => {
            if let Some((notes, is_newest)) = notes {
                notes.know(&plain, &reference);
                if is_newest {
                    notes.assembler.with_index(|index| index.know_node(&reference));
                }
            }
        }
        Some(StatePart::Block { reference, plain, stamps, .. }) => {
            notes.into_iter().for_each(|(notes, _)| notes.know(&plain, &reference));
            let block = Block::parse(&plain).map_err(|error| refused(error.to_string()))?;
            let has_attributes = state.begun.xattrs;
            let numbered = block.entries.into_iter().enumerate();
            lines.extend(numbered.map(|(number, (directory, entry))| OldLine {
                path: EntryPath { directory, name: entry.name.clone() },
                entry,
                stamp: Some(stamps.get(number).filter(|stamp| stamp.inode != 0)),
                has_attributes,
            }));
        }
    }
    Ok(true)
}

fn read_index(
    parts: &mut Parts<'_>,
    notes: &Notes<'_>,
    lines: &mut VecDeque<OldLine>,
) -> Result<bool, FileError> {
    match parts.next().transpose().map_err(|damage| damage.error)? {
        None => return Ok(false),
        Some(Part::Node(reference, digest)) => {
            notes.assembler.with_index(|index| {
                index.know(digest, &reference);
                index.know_node(&reference);
            });
        }
        Some(Part::Block(reference, plain, block)) => {
            notes.know(&plain, &reference);
            lines.extend(block.entries.into_iter().map(|(directory, entry)| OldLine {
                path: EntryPath { directory, name: entry.name.clone() },
                entry,
                stamp: None,
                has_attributes: false,
            }));
        }
    }
    Ok(true)
}

/// Where each file of a state is: the offset of its block, and its number there.
fn moves(mut state: StateReader) -> Result<Moves, FileError> {
    let mut moves = Moves::new();
    while let Some(part) = state.next()? {
        let StatePart::Block { stamps, at, .. } = part else { continue };
        for number in 0..=u16::MAX {
            let Some(stamp) = stamps.get(number.into()) else { break };
            if stamp.inode != 0 {
                moves.insert((stamp.device, stamp.inode), (at, number));
            }
        }
    }
    Ok(moves)
}

/// The time of modification of a source, as an index has it.
pub(super) fn modified(entry: &Entry) -> Option<index::Times> {
    let modified = entry.metadata.modified_since_1970()?;
    Some((modified.0, modified.1 as u32))
}

pub(super) fn hash(path: &EntryPath) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&path.directory, &path.name).hash(&mut hasher);
    hasher.finish()
}

const UNKEPT: &str = "it can't be read, and the content that it had as a hard link is not found, so it is \
                      left out";
