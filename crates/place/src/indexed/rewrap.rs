//! Wraps the keys of a sealed tree for other recipients.

use std::collections::BTreeSet;

use evener_format::index::{Claim, KeyId, TreeId};
use evener_keys::KeyMaterial;
use serde::Serialize;

use super::audience;
use super::base::says_nothing;
use super::depot::{Created, Depot, refused};
use super::keys::{Keys, MOST_WRAPPED, all_wrappings, wrapping};
use super::needs::Needs;
use super::reader::snapshot;
use super::roots::{Roots, Step};
use super::snapshot::Snapshot;
use super::state::State;
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
    /// The reasons why keys may be missing among them.
    #[serde(skip)]
    pub faults: Vec<String>,
}

/// Wraps all keys of a tree for other recipients. Old wrappings go when all new ones are there and
/// were opened once; those that nothing given opens stay, unless `trusts_unopened`. Content is not
/// read. Copies of the old wrappings, and what the old recipients have read, stay with them.
///
/// # Errors
/// When the newest root can't be read or is not believed, the tree has no wrapped keys, or one that
/// a generation names can't be opened; then nothing is removed.
pub fn rewrap(
    store: &dyn Store,
    run: &RunSettings,
    wrap: &Wrap,
    trusts_unopened: bool,
    sealed: &SealedOptions,
) -> Result<Rewrapped, FileError> {
    let depot = Depot::of(store, run)?;
    let (snapshot, _) = snapshot(depot.origin, run, sealed)?;
    let tree = snapshot.keys.tree();
    let all = all_wrappings(&depot)?;
    if all.is_empty() && snapshot.keys.is_given(snapshot.generation.claim.key) {
        return Err(refused(NOTHING_WRAPPED));
    }
    let mut rewrapped = Rewrapped::default();
    let needed = needed(&snapshot, sealed, &mut rewrapped.faults)?;
    for id in &needed {
        if !all.contains_key(id) && !snapshot.keys.is_given(*id) {
            rewrapped.faults.push(format!(
                "the key {id}, which a generation needs, was not wrapped: there is none in `keys/`; \
                 run this again when it is there, or if it is a key of yours, give it too"
            ));
        }
    }
    let mut old = Vec::new();
    for (id, there) in all {
        let material = match open(&depot, &there, (tree, id), sealed) {
            // Anybody may have put it there.
            Err(error) if !says_nothing(&error) && !needed.contains(&id) => continue,
            opened => opened?,
        };
        let last = there.first().and_then(|last| last.rsplit_once('.'));
        let number = last.and_then(|(_, number)| number.parse::<u64>().ok()).unwrap_or(0);
        let next = number.checked_add(1).ok_or_else(|| refused("a wrapping has no successor"))?;
        let path = wrapping(id, next);
        let wrapped = wrap(material.to_text().as_bytes())?;
        if depot.create(&path, &wrapped)? == Created::Taken {
            return Err(refused(format!("another run wraps the keys too (`{path}`); try again")));
        }
        let read = depot.read(&path, MOST_WRAPPED)?.unwrap_or_default();
        let opened = sealed.keychain.open_for(tree, &read, &path);
        let opens = opened.is_ok_and(|opened| opened.commitment().id() == id);
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
    if let (Some((all, place)), true) = (&sealed.state, rewrapped.faults.is_empty()) {
        audience::keep(&State::of(all, place), tree, sealed.audience.as_deref())?;
    }
    Ok(rewrapped)
}

/// The keys of all roots, and those that whole generations name.
fn needed(
    snapshot: &Snapshot<'_>,
    sealed: &SealedOptions,
    faults: &mut Vec<String>,
) -> Result<BTreeSet<KeyId>, FileError> {
    let Snapshot { depot, keys, generation: newest } = snapshot;
    let roots = Roots { depot, keys };
    let (mut needed, mut whole) = (BTreeSet::new(), Vec::new());
    let mut step = Step::of(newest);
    loop {
        let Claim { number, key, .. } = step.claim;
        if newest.claim.kept.as_ref().is_none_or(|kept| kept.contains(number)) {
            needed.insert(key);
            match roots.open(number) {
                Ok(generation) if generation.digest == step.digest => whole.push(generation),
                Ok(_) => return Err(refused("a root was exchanged while it was read")),
                Err(error) if says_nothing(&error) => return Err(error),
                Err(error) => faults.push(unread(number, &error)),
            }
        }
        if step.claim.before.is_none() {
            break;
        }
        step = roots.predecessor(&step)?;
    }
    let mut last = None;
    let keys = Keys::new(keys.tree(), &sealed.keychain)?;
    let needs = Needs::of(*depot, keys, &whole, |number, damage| {
        match damage.error {
            error if says_nothing(&error) => return Err(error),
            error if last.replace(number) != Some(number) => faults.push(unread(number, &error)),
            _ => {}
        }
        Ok(())
    })?;
    needed.extend(needs.keys);
    Ok(needed)
}

fn unread(number: u64, error: &FileError) -> String {
    format!(
        "generation {number} can't be read whole, so it may need keys that were missed: {error}"
    )
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
        let opened = sealed.keychain.open(&wrapped, path);
        match (opened, sealed.keychain.open_for(tree, &wrapped, path)) {
            (Ok(material), Ok(keys)) if keys.commitment().id() == id => return Ok(material),
            (Ok(_), _) => cause = refused(format!("`{path}` holds another key")),
            (Err(error), _) => cause = refused(error.to_string()),
        }
    }
    Err(cause)
}

const NOTHING_WRAPPED: &str = "its key is in a file of yours, so it has no wrapped keys: `evener rekey` \
                               seals it for recipients";
