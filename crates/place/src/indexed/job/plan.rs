//! Plans a job: lists its source, and cuts it into shards.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use evener_core::{IgnorePoison, Key};
use evener_format::index::{Border, JobFile, JobId, JobKeys, Padding, TreeId};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::super::at_work;
use super::super::depot::{Created, Depot, refused};
use super::super::keys::Keys;
use super::super::state::hexadecimal;
use super::super::writer::{SealedOptions, Writer};
use super::clean::remove_all;
use super::manifest::{MANIFEST, MARKER, Manifest, Shard, VERSION, create_marker, shard_path};
use super::rows::{Row, RowWriter};
use super::shards::{Cutter, ShardRule};
use super::sorter::{Merged, Sorter, is_object};
use crate::place::{Entry, Kind, Origin, Store};
use crate::temporary::is_temporary_name;
use crate::{Failure, Fault, FileError, Notice, RunSettings, TransferOptions};

/// The options of planning.
#[derive(Clone, Default)]
pub struct PlanOptions {
    /// Where shards end.
    pub rule: ShardRule,
    /// The places of the job, of the source and of the target, in words that mean the same on every
    /// worker's machine.
    pub job: String,
    /// See [`PlanOptions::job`].
    pub source: String,
    /// See [`PlanOptions::job`].
    pub target: String,
    /// The recipients for whom each attempt wraps a key of its own; empty if the job's key seals.
    pub recipients: Vec<String>,
    /// The bytes of memory in which rows are sorted; the others go to the temporary directory.
    pub memory: usize,
}

/// The result of planning.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Planned {
    /// The job, in hexadecimal.
    pub job: String,
    /// The generation that it is to make.
    pub generation: u64,
    /// The number of shards.
    pub shards: u64,
    /// The number of entries.
    pub entries: u64,
    /// The number of objects among them.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries that are not taken, such as sockets.
    pub notices: Vec<Notice>,
}

/// The ends of a job.
#[derive(Clone, Copy)]
pub struct Ends<'a> {
    /// The source.
    pub source: &'a dyn Origin,
    /// The place of the sealed tree.
    pub target: &'a dyn Store,
    /// The place of the job's own files.
    pub job: &'a dyn Store,
    /// The SHA-256 of the manifest that told the ends ([`JobInfo::manifest`](super::JobInfo)), so
    /// that no other one takes its place; not for planning.
    pub manifest: Option<[u8; 32]>,
}

/// Plans a job: writes its shards and its manifest, and begins the tree if there is none.
///
/// # Errors
/// When the source can't be listed whole, or one of its entries can't be taken: then there is no
/// job. The failure names it.
pub fn plan(
    ends: &Ends<'_>,
    run: &RunSettings,
    options: &TransferOptions,
    sealed: &SealedOptions,
    key: &Key,
    plan: &PlanOptions,
) -> Result<Planned, Failure> {
    let mut planned = Planned::default();
    let rows = sorted(ends.source, run, options, plan, &mut planned)?;
    let of_job = |error| Failure { path: ends.job.label(), error };
    let depot = Depot::of(ends.job, run).map_err(of_job)?;
    let job = JobId::random().map_err(|error| of_job(error.into()))?;
    let keys = JobKeys::new(key, job).map_err(|error| of_job(error.into()))?;
    if depot.list("").map_err(of_job)?.iter().any(|entry| !is_leftover(entry)) {
        return Err(of_job(refused(match depot.read(MARKER, 4096) {
            Ok(Some(_)) => {
                "it is a job already; plan in another place, or remove that job with \
                            `evener job clean`"
            }
            _ => "it holds something else; a job's own files need a new or an empty place",
        })));
    }
    create_marker(&depot, job).map_err(of_job)?;
    let written = write_plan(ends, &depot, &keys, rows, (run, options, sealed, plan), &mut planned);
    if written.is_err() {
        // Nobody can use it, and it would be in the way of the next plan.
        drop(remove_all(&depot, ends.job));
    }
    written.map(|()| planned)
}

