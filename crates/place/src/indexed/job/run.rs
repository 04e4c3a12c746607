//! Does a shard of a job.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{IgnorePoison, Key};
use evener_format::index::{AttemptId, JobNames, Purpose, TreeKeys};
use evener_keys::{KeyFormat, KeyMaterial};

use super::super::assembler::Assembler;
use super::super::depot::{Created, Depot, name, refused};
use super::super::firsts::Firsts;
use super::super::index_writer::{IndexDone, IndexSettings, IndexWriter};
use super::super::marker;
use super::super::old::Old;
use super::super::origin::Recipes;
use super::super::own::{Own, key_of};
use super::super::sealing::Sealing;
use super::super::state::hexadecimal;
use super::super::writer::{Sealed, SealedOptions, Wrap, Writer};
use super::manifest::{self, Job, Shard, attempt_path, receipt_path};
use super::plan::Ends;
use super::receipt::{BlockOf, Made, Receipt};
use super::shard_files::{ShardFiles, ShardFound};
use super::source::Source;
use crate::record::Record;
use crate::{Failure, FileError, KeyRing, Name, Report, RunSettings, TransferOptions};

/// How an attempt at a shard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardEnd {
    /// It is done, and its receipt written.
    Done,
    /// Another attempt has written the receipt, before or meanwhile.
    Already,
    /// A file is there under the name of one of its own, and is none of this job.
    Conflict,
    /// Files failed, or it was stopped: it has no receipt.
    Failed,
}

/// How a shard is done.
#[derive(Clone, Copy, Default)]
pub struct ShardOptions<'a> {
    /// Wraps the key of the attempt for the recipients of the job, if it has any.
    pub wrap: Option<&'a Wrap>,
    /// Leave out objects that are gone, or that are no files any more. Otherwise they are failures:
    /// the source may only be out of reach, like a disk that is not mounted.
    pub skips_gone: bool,
}

/// Does a shard, unless it has a receipt.
///
/// # Errors
/// When the job or the target can't be read, or is not what the manifest says. What fails on the
/// way is in the report.
pub fn run_shard(
    ends: &Ends<'_>,
    run: &RunSettings,
    key: &Key,
    number: u64,
    options: ShardOptions<'_>,
) -> Result<(Report, ShardEnd), Failure> {
    let of_job = |error| Failure { path: ends.job.label(), error };
    let job = match Job::open(ends.job, run, key, ends.manifest) {
        Err(FileError::Interrupted) => return Ok((interrupted(), ShardEnd::Failed)),
        job => job.map_err(of_job)?,
    };
    let done = job.run(ends, run, number, options)?;
    Ok(done.unwrap_or_else(|| (empty(), ShardEnd::Already)))
}

/// The report of a run without files.
pub(super) fn empty() -> Report {
    Report { operation: "encrypt".to_owned(), ..Report::default() }
}

fn interrupted() -> Report {
    Report { interrupted: true, ..empty() }
}

