//! From one place to another, by all workers.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use evener_core::{Engine, IgnorePoison, Kind, shown};
use evener_format::{Layout, Recipe};
use evener_pipeline::{PolicyName, Worker};

use super::parts::Assembly;
use super::{Abilities, Entry, Fault, Name, NewObject, Origin, Reading, Store};
use crate::record::Record;
use crate::seal::{
    Blob, Done, Draft, Feed, Objects, Opened, Order, Request, Room, Sealer, SegmentError,
    Workspace, affordable_workers, bytes_to_know, check_key, geometry_of,
};
use crate::seats::{self, Accounts};
use crate::selection::Watch;
use crate::tree::{no_target_name, target_name};
use crate::{
    Contradiction, Failure, FileError, KeyRing, Operation, OperationError, Options, Report,
    contradictions,
};

/// Encrypts, decrypts or verifies the objects of a place into another. Their names are kept, with
/// [`Options::suffix`] added or stripped. `store` is `None` exactly for [`Operation::Verify`].
///
/// An object appears in the store when it is complete, and plaintext only after it was
/// authenticated. Options that only apply to files on disks are refused or have no effect.
///
/// # Errors
/// [`OperationError::Incomplete`] when objects failed; all others are done.
/// [`OperationError::NotBegun`] when the operation could not begin.
pub fn transfer(
    operation: Operation,
    keys: &KeyRing,
    origin: &dyn Origin,
    store: Option<&dyn Store>,
    options: &Options,
) -> Result<Report, OperationError> {
    let started = Instant::now();
    let fail = |error| Failure { path: PathBuf::new(), error };
    let (cipher, direction) = (keys.primary().cipher(), operation.direction());
    contradictions::in_places(options).map_err(fail)?;
    contradictions::of_many_files(operation, keys).map_err(fail)?;
    if store.is_some() == (operation == Operation::Verify) {
        return Err(fail(Contradiction::TransferStore.into()).into());
    }
    let able = seats::able(options, cipher, direction).map_err(fail)?;
    let abilities = store.map_or(Abilities::QUICK, Store::abilities);
    let requests = [origin.abilities().requests(), abilities.requests()];
    let requests = requests.into_iter().filter(|most| *most > 1).min().unwrap_or(1);
    let mut seats = seats_for(&able, requests);
    let order =
        abilities.part().map(|part| order(options.memory, part)).transpose().map_err(fail)?;
    // Of each short object, a store that takes parts holds a third buffer.
    let memory = if order.is_some() { options.memory / 3 } else { options.memory };
    seats.truncate(affordable_workers(memory, keys));
    let options = match requests {
        1 => Cow::Borrowed(options),
        // The time of a call says nothing about an engine.
        _ => Cow::Owned(Options {
            policy: options.policy.clone().or_else(|| Some(Arc::new(PolicyName::Pull))),
            ..options.clone()
        }),
    };
    let work = Transfer {
        operation,
        keys,
        origin,
        store,
        part: abilities.part(),
        options: &options,
        record: Record::new(&options, Path::new("")),
        selection: options.selection.watch(),
    };
    let accounts = Accounts::open(&seats);
    let request = Request {
        operation,
        keys,
        control: &options.control,
        seats: &seats,
        memory,
        length: None,
        reads_back: false,
        order,
    };
    let sealer = Sealer::new(&work, &request);
    let run = options.run(cipher, direction, QUEUED_TASKS);
    let statistics = evener_pipeline::run(&seats, &run, &sealer, |queue| {
        work.walk(requests > 1, &sealer.feed(queue));
    });
    let unverified = sealer.unverified();
    work.sync();
    let mut report = Report {
        operation: operation.name().to_owned(),
        format: keys.primary().format().to_owned(),
        cipher: cipher.to_string(),
        ..Report::default()
    };
    work.into_report(&mut report);
    report.add_statistics(statistics);
    accounts.settle(&mut report);
    report.add_doubts(unverified.files.into_iter());
    report.add_unnamed_doubts(Path::new(""), unverified.unnamed);
    report.interrupted |= options.control.is_stopped();
    report.seconds = started.elapsed().as_secs_f64();
    report.into_result()
}

/// A seat for each call that the places want at once. The further ones are on engines that compute
/// on the calling thread: most of them wait for a place.
fn seats_for(able: &[Arc<dyn Engine>], requests: usize) -> Vec<Arc<dyn Engine>> {
    let computing = able.iter().filter(|engine| engine.description().kind == Kind::Cpu).cycle();
    let more = requests.saturating_sub(able.len());
    able.iter().chain(computing.take(more)).cloned().collect()
}

/// Half of the memory is for short objects. A quarter is for the parts of long ones, and a quarter
/// for what comes before its turn.
///
/// # Errors
/// When a quarter does not hold one part.
fn order(memory: usize, part: usize) -> Result<Order, FileError> {
    match memory / 4 / part {
        0 => Err(FileError::Memory { needed: 4 * part as u64 }),
        objects => Ok(Order { objects, early: memory / 4 / objects }),
    }
}

