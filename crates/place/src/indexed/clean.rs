//! Removes what no kept generation needs.

use std::collections::HashSet;
use std::path::Path;

use evener_format::index::{Kept, KeyId, Kind, StorageName};
use serde::Serialize;

use super::at_work::{self, AtWork};
use super::depot::{Depot, refused};
use super::keys::Keys;
use super::origin::fault_of;
use super::reader::snapshot;
use super::roots::{Generation, Roots, Step};
use super::snapshot::{Part, Snapshot};
use super::state::State;
use super::succession::{NewRoot, Signing, now};
use super::wanted::Wanted;
use super::writer::SealedOptions;
use crate::place::{Entry, Store};
use crate::{FileError, RunSettings};

/// What cleaning keeps.
#[derive(Clone, Debug, Default)]
pub struct CleanOptions {
    /// The number of generations, with the newest; at least 1.
    pub keep: u64,
    /// Also keep those made in this many seconds before now.
    pub keep_within: Option<u64>,
    /// Writers that are no more, by the names of their files in `writers/`.
    pub abandon: Vec<String>,
    /// Remove nothing.
    pub dry_run: bool,
}

/// The result of cleaning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cleaned {
    /// The generations that are whole, in ascending order.
    pub kept: Vec<u64>,
    /// The generations that were removed.
    pub removed: Vec<u64>,
    /// Files removed from `data/` and `keys/`, and their bytes.
    pub files: u64,
    /// The bytes of those files.
    pub bytes: u64,
    /// Files that no kept generation names, but that a writer at work may need: they are younger
    /// than a day, or than the oldest writer.
    pub spared: u64,
    /// The writers that are at work, or were killed: the names of their files in `writers/`, and
    /// the ages of these in seconds.
    pub writers: Vec<(String, i64)>,
    /// The generation that this run has made; `None` where there was nothing to do.
    pub generation: Option<u64>,
}

/// Removes the files of old generations and of killed runs. It first makes a generation that says
/// so, with the content of the newest one.
///
/// # Errors
/// When a kept generation can't be read whole; then nothing is removed.
pub fn clean(
    store: &dyn Store,
    run: &RunSettings,
    sealed: &SealedOptions,
    options: &CleanOptions,
) -> Result<Cleaned, FileError> {
    let depot = Depot::of(store, run)?;
    let (newest, _) = snapshot(depot.origin, run, sealed)?;
    for writer in options.abandon.iter().filter(|_| !options.dry_run) {
        at_work::abandon(&depot, writer)?;
    }
    let mut cleaning = Cleaning { depot, newest: &newest, cleaned: Cleaned::default() };
    let kept = cleaning.choose(options)?;
    let needed = cleaning.needed(&kept, sealed)?;
    let time = cleaning.time(options)?;
    let cutoff = cleaning.cutoff(time)?;
    let garbage = cleaning.garbage(&needed, cutoff)?;
    let removes = !cleaning.cleaned.removed.is_empty();
    if options.dry_run || garbage.is_empty() && !removes {
        cleaning.cleaned.files = garbage.len() as u64;
        cleaning.cleaned.bytes = garbage.iter().map(|(_, bytes)| bytes).sum();
        return Ok(cleaning.cleaned);
    }
    cleaning.announce(&kept, cutoff, sealed)?;
    for (path, bytes) in garbage {
        if run.control.is_stopped() {
            return Err(FileError::Interrupted);
        }
        depot.remove(&path)?;
        cleaning.cleaned.files += 1;
        cleaning.cleaned.bytes += bytes;
    }
    Ok(cleaning.cleaned)
}

struct Cleaning<'a> {
    depot: Depot<'a>,
    newest: &'a Snapshot<'a>,
    cleaned: Cleaned,
}

/// The files that kept generations need.
#[derive(Default)]
struct Needed {
    files: HashSet<StorageName>,
    keys: HashSet<KeyId>,
}