impl Job<'_> {
    /// Does a shard; `None` if it has a receipt.
    pub(super) fn run(
        &self,
        ends: &Ends<'_>,
        run: &RunSettings,
        number: u64,
        options: ShardOptions<'_>,
    ) -> Result<Option<(Report, ShardEnd)>, Failure> {
        match self.attempt(ends, run, number, options) {
            Err(Failure { error: FileError::Interrupted, .. }) => {
                Ok(Some((interrupted(), ShardEnd::Failed)))
            }
            done => done,
        }
    }

    fn attempt(
        &self,
        ends: &Ends<'_>,
        run: &RunSettings,
        number: u64,
        options: ShardOptions<'_>,
    ) -> Result<Option<(Report, ShardEnd)>, Failure> {
        let of_job = |error| Failure { path: ends.job.label(), error };
        let of_target = |error| Failure { path: ends.target.label(), error };
        let shard = self.shard(number).map_err(of_job)?;
        if self.has_receipt(shard).map_err(of_job)? {
            return Ok(None);
        }
        let target = Depot::of(ends.target, run).map_err(of_target)?;
        self.check_target(&target).map_err(of_target)?;
        let rows = self.rows(shard).map_err(of_job)?;
        let attempt = AttemptId::random().map_err(|error| of_job(error.into()))?;
        let may_be_there = self.has_attempts(shard).map_err(of_job)?;
        let mark = attempt_path(shard.place, attempt);
        self.depot.create(&mark, b"evener-attempt-v1\n").map_err(of_job)?;
        let names = self.keys.names(shard.place).map_err(|error| of_job(error.into()))?;
        let (own, wrapped) = self.own_key(options.wrap).map_err(of_target)?;
        let (job, names, own) = (self, &names, &own);
        let attempt = Attempt { job, shard, attempt, names, own, wrapped, may_be_there };
        let source = Source::new(ends.source, rows, options.skips_gone);
        attempt.seal(ends, run, target, &source).map(Some)
    }

    pub(super) fn has_receipt(&self, shard: &Shard) -> Result<bool, FileError> {
        let store = self.depot.store()?;
        Ok(store.look(&name(&receipt_path(shard.place))?)?.is_some())
    }

    /// Checks that the job is still there after a receipt was written: otherwise the receipt would be
    /// in the way of the next one.
    fn stay(&self, shard: &Shard) -> Result<(), FileError> {
        match manifest::marker(&self.depot) {
            Ok(job) if job == self.keys.job() => Ok(()),
            _ => {
                self.depot.remove(&receipt_path(shard.place))?;
                Err(refused("the job was removed while its shard was done"))
            }
        }
    }

    /// Checks that the target is the tree of the manifest.
    pub(super) fn check_target(&self, target: &Depot<'_>) -> Result<(), FileError> {
        match marker::read(target)? {
            Some(tree) if tree == self.tree()? => Ok(()),
            Some(tree) => Err(refused(format!(
                "it is the sealed tree {tree}, and the job is for the tree {}",
                self.manifest.tree
            ))),
            None => Err(refused("it is no longer a sealed tree: its marker is gone")),
        }
    }

    /// The key of an attempt: the job's, or a fresh one and its wrapped form.
    fn own_key(&self, wrap: Option<&Wrap>) -> Result<(Own, Option<Vec<u8>>), FileError> {
        let tree = self.tree()?;
        if self.manifest.recipients.is_empty() {
            return Ok((Own::of(TreeKeys::new(&self.key, tree)?), None));
        }
        let wrap =
            wrap.ok_or_else(|| refused("the job has recipients, and nothing wraps for them"))?;
        let material = KeyMaterial::generate(KeyFormat::Cobblestone256);
        let material = material.map_err(|error| refused(error.to_string()))?;
        let own = Own::of(TreeKeys::new(key_of(&material)?, tree)?);
        Ok((own, Some(wrap(material.to_text().as_bytes())?)))
    }
}

/// An attempt at a shard.
struct Attempt<'a> {
    job: &'a Job<'a>,
    shard: &'a Shard,
    attempt: AttemptId,
    names: &'a JobNames,
    own: &'a Own,
    wrapped: Option<Vec<u8>>,
    may_be_there: bool,
}

