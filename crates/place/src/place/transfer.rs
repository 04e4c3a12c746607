//! From one place to another, by all workers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use evener_core::Engine;
use evener_keys::{has_wrapped_key_name, is_wrapped_key_name};
use evener_pipeline::PolicyName;

use super::pretence::Pretence;
use super::structure::Structure;
use super::{Abilities, Entry, Metadata, Name, Origin, Reading, Store};
use crate::left_out;
use crate::record::Record;
use crate::seats::{self, Accounts};
use crate::selection::Watch;
use crate::tree::refuse_overlap;
use crate::{
    Contradiction, Control, Failure, FileError, KeyRing, Operation, OperationError, Refusal,
    Report, RunSettings, TransferOptions, contradictions,
};
use evener_seal::{Feed, Order, Request, Sealer, affordable_workers};

/// Encrypts, decrypts or verifies the objects of a place into another. Their names are kept, and
/// sealed or opened as [`TransferOptions::names`] says. `store` is `None` exactly for
/// [`Operation::Verify`].
///
/// An object appears in the store when it is complete, and plaintext only after it was
/// authenticated. Directories and links keep their names, and go to a store that is a
/// [`Tree`](super::Tree). In another store, an object with several names is stored several times,
/// which a notice says; a symbolic link or an empty directory is a failure.
///
/// # Errors
/// [`OperationError::Incomplete`] when objects failed; all others are done.
/// [`OperationError::NotBegun`] when the operation could not begin.
pub fn transfer(
    operation: Operation,
    keys: &KeyRing,
    origin: &dyn Origin,
    store: Option<&dyn Store>,
    run: &RunSettings,
    options: &TransferOptions,
) -> Result<Report, OperationError> {
    let started = Instant::now();
    let fail = |error| Failure { path: PathBuf::new(), error };
    let (cipher, direction) = (keys.primary().cipher(), operation.direction());
    contradictions::in_run(run).map_err(fail)?;
    contradictions::of_many_files(operation, keys).map_err(fail)?;
    if store.is_some() == (operation == Operation::Verify) {
        return Err(fail(Contradiction::TransferStore.into()).into());
    }
    if let (Some(source), Some(target)) = (origin.path(), store.and_then(Store::path)) {
        refuse_overlap(source, target)?;
    }
    let pretence = store.filter(|_| options.dry_run).map(Pretence);
    let store = pretence.as_ref().map(|it| it as &dyn Store).or(store);
    let root = &*origin.label();
    let able = seats::able(run, cipher, direction).map_err(fail)?;
    let abilities = store.map_or(Abilities::QUICK, Store::abilities);
    let requests = [origin.abilities().requests(), abilities.requests()];
    let requests = requests.into_iter().filter(|most| *most > 1).min().unwrap_or(1);
    let mut seats = seats_for(&able, requests);
    let order = abilities.part().map(|part| order(run.memory, part)).transpose().map_err(fail)?;
    // Of each short object, a store that takes parts holds a third buffer.
    let memory = if order.is_some() { run.memory / 3 } else { run.memory };
    seats.truncate(affordable_workers(memory, keys));
    let work = Transfer {
        operation,
        keys,
        origin,
        store,
        part: abilities.part(),
        options,
        control: &run.control,
        record: Record::new(run, root),
        selection: options.selection.watch(),
        old: Mutex::default(),
        lacks_change_times: AtomicBool::new(false),
    };
    let accounts = Accounts::open(&seats);
    let request = Request {
        operation,
        keys,
        control: &run.control,
        seats: &seats,
        memory,
        length: None,
        reads_back: false,
        order,
    };
    let sealer = Sealer::new(&work, &request);
    let mut run_options = run.options(cipher, direction, QUEUED_TASKS);
    // The time of a call says nothing about an engine.
    if requests > 1 && run.policy.is_none() {
        run_options.policy = Arc::new(PolicyName::Pull);
    }
    let mut structure = work.structure();
    let statistics = evener_pipeline::run(&seats, &run_options, &sealer, |queue| {
        work.walk(requests > 1, &mut structure, &sealer.feed(queue));
    });
    let mut report = Report {
        operation: operation.name().to_owned(),
        format: keys.primary().format().to_owned(),
        cipher: cipher.to_string(),
        dry_run: options.dry_run,
        update: options.update,
        ..Report::default()
    };
    let apart = work.make_links(&mut structure, &mut report);
    if !apart.is_empty() {
        let more = evener_pipeline::run(&seats, &run_options, &sealer, |queue| {
            feed_items(apart, requests > 1, &sealer.feed(queue));
        });
        report.add_statistics(more);
    }
    work.settle(structure, &mut report);
    work.sync();
    let unverified = sealer.unverified();
    work.into_report(&mut report);
    report.add_statistics(statistics);
    accounts.settle(&mut report);
    report.add_doubts(unverified.files.into_iter().map(|(engine, path)| (engine, root.join(path))));
    report.add_unnamed_doubts(root, unverified.unnamed);
    report.interrupted |= run.control.is_stopped();
    report.seconds = started.elapsed().as_secs_f64();
    report.into_result()
}

/// A seat for each call that the places want at once. The further ones are on engines that compute
/// on the calling thread: most of them wait for a place.
pub(crate) fn seats_for(able: &[Arc<dyn Engine>], requests: usize) -> Vec<Arc<dyn Engine>> {
    let computing =
        able.iter().filter(|engine| engine.description().kind == evener_core::Kind::Cpu).cycle();
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
pub(super) struct Transfer<'a> {
    pub(super) operation: Operation,
    pub(super) keys: &'a KeyRing,
    pub(super) origin: &'a dyn Origin,
    pub(super) store: Option<&'a dyn Store>,
    pub(super) part: Option<usize>,
    pub(super) options: &'a TransferOptions,
    pub(super) control: &'a Control,
    pub(super) record: Record<'a>,
    selection: Watch<'a>,
    /// The existing outputs that an update will replace, until it begins them.
    pub(super) old: Mutex<HashSet<Name>>,
    lacks_change_times: AtomicBool,
}

