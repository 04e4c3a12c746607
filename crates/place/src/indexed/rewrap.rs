//! Wraps the keys of a sealed tree for other recipients.

use std::collections::BTreeSet;

use evener_format::index::{KeyId, TreeId};
use evener_keys::{KeyFile, KeyMaterial};
use serde::Serialize;

use super::depot::{Created, Depot, refused};
use super::keys::{MOST_WRAPPED, open_wrapped, wrapping, wrappings};
use super::reader::snapshot;
use super::roots::{Roots, Step};
use super::snapshot::Snapshot;
use super::writer::{SealedOptions, Wrap};
use crate::place::Store;
use crate::{FileError, RunSettings};

/// The result of wrapping keys anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Rewrapped {
    /// Keys that are wrapped for the new recipients.
    pub keys: u64,
    /// Old wrappings that were removed.
    pub removed: u64,
    /// Old wrappings that stay, because the new one could not be opened to check it.
    pub unchecked: u64,
}

/// Wraps the key of each generation for other recipients. Old wrappings go when all new ones are
/// there and were opened once; those that nothing given opens stay, unless `trusts_unopened`.
/// Content is not read. Copies of the old wrappings, and what the old recipients have read, stay with
/// them.
///
/// # Errors
/// When a root can't be read or is not believed, or a key can't be opened; then nothing is removed.
pub fn rewrap(
    store: &dyn Store,
    run: &RunSettings,
    wrap: &Wrap,
    trusts_unopened: bool,
    sealed: &SealedOptions,
) -> Result<Rewrapped, FileError> {
    let depot = Depot::of(store, run)?;
    let (snapshot, _) = snapshot(depot.origin, run, sealed)?;
    let Snapshot { keys, generation, .. } = &snapshot;
    let roots = Roots { depot: &depot, keys };
    let mut ids: BTreeSet<KeyId> = generation.claim.retired.iter().copied().collect();
    let mut step = Step::of(generation);
    loop {
        ids.insert(step.claim.key);
        if step.claim.before.is_none() {
            break;
        }
        step = roots.predecessor(&step)?;
    }
    let mut old = Vec::new();
    let mut rewrapped = Rewrapped::default();
    for id in ids {
        let there = wrappings(&depot, id)?;
        let Some(last) = there.first() else { continue };
        let material = open(&depot, &there, (keys.tree(), id), sealed)?;
        let number = last.rsplit_once('.').and_then(|(_, number)| number.parse::<u64>().ok());
        let path = wrapping(id, number.unwrap_or(0) + 1);
        let wrapped = wrap(material.to_text().as_bytes())?;
        if depot.create(&path, &wrapped)? == Created::Taken {
            return Err(refused(format!("another run wraps the keys too (`{path}`); try again")));
        }
        let read = depot.read(&path, MOST_WRAPPED)?.unwrap_or_default();
        let tree = keys.tree();
        let opens = open_wrapped(&read, &path, &*sealed.keychain.unlock, tree)
            .is_ok_and(|opened| opened.commitment().id() == id);
        rewrapped.keys += 1;
        match opens || trusts_unopened && read == wrapped {
            true => old.extend(there),
            false => rewrapped.unchecked += there.len() as u64,
        }
    }
    store.sync()?;
    for path in old {
        depot.remove(&path)?;
        rewrapped.removed += 1;
    }
    Ok(rewrapped)
}

/// Opens one of the wrappings of a key.
fn open(
    depot: &Depot<'_>,
    wrappings: &[String],
    (tree, id): (TreeId, KeyId),
    sealed: &SealedOptions,
) -> Result<KeyMaterial, FileError> {
    let mut cause = refused(format!("nothing opens the key {id}"));
    for path in wrappings {
        let wrapped = depot.read(path, MOST_WRAPPED)?.unwrap_or_default();
        let opened = KeyFile::read_from(&mut &*wrapped, path)
            .and_then(|file| file.open(&*sealed.keychain.unlock));
        let unlock = &*sealed.keychain.unlock;
        match (opened, open_wrapped(&wrapped, path, unlock, tree)) {
            (Ok(material), Ok(keys)) if keys.commitment().id() == id => return Ok(material),
            (Ok(_), _) => cause = refused(format!("`{path}` holds another key")),
            (Err(error), _) => cause = refused(error.to_string()),
        }
    }
    Err(cause)
}
