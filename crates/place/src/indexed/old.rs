//! The generation before a new one, and a run that was stopped, as a walk passes them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use evener_format::index::{self, Block, Entry as IndexEntry, EntryPath, StorageName};
use sha2::{Digest, Sha256};

use super::assembler::{Assembler, Line};
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
    /// Where each file of the state is; made when it is first needed.
    moves: Option<Moves>,
    /// The content of files that were moved.
    pub(super) moved: HashSet<StorageName>,
    pub(super) passed: Passed,
}

impl<'s> Stream<'s> {
    fn of(source: Source<'s>, is_newest: bool) -> Stream<'s> {
        Stream { source, is_newest, lines: VecDeque::new() }
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
                Source::State(state) => read_state(state, notes, &mut self.lines, self.is_newest),
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
    /// else a state that is older; and that of a run that was stopped.
    pub(super) fn new(
        state: Option<StateReader>,
        is_own: bool,
        snapshot: Option<&'s Snapshot<'s>>,
        stopped: Option<StateReader>,
    ) -> Old<'s> {
        let is_newest = is_own || snapshot.is_some();
        let before = match (state, snapshot) {
            (Some(state), _) if is_own => Source::State(Box::new(state)),
            (_, Some(snapshot)) => Source::Index(snapshot.parts(Wanted::default())),
            (Some(state), None) => Source::State(Box::new(state)),
            (None, None) => Source::Nothing,
        };
        Old {
            before: Stream::of(before, is_newest),
            stopped: Stream::of(
                stopped.map_or(Source::Nothing, |it| Source::State(Box::new(it))),
                false,
            ),
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
        self.stopped.find(path, notes, drop)
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
        let is_gone = is_ahead || self.passed.gone.contains(&hash(&path));
        (is_same && is_gone && self.moved.insert(content.name)).then_some(*content)
    }
}

/// The entries of the generation before that the walk has passed over.
#[derive(Default)]
pub(super) struct Passed {
    /// The number of those that are gone.
    pub(super) number: u64,
    /// Hashes of the paths of files that are gone.
    gone: HashSet<u64>,
    /// Directories that could not be read.
    pub(super) unread: Vec<Vec<u8>>,
}

impl Passed {
    /// Takes an entry that the walk has not found. Below a directory that could not be read, it stays
    /// as it was.
    fn take(&mut self, line: OldLine, moved: &HashSet<StorageName>, notes: &Notes<'_>) {
        let OldLine { path, entry, stamp, .. } = line;
        let is_moved =
            matches!(&entry.kind, index::Kind::File(content) if moved.contains(&content.name));
        if !is_moved && self.unread.iter().any(|above| is_below(&path.directory, above)) {
            notes.assembler.add(Line { directory: path.directory, entry, stamp: stamp.flatten() });
            return;
        }
        self.number += u64::from(!is_moved);
        if matches!(entry.kind, index::Kind::File(_)) {
            self.gone.insert(hash(&path));
        }
    }
}

fn read_state(
    state: &mut StateReader,
    notes: &Notes<'_>,
    lines: &mut VecDeque<OldLine>,
    is_newest: bool,
) -> Result<bool, FileError> {
    match state.next()? {
        None => return Ok(false),
        Some(StatePart::Node(reference, plain)) => {
            notes.know(&plain, &reference);
            if is_newest {
                notes.assembler.with_index(|index| index.know_node(&reference));
            }
        }
        Some(StatePart::Block { reference, plain, stamps, .. }) => {
            notes.know(&plain, &reference);
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

fn hash(path: &EntryPath) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&path.directory, &path.name).hash(&mut hasher);
    hasher.finish()
}