/// An object of the origin, and the name of its output.
#[derive(Clone)]
pub(super) struct Item {
    pub(super) entry: Arc<Entry>,
    pub(super) output: Name,
    /// The number of times that it has changed while it was read.
    pub(super) changes: u32,
}

fn feed_items(items: Vec<Item>, is_slow: bool, feed: &Feed<'_, Transfer<'_>>) {
    let at_once = if is_slow { 1 } else { BATCH };
    let mut items = items.into_iter();
    while items.len() > 0 {
        feed.push((), items.by_ref().take(at_once).collect());
    }
}

impl Transfer<'_> {
    /// Feeds the objects of the origin. Calls that take long are not made one after another by the
    /// same worker, and the longest objects, as far as seen, come first.
    fn walk(&self, is_slow: bool, structure: &mut Structure, feed: &Feed<'_, Self>) {
        let mut entries = self.origin.walk();
        let at_once = if is_slow { SEEN_AT_ONCE } else { BATCH };
        while !self.control.is_stopped() {
            let mut items: Vec<Item> = Vec::new();
            let mut number = 0;
            for entry in entries.by_ref().take(at_once) {
                number += 1;
                match entry {
                    Ok(entry) => items.extend(self.sort(entry, structure)),
                    Err(fault) => {
                        let path = fault.entry().map_or(Path::new(""), Name::path).to_owned();
                        self.record.failed(&path, fault.into());
                    }
                }
            }
            if number == 0 {
                return;
            }
            if is_slow {
                items.sort_by_key(|item| std::cmp::Reverse(item.entry.length));
            }
            self.record.fed(items.len() as u64);
            feed_items(items, is_slow, feed);
        }
        feed.stop();
    }

    /// An object to be done; `None` if it is left out.
    pub(super) fn item(&self, entry: Entry) -> Option<Item> {
        let path = entry.name.path();
        if !self.takes_object(path) {
            return None;
        }
        let encrypts = self.operation == Operation::Encrypt;
        if !encrypts && !self.options.names.are_kept() && has_wrapped_key_name(path) {
            // Among age files, one may have such a name.
            if self.keys.is_of_age() {
                self.record.left_out(path, left_out::WRAPPED_KEY);
            }
            return None;
        }
        match self.name_of_output(&entry.name) {
            Ok(output) if encrypts && is_wrapped_key_name(None, output.path().as_os_str()) => {
                self.record.failed(path, Refusal::NameOfWrappedKey.into());
                None
            }
            Ok(output) => Some(Item { entry: Arc::new(entry), output, changes: 0 }),
            Err(reason) => {
                self.record.left_out(path, reason.to_string());
                None
            }
        }
    }

    /// The name of an object's output; `None` if the object is left out.
    pub(super) fn output_of(&self, name: &Name) -> Option<Name> {
        self.name_of_output(name).ok().filter(|_| self.takes_object(name.path()))
    }

    /// Globs and paths are those of plain objects.
    fn takes_object(&self, path: &Path) -> bool {
        if self.options.selection.takes_everything() {
            return true;
        }
        let file = path.file_name().unwrap_or_default();
        self.takes(&path.with_file_name(self.options.names.plain(self.operation, file)))
    }

    /// Returns whether the object or link with this path is taken.
    pub(super) fn takes(&self, path: &Path) -> bool {
        self.selection.takes_below_root(path)
    }

    /// Returns whether the directory with this path is taken, and all that it is in.
    pub(super) fn takes_directory(&self, path: &Path) -> bool {
        self.selection.enters(path)
    }

    fn name_of_output(&self, name: &Name) -> Result<Name, FileError> {
        let file = name.path().file_name().unwrap_or_default();
        let output = self.options.names.output(self.operation, file)?;
        Ok(Name::found(name.path().with_file_name(output)))
    }

    /// Notes that an output was compared only by size and time.
    pub(super) fn lack_change_times(&self) {
        self.lacks_change_times.store(true, Ordering::Relaxed);
    }

    fn sync(&self) {
        let store = self.store.filter(|_| self.options.durable && !self.options.dry_run);
        if let Some(Err(fault)) = store.map(Store::sync) {
            self.record.failed(Path::new(""), fault.into());
        }
    }

    fn into_report(self, report: &mut Report) {
        let suffix = Some(self.options.names.suffix());
        let suffix = suffix.filter(|it| self.operation != Operation::Encrypt && !it.is_empty());
        if self.lacks_change_times.load(Ordering::Relaxed) {
            self.record.notice(Path::new(""), LACKED);
        }
        if !self.control.is_stopped() {
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

impl Item {
    /// The metadata of the open object.
    pub(super) fn metadata<'m>(&'m self, source: &'m Reading) -> &'m Metadata {
        source.0.metadata().unwrap_or(&self.entry.metadata)
    }
}

/// The most tasks that wait.
const QUEUED_TASKS: usize = 64;

/// The number of objects in one task of quick places.
const BATCH: usize = 32;

/// The number of objects among which the longest come first.
const SEEN_AT_ONCE: usize = 1024;

const LACKED: &str = "the places don't tell when sources were last changed, so those whose size and \
     time are their outputs' were taken for unchanged";
