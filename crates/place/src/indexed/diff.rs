//! Compares generations with each other, and with a directory.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use evener_format::index::{Entry, EntryPath, Kind};
use serde::Serialize;

use super::depot::refused;
use super::list::is_below;
use super::origin::fault_of;
use super::reader::{At, snapshot, wanted};
use super::sealing::entry_of;
use super::snapshot::{Part, Snapshot};
use super::writer::SealedOptions;
use crate::place::{self, Origin};
use crate::selection::Watch;
use crate::{FileError, RunSettings, Selection};

/// A difference between two states of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// The path below the root of the tree.
    #[serde(flatten, serialize_with = "crate::report::path_entries")]
    pub path: PathBuf,
    /// What happened to it.
    pub change: Change,
    /// Its length before, if it was a file.
    pub bytes_before: Option<u64>,
    /// Its length after, if it is a file.
    pub bytes_after: Option<u64>,
}

/// The change of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It has another type.
    Kind,
    /// It has other content, or another target.
    Content,
    /// It has another mode, time, owner or other attributes.
    Metadata,
}

/// The later state of a tree.
#[derive(Clone, Copy)]
pub enum Later<'a> {
    /// A generation.
    Generation(At),
    /// A place, such as the source. Files with the same size and time count as unchanged.
    Place(&'a dyn Origin),
}

/// Compares a generation, [`SealedOptions::at`], with a later state, in the order of the index.
/// Returns false from `each` to stop.
///
/// # Errors
/// When a root can't be read or is not believed, a part of the index is damaged, or an entry of the
/// place can't be read.
pub fn diff(
    origin: &dyn Origin,
    later: Later<'_>,
    run: &RunSettings,
    selection: &Selection,
    sealed: &SealedOptions,
    each: &mut dyn FnMut(Difference) -> bool,
) -> Result<(), FileError> {
    let (before, _) = snapshot(origin, run, sealed)?;
    let watch = selection.watch();
    match later {
        Later::Generation(at) => {
            let sealed = SealedOptions { at, ..sealed.clone() };
            let (after, _) = snapshot(origin, run, &sealed)?;
            let common = common(&before, &after)?;
            let (old, new) =
                (lines(&before, selection, &common), lines(&after, selection, &common));
            if compare(old, new, selection, &watch, true, each)? {
                for (path, error) in watch.missing(None) {
                    // Both may have it in the blocks that they share.
                    let path = path.as_os_str().as_bytes();
                    if before.find(path)?.is_none() && after.find(path)?.is_none() {
                        return Err(missing(path, &error));
                    }
                }
            }
            Ok(())
        }
        Later::Place(place) => {
            if !place.abilities().is_sorted() {
                return Err(refused("the place does not walk in order"));
            }
            let none = HashSet::new();
            let before = lines(&before, selection, &none);
            let is_whole = compare(before, walk(place), selection, &watch, false, each)?;
            match watch.missing(None).first().filter(|_| is_whole) {
                Some((path, error)) => Err(missing(path.as_os_str().as_bytes(), error)),
                None => Ok(()),
            }
        }
    }
}

fn missing(path: &[u8], error: &FileError) -> FileError {
    refused(format!("`{}`: {error}", evener_core::shown(std::ffi::OsStr::from_bytes(path))))
}

type Line = (EntryPath, Entry);

/// The digests of the blocks that two generations share.
fn common(one: &Snapshot<'_>, other: &Snapshot<'_>) -> Result<HashSet<[u8; 32]>, FileError> {
    let blocks = |snapshot: &Snapshot<'_>| -> Result<HashSet<[u8; 32]>, FileError> {
        let mut blocks = HashSet::new();
        for node in &snapshot.generation.body.nodes {
            let node = snapshot.node_of(node)?;
            blocks.extend(node.references.iter().map(|block| block.digest));
        }
        Ok(blocks)
    };
    Ok(&blocks(one)? & &blocks(other)?)
}

fn lines<'s>(
    snapshot: &'s Snapshot<'_>,
    selection: &Selection,
    common: &'s HashSet<[u8; 32]>,
) -> impl Iterator<Item = Result<Line, FileError>> + use<'s> {
    let parts = snapshot.parts(wanted(selection)).without(common);
    parts.flat_map(|part| match part {
        Ok(Part::Node(..)) => Vec::new(),
        Ok(Part::Block(_, _, block)) => {
            let line = |(directory, entry): (_, Entry)| {
                Ok((EntryPath { directory, name: entry.name.clone() }, entry))
            };
            block.entries.into_iter().map(line).collect()
        }
        Err(damage) => vec![Err(fault_of(&damage).into())],
    })
}

