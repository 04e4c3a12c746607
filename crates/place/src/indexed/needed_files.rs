//! The files that a generation needs.

use std::collections::HashSet;

use evener_format::index::{Block, Kind, StorageName};

use super::depot::{Depot, name_of, refused};
use super::keys::Keys;
use super::marker;
use super::reader::snapshot;
use super::roots::Roots;
use super::snapshot::Part;
use super::state::StatePart;
use super::wanted::Wanted;
use super::writer::SealedOptions;
use crate::place::{Kind as EntryKind, MOST_LISTED, Origin};
use crate::{FileError, Name, RunSettings};

/// Lists the files that the newest generation needs, each once, with all roots and wrapped keys.
/// Where this machine made that generation, nothing need open it.
///
/// # Errors
/// When the root can't be read or is not trusted, or a part of the index is damaged.
pub fn needed_files(
    origin: &dyn Origin,
    run: &RunSettings,
    sealed: &SealedOptions,
) -> Result<Vec<Name>, FileError> {
    let files = match of_state(origin, run, sealed)? {
        Some(files) => files,
        None => of_index(origin, run, sealed)?,
    };
    let mut names = lasting_files(origin)?;
    names.extend(files.into_iter().map(name_of));
    Ok(names)
}

/// Those of the newest generation that this machine's own state names, for which no key is needed;
/// `None` if the state is of another generation.
fn of_state(
    origin: &dyn Origin,
    run: &RunSettings,
    sealed: &SealedOptions,
) -> Result<Option<HashSet<StorageName>>, FileError> {
    let depot = Depot { origin, store: None, run };
    let (Some(state), Some(tree)) = (sealed.place_state(), marker::read(&depot)?) else {
        return Ok(None);
    };
    let keys = Keys::new(tree, &sealed.keychain)?;
    let roots = Roots { depot: &depot, keys: &keys };
    let (Some(number), Some(mut own)) =
        (roots.numbers()?.last().copied(), state.entries(|_| Ok(false))?)
    else {
        return Ok(None);
    };
    let Ok(newest) = roots.step(number).map(|step| step.digest) else { return Ok(None) };
    let noted = own.pin().map(|pin| pin.digest);
    if noted.is_none() || noted != Some(newest) && noted != state.same(newest)? {
        return Ok(None);
    }
    let mut files = HashSet::new();
    while let Some(part) = own.next()? {
        match part {
            StatePart::Node(reference, _) => drop(files.insert(reference.name)),
            StatePart::Block { reference, plain, .. } => {
                files.insert(reference.name);
                let block = Block::parse(&plain).map_err(|error| refused(error.to_string()))?;
                files.extend(contents(&block));
            }
        }
    }
    Ok(Some(files))
}

/// Those of the newest generation that its index names.
fn of_index(
    origin: &dyn Origin,
    run: &RunSettings,
    sealed: &SealedOptions,
) -> Result<HashSet<StorageName>, FileError> {
    let (snapshot, _) = snapshot(origin, run, sealed)?;
    let mut files: HashSet<_> =
        snapshot.generation.body.nodes.iter().map(|node| node.name).collect();
    for part in snapshot.parts(Wanted::default()) {
        let Part::Block(reference, _, block) = part.map_err(|damage| damage.error)? else {
            continue;
        };
        files.insert(reference.name);
        files.extend(contents(&block));
    }
    Ok(files)
}

fn contents(block: &Block) -> impl Iterator<Item = StorageName> {
    block.entries.iter().filter_map(|(_, entry)| match &entry.kind {
        Kind::File(content) => Some(content.name),
        _ => None,
    })
}

/// Lists the marker, all roots and all wrapped keys of a tree, which nothing needs to open.
///
/// # Errors
/// When the place can't be read.
pub fn lasting_files(origin: &dyn Origin) -> Result<Vec<Name>, FileError> {
    let mut names = Vec::new();
    for entry in origin.list_at_most(&Name::root(), MOST_LISTED)? {
        let directory = match entry.kind {
            EntryKind::Object => {
                names.push(entry.name);
                continue;
            }
            EntryKind::Directory => entry.name,
            _ => continue,
        };
        let is_listed = ["data", "writers"].iter().any(|it| directory.path() == *it);
        if !is_listed {
            let within = origin.list_at_most(&directory, MOST_LISTED)?.into_iter();
            names.extend(within.filter(|it| it.kind == EntryKind::Object).map(|it| it.name));
        }
    }
    Ok(names)
}