/// Writes the files of a job, the manifest last.
fn write_plan(
    ends: &Ends<'_>,
    depot: &Depot<'_>,
    keys: &JobKeys,
    rows: Merged,
    (run, options, sealed, plan): (&RunSettings, &TransferOptions, &SealedOptions, &PlanOptions),
    planned: &mut Planned,
) -> Result<(), Failure> {
    let of_job = |error| Failure { path: ends.job.label(), error };
    let of_target = |error| Failure { path: ends.target.label(), error };
    let requests = ends.job.abilities().requests();
    let of_source = |error| Failure { path: ends.source.label(), error };
    let mut shards = cut(depot, keys, rows, plan.rule, requests).map_err(|error| match error {
        CutError::Source(error) => of_source(error),
        CutError::Job(error) => of_job(error),
    })?;
    // A source has an entry of its own.
    let root = hexadecimal(b"");
    if shards.iter().all(|shard| shard.entries == u64::from(shard.first == root)) {
        return Err(Failure { path: ends.source.label(), error: refused(NOTHING) });
    }
    // The longest come first, so that nobody waits for one at the end.
    shards.sort_by_key(|shard| (std::cmp::Reverse(shard.bytes), shard.place));
    planned.job = keys.job().to_string();
    planned.shards = shards.len() as u64;
    planned.entries = shards.iter().map(|shard| shard.entries).sum();
    planned.objects = shards.iter().map(|shard| shard.objects).sum();
    planned.bytes = shards.iter().map(|shard| shard.bytes).sum();
    // Last of all: a tree that has been begun and has no generation is in the way of others.
    let target = Target::find(ends.target, run, options, sealed).map_err(of_target)?;
    planned.generation = target.generation;
    let manifest = Manifest {
        version: VERSION,
        place: plan.job.clone(),
        source: plan.source.clone(),
        target: plan.target.clone(),
        tree: target.tree.to_string(),
        generation: target.generation,
        base: target.base,
        border: hexadecimal(&target.border.0),
        padding: target.padding.map(|padding| padding.floor),
        is_signed: target.is_signed || !plan.recipients.is_empty(),
        recipients: plan.recipients.clone(),
        writer: target.writer,
        entries: planned.entries,
        objects: planned.objects,
        bytes: planned.bytes,
        shards,
    };
    let plain =
        serde_json::to_vec(&manifest).map_err(|error| of_job(refused(error.to_string())))?;
    let written = write(depot, keys, JobFile::Manifest, MANIFEST, &plain);
    if written.is_err() {
        let target = Depot::of(ends.target, run);
        drop(target.and_then(|target| at_work::forget(&target, vec![manifest.writer])));
    }
    written.map_err(of_job).map(drop)
}

/// Returns whether an entry is an unfinished file, or one by which a store was tried.
fn is_leftover(entry: &Entry) -> bool {
    let name = entry.name.path().file_name().unwrap_or_default();
    is_temporary_name(name.as_encoded_bytes())
}

/// All rows in order.
fn sorted(
    source: &dyn Origin,
    run: &RunSettings,
    options: &TransferOptions,
    plan: &PlanOptions,
    planned: &mut Planned,
) -> Result<Merged, Failure> {
    let root = source.label();
    let at_root = |error| Failure { path: root.clone(), error };
    let selection = options.selection.watch();
    let (mut sorter, mut directory) = (Sorter::new(plan.memory), [].into());
    for entry in source.walk() {
        if run.control.is_stopped() {
            return Err(at_root(FileError::Interrupted));
        }
        let entry = match entry {
            Err(Fault::Entry { name, .. }) if !selection.takes_below_root(name.path()) => continue,
            Err(Fault::Entry { name, reason }) => {
                let path = root.join(name.path());
                return Err(Failure { path, error: Fault::Failed(reason).into() });
            }
            entry => entry.map_err(|fault| at_root(fault.into()))?,
        };
        let path = entry.name.path();
        let is_taken = match entry.kind {
            Kind::Directory => selection.enters(path),
            _ => selection.takes_below_root(path),
        };
        if !is_taken {
            continue;
        }
        match (Row::of(&mut directory, &entry), &entry.kind) {
            (Some(row), _) => {
                run.control.found(1, row.size());
                row.check().map_err(|error| Failure { path: root.join(path), error })?;
                sorter.push(row).map_err(at_root)?;
            }
            (None, Kind::LeftOut(reason)) => {
                planned.notices.push(Notice { path: root.join(path), reason: reason.clone() });
            }
            (None, _) => {}
        }
    }
    if let Some((path, error)) = selection.missing(None).into_iter().next() {
        return Err(Failure { path: root.join(path), error });
    }
    sorter.finish().map_err(at_root)
}

/// The tree that a job adds a generation to.
struct Target {
    tree: TreeId,
    generation: u64,
    base: Option<(u64, String)>,
    border: Border,
    padding: Option<Padding>,
    is_signed: bool,
    /// The planner's file in `writers/`, which has cleaning spare the job's files.
    writer: String,
}