/// The entries of a place, as an index would have them.
fn walk(place: &dyn Origin) -> impl Iterator<Item = Result<Line, FileError>> {
    place.walk().filter_map(|entry| match entry {
        Ok(entry) => line_of(&entry).map(Ok),
        Err(fault) => Some(Err(fault.into())),
    })
}

fn line_of(entry: &place::Entry) -> Option<Line> {
    let path = EntryPath::of(entry.name.path().as_os_str().as_bytes());
    let kind = match &entry.kind {
        place::Kind::Object => None,
        place::Kind::Directory => Some(Kind::Directory),
        place::Kind::SymbolicLink(target) => {
            Some(Kind::Symlink(target.as_os_str().as_bytes().to_vec()))
        }
        place::Kind::HardLink(first) => {
            Some(Kind::Further(first.path().as_os_str().as_bytes().to_vec()))
        }
        place::Kind::LeftOut(_) => return None,
    };
    let kind = kind.unwrap_or(Kind::File(super::sealing::no_content(entry.length.unwrap_or(0))));
    let entry = entry_of(&path, &entry.metadata, kind);
    Some((path, entry))
}

/// Walks two states side by side. Returns false if `each` has stopped it.
fn compare(
    before: impl Iterator<Item = Result<Line, FileError>>,
    after: impl Iterator<Item = Result<Line, FileError>>,
    selection: &Selection,
    watch: &Watch<'_>,
    are_sealed: bool,
    each: &mut dyn FnMut(Difference) -> bool,
) -> Result<bool, FileError> {
    let (mut before, mut after) = (before.peekable(), after.peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (None, None) => return Ok(true),
            (Some(Err(error)), _) | (_, Some(Err(error))) => return Err(error.clone()),
            (Some(Ok(_)), None) => Ordering::Less,
            (None, Some(Ok(_))) => Ordering::Greater,
            (Some(Ok((one, _))), Some(Ok((other, _)))) => one.cmp(other),
        };
        let old = if order.is_le() { before.next().transpose()? } else { None };
        let new = if order.is_ge() { after.next().transpose()? } else { None };
        let Some((at, _)) = old.as_ref().or(new.as_ref()) else { return Ok(true) };
        let path = PathBuf::from(OsString::from_vec(at.whole()));
        let (old, new) = (old.map(|(_, entry)| entry), new.map(|(_, entry)| entry));
        let is_directory = [&old, &new].iter().any(|it| is_directory(it.as_ref()));
        let is_selected = match is_directory {
            true => watch.takes_directory(&path) && is_below(&path, selection),
            false => watch.takes_file(&path),
        };
        let change = change(old.as_ref(), new.as_ref(), are_sealed).filter(|_| is_selected);
        if let Some(change) = change {
            let size = |entry: Option<&Entry>| match &entry?.kind {
                Kind::File(content) => Some(content.size),
                _ => None,
            };
            let (bytes_before, bytes_after) = (size(old.as_ref()), size(new.as_ref()));
            if !each(Difference { path, change, bytes_before, bytes_after }) {
                return Ok(false);
            }
        }
    }
}

fn is_directory(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| entry.kind == Kind::Directory)
}

fn change(old: Option<&Entry>, new: Option<&Entry>, are_sealed: bool) -> Option<Change> {
    let (old, new) = match (old, new) {
        (Some(old), Some(new)) => (old, new),
        (None, Some(_)) => return Some(Change::Added),
        (Some(_), None) => return Some(Change::Removed),
        (None, None) => return None,
    };
    let content = match (&old.kind, &new.kind) {
        (Kind::File(one), Kind::File(other)) if are_sealed => one == other,
        (Kind::File(one), Kind::File(other)) => {
            one.size == other.size && old.modified == new.modified
        }
        (Kind::Directory, Kind::Directory) => true,
        (Kind::Symlink(one), Kind::Symlink(other)) => one == other,
        (Kind::Further(one), Kind::Further(other)) => one == other,
        _ => return Some(Change::Kind),
    };
    let without_kind = |entry: &Entry| Entry { kind: Kind::Directory, ..entry.clone() };
    match content {
        false => Some(Change::Content),
        true if without_kind(old) == without_kind(new) => None,
        true => Some(Change::Metadata),
    }
}