/// One transfer, shared by all workers.
struct Transfer<'a> {
    operation: Operation,
    keys: &'a KeyRing,
    origin: &'a dyn Origin,
    store: Option<&'a dyn Store>,
    part: Option<usize>,
    options: &'a Options,
    record: Record<'a>,
    selection: Watch<'a>,
}

/// An object of the origin, and the name of its output.
#[derive(Clone)]
struct Item {
    entry: Arc<Entry>,
    output: Name,
    /// The number of times that it has changed while it was read.
    changes: u32,
}

impl Transfer<'_> {
    /// Feeds the objects of the origin. Calls that take long are not made one after another by the
    /// same worker, and the longest objects, as far as seen, come first.
    fn walk(&self, is_slow: bool, feed: &Feed<'_, Self>) {
        let mut entries = self.origin.walk();
        while !self.options.control.is_stopped() {
            let mut seen: Vec<Entry> = Vec::new();
            let mut number = 0;
            for entry in entries.by_ref().take(SEEN_AT_ONCE) {
                number += 1;
                match entry {
                    Ok(entry) => seen.push(entry),
                    Err(fault) => self.record.failed(Path::new(""), fault.into()),
                }
            }
            if number == 0 {
                return;
            }
            if is_slow {
                seen.sort_by_key(|entry| std::cmp::Reverse(entry.length));
            }
            let items: Vec<_> = seen.into_iter().filter_map(|entry| self.item(entry)).collect();
            self.record.fed(items.len() as u64);
            for some in items.chunks(if is_slow { 1 } else { BATCH }) {
                feed.push((), some.to_vec());
            }
        }
        feed.stop();
    }

    /// An object to be done; `None` if it is left out.
    fn item(&self, entry: Entry) -> Option<Item> {
        let output = self.name_of_output(&entry.name);
        let plain = match self.operation {
            Operation::Encrypt => Some(&entry.name),
            Operation::Decrypt | Operation::Verify => output.as_ref(),
        };
        if !self.selection.takes_file(plain.unwrap_or(&entry.name).path()) {
            return None;
        }
        let Some(output) = output else {
            let file = entry.name.path().file_name().unwrap_or_default();
            let reason = no_target_name(file, &self.options.suffix).to_string();
            self.record.left_out(entry.name.path(), reason);
            return None;
        };
        Some(Item { entry: Arc::new(entry), output, changes: 0 })
    }

    /// The name of an object's output; `None` when a sealed object does not have the suffix.
    fn name_of_output(&self, name: &Name) -> Option<Name> {
        let file = name.path().file_name()?;
        let output = target_name(self.operation, file, &self.options.suffix)?;
        Name::new(name.path().with_file_name(output)).ok()
    }

    /// With `Existing::Resume`: returns whether an object's output is complete, by its length and
    /// its key.
    fn is_complete(
        &self,
        item: &Item,
        source: &Reading,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<bool, SegmentError> {
        let Some(store) = self.store.filter(|_| self.options.existing.resumes()) else {
            return Ok(false);
        };
        let Some(there) = store.look(&item.output).map_err(FileError::from)? else {
            return Ok(false);
        };
        let name = shown(item.output.path()).to_string();
        let opened = |first: &mut [u8]| {
            let origin = store.origin().ok_or(FileError::Place(Fault::Unread))?;
            Ok::<_, FileError>(origin.open(&item.output, first)?)
        };
        let length = match there.length {
            Some(length) => length,
            None => opened(&mut [])?.0.length(),
        };
        let (plain, sealed) = match self.operation {
            Operation::Encrypt => (source.length(), length),
            Operation::Decrypt | Operation::Verify => (length, source.length()),
        };
        let belongs = |recipe: &Recipe| {
            let geometry = match (recipe, self.operation) {
                (Recipe::Age(_), Operation::Encrypt) => {
                    geometry_of(recipe, &Reading(opened(&mut []).ok()?.0))
                }
                _ => geometry_of(recipe, source),
            };
            let layout = Layout::for_plaintext(&geometry.ok()?, plain).ok()?;
            (layout.sealed_length() == sealed).then_some(())
        };
        if !self.keys.recipes().any(|recipe| belongs(recipe).is_some()) {
            let difference = format!("has {length} bytes, which its source does not give");
            return Err(FileError::Differs { name, difference }.into());
        }
        if self.operation == Operation::Encrypt {
            let Room { input, scratch, .. } = room;
            let length = bytes_to_know(self.keys).min(sealed) as usize;
            let needed = FileError::Memory { needed: 2 * length as u64 };
            let beginning = input.get_mut(..length).ok_or(needed)?;
            let (blob, read) = opened(beginning)?;
            if let Some(rest) = beginning.get_mut(read..).filter(|rest| !rest.is_empty()) {
                blob.read_at(rest, read as u64).map_err(FileError::from)?;
            }
            check_key(self.keys, beginning, &Reading(blob), scratch, worker).map_err(|error| {
                match error {
                    SegmentError::File(FileError::Format(_) | FileError::Rejected { .. }) => {
                        FileError::OtherKey(name).into()
                    }
                    other => other,
                }
            })?;
        }
        Ok(true)
    }

    fn sync(&self) {
        let store = self.store.filter(|_| self.options.durable);
        if let Some(Err(fault)) = store.map(Store::sync) {
            self.record.failed(Path::new(""), fault.into());
        }
    }

    fn into_report(self, report: &mut Report) {
        let suffix = Some(&*self.options.suffix).filter(|_| self.operation != Operation::Encrypt);
        if !self.options.control.is_stopped() {
            for reason in self.selection.notices(suffix) {
                self.record.notice(Path::new(""), reason);
            }
            for (path, error) in self.selection.missing(suffix) {
                self.record.failed(path, error);
            }
        }
        self.record.into_report(report);
    }
}