impl Cleaning<'_> {
    /// Chooses the generations to keep, the newest first.
    fn choose(&mut self, options: &CleanOptions) -> Result<Vec<Generation>, FileError> {
        let Snapshot { keys, generation: newest, .. } = self.newest;
        let roots = Roots { depot: &self.depot, keys };
        let mut kept = Vec::new();
        let mut step = Step::of(newest);
        loop {
            let number = step.claim.number;
            let is_whole = newest.claim.kept.as_ref().is_none_or(|it| it.contains(number));
            if is_whole {
                let generation = roots.open(number)?;
                if generation.digest != step.digest {
                    return Err(refused("a root was exchanged while it was read"));
                }
                let age = now().saturating_sub(generation.body.time);
                let is_young = options.keep_within.is_some_and(|within| age <= within as i64);
                match (kept.len() as u64) < options.keep.max(1) || is_young {
                    true => kept.push(generation),
                    false => self.cleaned.removed.push(number),
                }
            }
            if step.claim.before.is_none() {
                break;
            }
            step = roots.predecessor(&step)?;
        }
        self.cleaned.removed.sort_unstable();
        self.cleaned.kept = kept.iter().rev().map(|it| it.claim.number).collect();
        Ok(kept)
    }

    /// Reads the kept generations whole.
    fn needed(&self, kept: &[Generation], sealed: &SealedOptions) -> Result<Needed, FileError> {
        let mut needed = Needed::default();
        let mut seen: HashSet<[u8; 32]> = HashSet::new();
        for number in self.roots_of_keys()? {
            needed.keys.insert(number);
        }
        for generation in kept {
            let keys = Keys::new(self.newest.keys.tree(), &sealed.keychain)?;
            let number = generation.claim.number;
            let snapshot = Snapshot { depot: self.depot, keys, generation: generation.clone() };
            let nodes = &snapshot.generation.body.nodes;
            needed.files.extend(nodes.iter().map(|node| node.name));
            let mut blocks = HashSet::new();
            for part in snapshot.parts(Wanted::default()).without(&seen) {
                let part = part.map_err(|damage| {
                    refused(format!(
                        "generation {number} can't be read whole, so nothing is removed: {}",
                        fault_of(&damage)
                    ))
                })?;
                let Part::Block(reference, _, block) = part else { continue };
                needed.files.insert(reference.name);
                needed.keys.insert(reference.key.id());
                needed.keys.extend(block.keys.iter().map(|key| key.id()));
                for (_, entry) in &block.entries {
                    if let Kind::File(content) = &entry.kind {
                        needed.files.insert(content.name);
                    }
                }
                blocks.insert(reference.digest);
            }
            // Blocks that were passed over are named by generations that were read before.
            seen.extend(blocks);
        }
        Ok(needed)
    }

    /// The keys of all roots.
    fn roots_of_keys(&self) -> Result<Vec<KeyId>, FileError> {
        let roots = Roots { depot: &self.depot, keys: &self.newest.keys };
        let numbers = roots.numbers()?;
        Ok(numbers.into_iter().filter_map(|it| Some(roots.step(it).ok()?.claim.key)).collect())
    }

    /// The time by the clock of the place.
    fn time(&self, options: &CleanOptions) -> Result<i64, FileError> {
        if options.dry_run {
            return Ok(now());
        }
        Ok(AtWork::make(&self.depot)?.time)
    }

    /// The time before which files may go.
    fn cutoff(&mut self, time: i64) -> Result<i64, FileError> {
        let writers = at_work::all(&self.depot)?;
        let age = |writer: &at_work::FoundWriter| time.saturating_sub(writer.time);
        self.cleaned.writers = writers.iter().map(|it| (it.name.clone(), age(it))).collect();
        let oldest = writers.first().map_or(i64::MAX, |writer| writer.time);
        Ok(oldest.min(time.saturating_sub(DAY)))
    }

    /// The files that nobody needs, and their lengths.
    fn garbage(&mut self, needed: &Needed, cutoff: i64) -> Result<Vec<(String, u64)>, FileError> {
        let mut garbage = Vec::new();
        for directory in 0..=u8::MAX {
            let directory = format!("data/{directory:02x}");
            for entry in self.depot.list(&directory)? {
                let name =
                    name_of(&entry).and_then(|file| StorageName::from_text(&directory[5..], file));
                let Some(name) = name.filter(|name| !needed.files.contains(name)) else { continue };
                self.sort(name.path(), &entry, cutoff, &mut garbage);
            }
        }
        for entry in self.depot.list("keys")? {
            let Some(file) = name_of(&entry) else { continue };
            let key = file.split_once('.').and_then(|(key, _)| KeyId::from_text(key));
            if key.is_some_and(|key| !needed.keys.contains(&key)) {
                self.sort(format!("keys/{file}"), &entry, cutoff, &mut garbage);
            }
        }
        Ok(garbage)
    }

    fn sort(&mut self, path: String, entry: &Entry, cutoff: i64, garbage: &mut Vec<(String, u64)>) {
        let time = entry.metadata.modified_since_1970().map(|(seconds, _)| seconds);
        match time.is_some_and(|time| time < cutoff) {
            true => garbage.push((path, entry.length.unwrap_or(0))),
            false => self.cleaned.spared += 1,
        }
    }

    /// Makes the generation that says what is left.
    fn announce(
        &mut self,
        kept: &[Generation],
        cutoff: i64,
        sealed: &SealedOptions,
    ) -> Result<(), FileError> {
        let Snapshot { keys, generation: newest, .. } = self.newest;
        let state = sealed.state.as_ref().map(|(all, place)| State::of(all, place));
        let signing = match newest.body.signers.is_empty() {
            true => None,
            false => Some(
                Signing::of(state.as_ref(), sealed.signer.as_ref())?.among(&newest.body.signers)?,
            ),
        };
        let mut root = NewRoot::after(newest, Vec::new());
        let until = root.claim.number;
        let generations = kept.iter().rev().map(|it| it.claim.number).collect();
        root.claim.cutoff = cutoff.max(root.claim.cutoff);
        root.claim.kept = Some(Kept { until, generations });
        let key = keys.get(&self.depot, newest.claim.key)?;
        let pin = root.publish(&self.depot, &key, signing.as_ref(), state.as_ref())?;
        self.cleaned.generation = Some(pin.number);
        self.cleaned.kept.push(pin.number);
        Ok(())
    }
}

fn name_of(entry: &Entry) -> Option<&str> {
    Path::new(entry.name.path()).file_name()?.to_str()
}

/// Files that are younger are spared, in seconds.
const DAY: i64 = 24 * 60 * 60;
