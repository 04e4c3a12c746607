//! Removes what no kept generation needs.

use std::path::Path;

use evener_format::index::{Kept, KeyId, MOST_FILE, StorageName};
use serde::Serialize;

use super::at_work::{self, AtWork};
use super::base::{is_valid, says_nothing};
use super::depot::{Depot, refused};
use super::keys::Keys;
use super::needs::Needs;
use super::origin::fault_of;
use super::reader::snapshot;
use super::roots::{Generation, Roots, Step, root_path};
use super::snapshot::Snapshot;
use super::state::State;
use super::succession::{NewRoot, Signing, now};
use super::writer::SealedOptions;
use crate::place::{Entry, Store};
use crate::{Fault, FileError, RunSettings};

/// The generations that cleaning keeps.
#[derive(Clone, Debug, Default)]
pub struct CleanOptions {
    /// The number of snapshots, with the newest; at least 1. Generations with the same content, such
    /// as those that cleaning makes, are one snapshot.
    pub keep: u64,
    /// Also keep snapshots made in this many seconds before now.
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
    let state = sealed.place_state();
    if let Some(state) = state.as_ref().filter(|_| !options.dry_run) {
        at_work::forget_dead(&depot, state)?;
    }
    if !options.dry_run {
        sweep(&depot)?;
    }
    let mut cleaning = Cleaning { depot, state, newest: &newest, cleaned: Cleaned::default() };
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
    state: Option<State>,
    newest: &'a Snapshot<'a>,
    cleaned: Cleaned,
}