impl Target {
    /// Finds the tree, or begins it.
    fn find(
        store: &dyn Store,
        run: &RunSettings,
        options: &TransferOptions,
        sealed: &SealedOptions,
    ) -> Result<Target, FileError> {
        let writer = Writer::of(store, run, options, sealed)?;
        let state = sealed.place_state();
        let tree = writer.find_or_begin(state.as_ref())?;
        if let Some(state) = &state {
            sealed.check_audience(&writer.depot, state, tree)?;
        }
        if is_begun_by_others(&writer.depot)? {
            return Err(refused(BUSY));
        }
        let base = writer.base(&Keys::new(tree, &sealed.keychain)?, state.as_ref())?;
        Ok(Target {
            tree,
            generation: base.next(),
            base: base.claim.as_ref().map(|(claim, digest)| (claim.number, digest.to_string())),
            border: base.border,
            padding: base.padding,
            is_signed: !base.signers.is_empty() || sealed.signer.is_some(),
            writer: at_work::announce(&writer.depot)?,
        })
    }
}

/// Returns whether others are making the first generation of a tree. They may have another key.
fn is_begun_by_others(depot: &Depot<'_>) -> Result<bool, FileError> {
    Ok(depot.list("tree")?.is_empty() && !at_work::all(depot)?.is_empty())
}

/// Cuts rows into shards, and writes their files.
fn cut(
    depot: &Depot<'_>,
    keys: &JobKeys,
    mut rows: Merged,
    rule: ShardRule,
    requests: usize,
) -> Result<Vec<Shard>, CutError> {
    let (sender, receiver) = sync_channel::<Open>(1);
    let (receiver, written) = (Mutex::new(receiver), Mutex::new(Vec::new()));
    let failure = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..requests.clamp(1, MOST_WRITERS) {
            scope.spawn(|| {
                while let Some(open) = next(&receiver) {
                    match open.write(depot, keys) {
                        Ok(shard) => written.lock().ignore_poison().push(shard),
                        Err(error) => drop(failure.lock().ignore_poison().get_or_insert(error)),
                    }
                }
            });
        }
        let (mut cutter, mut open) = (Cutter::new(rule), Open::default());
        while let Some(row) = rows.next().map_err(CutError::Source)? {
            if depot.run.control.is_stopped() {
                return Err(CutError::Job(FileError::Interrupted));
            }
            if failure.lock().ignore_poison().is_some() {
                break;
            }
            if cutter.cuts_before(row.size()) {
                let place = open.shard.place + 1;
                drop(sender.send(std::mem::take(&mut open)));
                open.shard.place = place;
            }
            open.push(&row).map_err(CutError::Source)?;
        }
        if open.shard.entries > 0 {
            drop(sender.send(open));
        }
        drop(sender);
        Ok(())
    })?;
    match failure.into_inner().ignore_poison() {
        Some(error) => Err(CutError::Job(error)),
        None => Ok(written.into_inner().ignore_poison()),
    }
}

/// The place of an error.
enum CutError {
    Source(FileError),
    Job(FileError),
}

fn next(receiver: &Mutex<Receiver<Open>>) -> Option<Open> {
    receiver.lock().ignore_poison().recv().ok()
}

/// A shard that is being put together.
#[derive(Default)]
struct Open {
    shard: Shard,
    rows: RowWriter,
}

impl Open {
    fn push(&mut self, row: &Row) -> Result<(), FileError> {
        if self.shard.entries == 0 {
            self.shard.first = hexadecimal(&row.path().whole());
        }
        self.shard.entries += 1;
        self.shard.objects += u64::from(is_object(row));
        self.shard.bytes += row.size();
        self.rows.push(row)
    }

    fn write(self, depot: &Depot<'_>, keys: &JobKeys) -> Result<Shard, FileError> {
        let Open { mut shard, rows } = self;
        let (file, path) = (JobFile::Shard(shard.place), shard_path(shard.place));
        let (digest, length) = write(depot, keys, file, &path, &rows.finish())?;
        (shard.digest, shard.length) = (hexadecimal(&digest), length);
        Ok(shard)
    }
}

/// Writes a sealed file of the job. Returns its SHA-256 and its length in bytes.
fn write(
    depot: &Depot<'_>,
    keys: &JobKeys,
    file: JobFile,
    path: &str,
    plain: &[u8],
) -> Result<([u8; 32], u64), FileError> {
    let sealed = depot.seal(keys.recipe(file, &[0; 32])?, plain)?;
    match depot.create(path, &sealed)? {
        Created::Ours => Ok((Sha256::digest(&sealed).into(), sealed.len() as u64)),
        Created::Taken => Err(refused(format!("`{path}` is there already: plan in another place"))),
    }
}

/// The most shards that are written at once.
const MOST_WRITERS: usize = 16;

const BUSY: &str = "another job or run is making the first generation of this tree: let it finish, or \
                    choose another place";

const NOTHING: &str = "nothing was planned: it holds neither files nor links nor directories that are \
                       taken";