/// An output. Of a draft that has failed, only the reason is left.
struct Writing(Mutex<Result<Assembly, Fault>>);

impl Draft for Writing {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        let mut assembly = self.0.lock().ignore_poison();
        let written = match &mut *assembly {
            Ok(open) => open.write_at(bytes, offset),
            Err(fault) => Err(fault.clone()),
        };
        if let Err(fault) = &written {
            *assembly = Err(fault.clone());
        }
        Ok(written?)
    }
}

impl Objects for Transfer<'_> {
    type Group = ();
    type Item = Item;
    type Blob = Reading;
    type Draft = Writing;

    fn is_same((): &(), (): &()) -> bool {
        true
    }

    fn open(
        &self,
        (): &(),
        item: &Item,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<Opened<Reading>, SegmentError> {
        // The first bytes of a long plain object are read with its first segment.
        let room_for = room.input.len() as u64;
        let is_long = item.entry.length.is_some_and(|length| length > room_for);
        let is_read_later = is_long && self.operation == Operation::Encrypt;
        let first: &mut [u8] = if self.options.existing.resumes() || is_read_later {
            &mut []
        } else {
            &mut *room.input
        };
        let (blob, read) = self.origin.open(&item.entry.name, first).map_err(FileError::from)?;
        let source = Reading(blob);
        let read = read.min(usize::try_from(source.length()).unwrap_or(usize::MAX));
        let is_all = room.is_all;
        match self.is_complete(item, &source, room, worker) {
            Ok(false) => Ok(Opened::Blob(source, read)),
            Ok(true) => {
                self.record.skipped(|| item.entry.name.path().to_owned(), source.length());
                Ok(Opened::Finished)
            }
            Err(SegmentError::File(FileError::Memory { .. })) if !is_all => Ok(Opened::Full),
            Err(error) => Err(error),
        }
    }

    fn begin(&self, (): &(), item: &Item, source: &Reading) -> Result<Option<Writing>, FileError> {
        let Some(store) = self.store else { return Ok(None) };
        let geometry = self.keys.primary().geometry();
        let longest = match self.operation {
            Operation::Encrypt => {
                Layout::for_plaintext(&geometry, source.length())?.sealed_length()
            }
            Operation::Decrypt | Operation::Verify => source.length(),
        };
        let object =
            NewObject { name: &item.output, replaces: self.options.existing.overwrites(), longest };
        let assembly = Assembly::new(store.begin(&object)?, self.part, longest)?;
        Ok(Some(Writing(Mutex::new(Ok(assembly)))))
    }

    fn finish(
        &self,
        done: Done<'_, Self>,
        output: Option<Writing>,
        _: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError> {
        let Done { item, blob, length, .. } = done;
        blob.0.check()?;
        let mut written = 0;
        if let Some(output) = output {
            output.0.into_inner().ignore_poison()?.publish(length)?;
            written = length;
        }
        self.record.done(|| item.entry.name.path().to_owned(), blob.length(), written, false);
        worker.count_units(1);
        Ok(())
    }

    fn again(&self, item: &Item, error: &FileError) -> Option<Item> {
        let has_changed = *error == FileError::Place(Fault::Changed);
        let may = has_changed && item.changes < MOST_REPEATS && !self.options.control.is_stopped();
        may.then(|| Item { changes: item.changes + 1, ..item.clone() })
    }

    fn returned(item: Item) -> Item {
        item
    }

    fn failed(&self, (): &(), item: &Item, error: FileError) {
        self.record.failed_file(item.entry.name.path(), error);
    }

    fn at_output(&self, (): &(), _: &Item, error: FileError) -> FileError {
        error
    }

    fn path((): &(), item: &Item) -> PathBuf {
        item.entry.name.path().to_owned()
    }
}

/// The most tasks that wait.
const QUEUED_TASKS: usize = 64;

/// The number of objects in one task of quick places.
const BATCH: usize = 32;

/// The number of objects among which the longest come first.
const SEEN_AT_ONCE: usize = 1024;

/// How many times an object that changed while it was read is read again.
const MOST_REPEATS: u32 = 3;