impl Cleaning<'_> {
    /// Chooses the generations to keep, the newest first.
    fn choose(&mut self, options: &CleanOptions) -> Result<Vec<Generation>, FileError> {
        let Snapshot { keys, generation: newest, .. } = self.newest;
        let roots = Roots { depot: &self.depot, keys };
        let mut snapshots: Vec<Vec<Generation>> = Vec::new();
        let mut step = Step::of(newest);
        loop {
            let number = step.claim.number;
            let is_whole = newest.claim.kept.as_ref().is_none_or(|it| it.contains(number));
            let is_enough = snapshots.len() as u64 >= options.keep.max(1);
            let may_go = is_enough && options.keep_within.is_none();
            if is_whole && may_go && self.lacks_key(&step) {
                self.cleaned.removed.push(number);
            } else if is_whole {
                let generation = self.open(&roots, &step, snapshots.len())?;
                if generation.digest != step.digest {
                    return Err(refused("a root was exchanged while it was read"));
                }
                // Cleaning and a change of signers make generations with the content of the last one.
                let same = |it: &&mut Vec<Generation>| it[0].body.nodes == generation.body.nodes;
                match snapshots.last_mut().filter(same) {
                    Some(snapshot) => snapshot.push(generation),
                    None => snapshots.push(vec![generation]),
                }
            }
            if step.claim.before.is_none() {
                break;
            }
            step = roots.predecessor(&step)?;
        }
        let (mut kept, mut left) = (Vec::new(), options.keep.max(1));
        for snapshot in snapshots {
            let made = snapshot.last().map_or(0, |it| it.body.time);
            let age = now().saturating_sub(made);
            let is_young = options.keep_within.is_some_and(|within| age <= within as i64);
            match left > 0 || is_young {
                true => kept.extend(snapshot),
                false => self.cleaned.removed.extend(snapshot.iter().map(|it| it.claim.number)),
            }
            left = left.saturating_sub(1);
        }
        self.cleaned.removed.sort_unstable();
        self.cleaned.kept = kept.iter().rev().map(|it| it.claim.number).collect();
        Ok(kept)
    }

    /// Returns whether a generation is under a key that is not here.
    fn lacks_key(&self, step: &Step) -> bool {
        let key = self.newest.keys.get(&self.depot, step.claim.key);
        key.is_err_and(|error| !says_nothing(&error))
    }

    /// Opens a generation. It may be under another key than the newest one.
    fn open(&self, roots: &Roots<'_>, step: &Step, newer: usize) -> Result<Generation, FileError> {
        let (number, key) = (step.claim.number, step.claim.key);
        match self.newest.keys.get(&self.depot, key) {
            Err(error) if newer > 0 && !says_nothing(&error) => Err(refused(format!(
                "generation {number} is under another key: give that too, or remove the generation \
                 with --keep {newer} ({error})"
            ))),
            _ => roots.open(number),
        }
    }

    /// Reads the kept generations whole.
    fn needed(&self, kept: &[Generation], sealed: &SealedOptions) -> Result<Needs, FileError> {
        let keys = Keys::new(self.newest.keys.tree(), &sealed.keychain)?;
        let mut needed = Needs::of(self.depot, keys, kept, |number, damage| {
            Err(refused(format!(
                "generation {number} can't be read whole, so nothing is removed: {}",
                fault_of(&damage)
            )))
        })?;
        needed.keys.extend(self.roots_of_keys()?);
        Ok(needed)
    }

    /// The keys of all roots.
    fn roots_of_keys(&self) -> Result<Vec<KeyId>, FileError> {
        let roots = Roots { depot: &self.depot, keys: &self.newest.keys };
        let numbers = roots.numbers()?;
        let mut keys = Vec::new();
        for number in numbers {
            match roots.step(number) {
                Ok(step) => keys.push(step.claim.key),
                // A file that is no root needs no key.
                failed => drop(is_valid(failed)?),
            }
        }
        Ok(keys)
    }

    /// The time by the clock of the place.
    fn time(&self, options: &CleanOptions) -> Result<i64, FileError> {
        if options.dry_run {
            return Ok(now());
        }
        let at_work = AtWork::make(&self.depot, self.state.as_ref());
        Ok(at_work.map_err(|error| self.needs_room(error))?.time)
    }

    /// Says how much a full disk lacks.
    fn needs_room(&self, error: FileError) -> FileError {
        let number = self.newest.generation.claim.number;
        match error {
            FileError::Place(Fault::Closed(reason))
                if FULL.iter().any(|it| reason.contains(it)) =>
            {
                let root = self.depot.read(&root_path(number), MOST_FILE).ok().flatten();
                let room = root.map_or(0, |root| root.len() / 1024) + 16;
                let reason = format!(
                    "{reason}; cleaning writes a new root before it removes anything: make {room} \
                     KiB of room on this disk"
                );
                Fault::Closed(reason).into()
            }
            error => error,
        }
    }

    /// The time before which files may go.
    fn cutoff(&mut self, time: i64) -> Result<i64, FileError> {
        let mut writers = at_work::all(&self.depot)?;
        if let Some(state) = &self.state {
            let dead = state.dead_writers()?;
            writers.retain(|it| !dead.iter().any(|(name, _)| *name == it.name));
        }
        let age = |writer: &at_work::FoundWriter| time.saturating_sub(writer.time);
        self.cleaned.writers = writers.iter().map(|it| (it.name.clone(), age(it))).collect();
        let oldest = writers.first().map_or(i64::MAX, |writer| writer.time);
        // The place may say of this run's file what it likes.
        Ok(oldest.min(time.min(now()).saturating_sub(DAY)))
    }

    /// The files that nobody needs, and their lengths.
    fn garbage(&mut self, needed: &Needs, cutoff: i64) -> Result<Vec<(String, u64)>, FileError> {
        let mut garbage = Vec::new();
        for directory in directories_of_data() {
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
        let state = self.state.as_ref();
        let signing = match newest.body.signers.is_empty() {
            true => None,
            false => Some(
                Signing::of(state, sealed.signer.as_ref(), Some(keys.tree()))?
                    .among(&newest.body.signers)?,
            ),
        };
        let mut root = NewRoot::after(newest, Vec::new());
        let until = root.claim.number;
        let generations = kept.iter().rev().map(|it| it.claim.number).collect();
        root.claim.cutoff = cutoff.max(root.claim.cutoff);
        root.claim.kept = Some(Kept { until, generations });
        let key = keys.get(&self.depot, newest.claim.key)?;
        let pin = root.publish(&self.depot, &key, signing.as_ref(), state);
        let pin = pin.map_err(|error| self.needs_room(error))?;
        self.cleaned.generation = Some(pin.number);
        self.cleaned.kept.push(pin.number);
        Ok(())
    }
}

/// Removes the unfinished files of killed runs.
fn sweep(depot: &Depot<'_>) -> Result<(), FileError> {
    ["", "tree", "keys", "writers"].into_iter().try_for_each(|it| depot.sweep(it))?;
    directories_of_data().try_for_each(|directory| depot.sweep(&directory))
}

/// The directories that `data/` may have.
fn directories_of_data() -> impl Iterator<Item = String> {
    (0..=u8::MAX).map(|directory| format!("data/{directory:02x}"))
}

fn name_of(entry: &Entry) -> Option<&str> {
    Path::new(entry.name.path()).file_name()?.to_str()
}

/// The system's messages for a full disk.
const FULL: [&str; 2] = ["No space left", "quota exceeded"];

/// Files that are younger are spared, in seconds.
const DAY: i64 = 24 * 60 * 60;