impl Attempt<'_> {
    fn seal(
        self,
        ends: &Ends<'_>,
        run: &RunSettings,
        depot: Depot<'_>,
        source: &Source<'_>,
    ) -> Result<(Report, ShardEnd), Failure> {
        let started = Instant::now();
        let of_target = |error| Failure { path: ends.target.label(), error };
        let Attempt { job, own, .. } = self;
        let generation = job.manifest.generation;
        let (options, sealed) = (TransferOptions::default(), SealedOptions::default());
        let writer = Writer::of(ends.target, run, &options, &sealed).map_err(of_target)?;
        let writer = Writer { origin: source, ..writer };
        let border = job.border().map_err(of_target)?;
        let settings = IndexSettings {
            depot,
            own,
            generation,
            border,
            padding: job.padding(),
            dry_run: false,
            part: Some(self.names),
        };
        let index = IndexWriter::new(settings, None);
        let firsts = Firsts::new(None, false, None);
        let assembler = Assembler::new(index, firsts, &run.control);
        let recipe = own.keys.recipe(Purpose::Data, generation);
        let ring = KeyRing::new(recipe.map_err(|error| of_target(error.into()))?);
        let root = ends.source.label();
        let record = Record::new(run, &root);
        let files = ShardFiles {
            depot,
            names: self.names,
            versions: source.versions(),
            has_own_files: job.has_own_files(),
            may_be_there: self.may_be_there,
            skips_gone: source.skips_gone,
            found: Mutex::default(),
        };
        let sealing = Sealing {
            origin: source,
            store: ends.target,
            depot,
            keys: &ring,
            own,
            generation,
            padding: job.padding(),
            has_hashes: job.manifest.is_signed,
            skip_changing: false,
            names: Mutex::default(),
            assembler: &assembler,
            before: None,
            recipes: Recipes::default(),
            control: &run.control,
            record: &record,
            shard: Some(&files),
        };
        let mut old = Old::new(None, false, None, Vec::new(), None);
        let done = self.watched(source, || writer.seal_changed(&sealing, &mut old));
        let done = done.map_err(of_target)?;
        let is_stopped = run.control.is_stopped();
        let index = assembler.end();
        let found = files.found.into_inner().ignore_poison();
        let conflicts = found.conflicts;
        let is_overtaken = source.is_overtaken();
        let is_whole = record.is_success() && !is_stopped && !is_overtaken;
        let end = match index {
            _ if is_overtaken => ShardEnd::Already,
            _ if conflicts > 0 => ShardEnd::Conflict,
            Ok(index) if is_whole => {
                let ended = self.write_receipt(&depot, index, found, started);
                ended.unwrap_or_else(|error| {
                    record.failed_of(ends.job.label(), error);
                    ShardEnd::Failed
                })
            }
            Ok(_) => ShardEnd::Failed,
            Err(error) => {
                record.give_up();
                record.failed_of(ends.target.label(), error);
                ShardEnd::Failed
            }
        };
        let mut report = writer.report(&ring, done, record, &Sealed::default());
        report.interrupted |= is_stopped;
        report.seconds = started.elapsed().as_secs_f64();
        if is_overtaken {
            report.failures.clear();
        }
        Ok((report, end))
    }

    fn write_receipt(
        self,
        depot: &Depot<'_>,
        index: IndexDone,
        found: ShardFound,
        started: Instant,
    ) -> Result<ShardEnd, FileError> {
        let Attempt { job, shard, attempt, wrapped, .. } = self;
        let expected = shard.entries - found.gone.len() as u64;
        if index.entries != expected {
            return Err(refused(format!(
                "the index of the shard has {} entries, not {expected}",
                index.entries
            )));
        }
        let shown = |names: &[Name]| {
            use std::os::unix::ffi::OsStrExt;
            names.iter().map(|name| hexadecimal(name.path().as_os_str().as_bytes())).collect()
        };
        let mut files = found.files;
        for (block, version) in index.nodes.iter().zip(&index.versions) {
            let (name, length, version) = (block.name, block.length, version.clone());
            files.push(Made { name, length, version });
        }
        let receipt = Receipt {
            entries: index.entries,
            objects: shard.objects - found.gone.len() as u64,
            bytes: index.bytes,
            already: found.already,
            changed: shown(&found.changed),
            gone: shown(&found.gone),
            blocks: index.nodes.iter().map(BlockOf::of).collect(),
            wrapped: wrapped.map(|wrapped| hexadecimal(&wrapped)),
            seconds: started.elapsed().as_secs_f64(),
            files,
        };
        match job.write_receipt(shard, attempt, &receipt)? {
            Created::Ours => {
                job.stay(shard)?;
                Ok(ShardEnd::Done)
            }
            Created::Taken => {
                index.nodes.iter().try_for_each(|block| depot.remove(&block.name.path()))?;
                Ok(ShardEnd::Already)
            }
        }
    }

    /// Works while another thread looks for the receipt of another attempt.
    fn watched<T>(&self, source: &Source<'_>, work: impl FnOnce() -> T) -> T {
        let (is_over, over) = (Mutex::new(false), Condvar::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut ended = is_over.lock().ignore_poison();
                while !*ended {
                    ended = match over.wait_timeout(ended, LOOKS_AGAIN) {
                        Ok((ended, _)) => ended,
                        Err(poisoned) => poisoned.into_inner().0,
                    };
                    if !*ended && self.job.has_receipt(self.shard).unwrap_or(false) {
                        source.overtake();
                        return;
                    }
                }
            });
            let done = work();
            *is_over.lock().ignore_poison() = true;
            over.notify_all();
            done
        })
    }
}

/// How often an attempt looks if another one has finished the shard.
const LOOKS_AGAIN: Duration = Duration::from_secs(5);
