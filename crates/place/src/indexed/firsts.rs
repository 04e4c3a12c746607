//! The content that the generation before has under the first names of its hard links.

use evener_format::index::{Block, Content, EntryPath, Kind};

use super::snapshot::Snapshot;
use super::state::{StatePart, StateReader};

/// Finds files of the generation before, in any order.
pub(super) enum Firsts<'a> {
    /// A state, and the first path and the offset of each of its blocks, once one is looked for.
    State(Box<StateReader>, Option<Vec<(EntryPath, u64)>>),
    Index(&'a Snapshot<'a>),
    Nothing,
}

impl<'a> Firsts<'a> {
    /// Looks where [`super::old::Old`] reads.
    pub(super) fn new(
        state: Option<&StateReader>,
        is_own: bool,
        snapshot: Option<&'a Snapshot<'a>>,
    ) -> Firsts<'a> {
        match (state, snapshot) {
            (Some(state), None) => Firsts::of(state),
            (Some(state), Some(_)) if is_own => Firsts::of(state),
            (_, Some(snapshot)) => Firsts::Index(snapshot),
            (None, None) => Firsts::Nothing,
        }
    }

    fn of(state: &StateReader) -> Firsts<'a> {
        state.again().map_or(Firsts::Nothing, |state| Firsts::State(Box::new(state), None))
    }

    /// The content of the file with a path.
    pub(super) fn content(&mut self, path: &[u8]) -> Option<Content> {
        let kind = match self {
            Firsts::State(state, blocks) => {
                let blocks = blocks.get_or_insert_with(|| all_blocks(state));
                kind_in(state, blocks, &EntryPath::of(path))?
            }
            Firsts::Index(snapshot) => snapshot.find(path).ok()??.kind,
            Firsts::Nothing => return None,
        };
        match kind {
            Kind::File(content) => Some(content),
            _ => None,
        }
    }
}

fn all_blocks(state: &mut StateReader) -> Vec<(EntryPath, u64)> {
    let mut blocks = Vec::new();
    while let Ok(Some(part)) = state.next() {
        if let StatePart::Block { reference, at, .. } = part {
            blocks.push((reference.first, at));
        }
    }
    blocks
}

fn kind_in(state: &mut StateReader, blocks: &[(EntryPath, u64)], path: &EntryPath) -> Option<Kind> {
    let number = blocks.partition_point(|(first, _)| first <= path).checked_sub(1)?;
    let Ok(Some(StatePart::Block { plain, .. })) = state.part_at(blocks[number].1) else {
        return None;
    };
    let mut entries = Block::parse(&plain).ok()?.entries.into_iter();
    let is_it = |directory: &[u8], name: &[u8]| *directory == *path.directory && name == path.name;
    entries.find(|(directory, entry)| is_it(directory, &entry.name)).map(|(_, entry)| entry.kind)
}
