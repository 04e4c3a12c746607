//! The report of an operation.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use evener_core::{EngineError, shown};
use evener_pipeline::{RunStatistics, WorkerStatistics};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::indexed::{GenerationInfo, Sealed};
use crate::{FileError, OperationError};

/// The result of an operation. Its JSON is the document that the program prints. A `path` that is
/// not UTF-8 has replacement characters there, and `path_hex` beside it has its bytes in
/// hexadecimal.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// `encrypt`, `decrypt` or `verify`.
    pub operation: String,
    /// The format's name, such as `cobblestone-256`.
    pub format: String,
    /// The cipher's OpenSSL name.
    pub cipher: String,
    /// Files done, without those skipped.
    pub files: u64,
    /// Bytes read from them.
    pub bytes: u64,
    /// Bytes written for them.
    pub bytes_written: u64,
    /// Files whose outputs were already complete (`Existing::Resume`): the outputs have the right
    /// size and time and, in formats that show it, the right key. Their content was not verified.
    pub files_skipped: u64,
    /// Outputs brought up to date (`Existing::Update`): replaced older ones, whose files are also
    /// among those done, and those that only got another mode.
    pub files_updated: u64,
    /// Files whose outputs needed no update (`Existing::Update`). Their content was not verified.
    pub files_unchanged: u64,
    /// Objects that stay as they are and were locked for longer.
    #[serde(skip_serializing_if = "is_zero")]
    pub locks_extended: u64,
    /// Outputs removed because their source is gone (`Delete`); in a dry run, those that
    /// would be removed.
    pub files_deleted: u64,
    /// Entries of the source that were left out although no option deselects them: special files,
    /// wrapped keys, names without the suffix and so on. `notices` names each.
    pub left_out: u64,
    /// Further names of files done, made as hard links.
    pub hard_links: u64,
    /// Symbolic links recreated.
    pub symlinks: u64,
    /// Directories entered.
    pub directories: u64,
    /// Wall time of the whole operation.
    pub seconds: f64,
    /// True if it was stopped before its end.
    pub interrupted: bool,
    /// True if nothing was written because only a plan was asked for.
    pub dry_run: bool,
    /// True if outputs were to be brought up to date.
    pub update: bool,
    /// Sums over each engine's workers.
    pub engines: BTreeMap<String, Effort>,
    /// Each worker.
    pub workers: Vec<WorkerEffort>,
    /// Entries that were left out, such as sockets, and others that the user should know about.
    pub notices: Vec<Notice>,
    /// Files that could not be done.
    pub failures: Vec<Failure>,
    /// Engines that were taken out of service. Other engines did their jobs, unless `failures` says
    /// otherwise.
    pub retired: Vec<Retirement>,
    /// Files that were done but may be wrong: an engine was found to compute wrong results, and it
    /// did jobs of theirs, before or after, that were not verified.
    pub doubtful: Vec<Doubt>,
    /// The greatest possible number of further such files, whose names were not kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub doubtful_unnamed: u64,
    /// The generation of a sealed tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedTree>,
}

/// The generation of a sealed tree that an operation has made or read.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum SealedTree {
    /// The newest one, which an operation has made unless nothing had changed.
    Made(Sealed),
    /// The one that was read.
    Read(GenerationInfo),
}

/// A file that may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error(
    "{}: may be wrong: engine `{engine}` did some of it and computed wrong results",
    shown(path)
)]
pub struct Doubt {
    /// The source's path as the user would write it.
    #[serde(flatten, serialize_with = "path_entries")]
    pub path: PathBuf,
    /// The engine's name.
    pub engine: String,
}

/// An engine that was taken out of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retirement {
    /// The engine's name.
    pub engine: String,
    /// The cause, as one line that names the engine.
    pub cause: String,
    /// The number of its workers that ended with this cause; 0 if it showed only as the last
    /// session closed.
    pub workers: usize,
    /// If it computed wrong results: the number of its jobs in this operation that were not
    /// verified, so that their output may be wrong.
    #[serde(skip_serializing_if = "is_zero")]
    pub doubtful_jobs: u64,
}

/// The work of an engine or a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Effort {
    /// Files finished.
    pub files: u64,
    /// Jobs processed.
    pub jobs: u64,
    /// Bytes that went into those jobs.
    pub bytes: u64,
    /// Wall time in tasks: reading, processing and writing.
    pub busy_seconds: f64,
    /// CPU time of the worker's thread.
    pub cpu_seconds: f64,
    /// For a watched engine: the number of its jobs that the reference engine computed again with
    /// the same result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_jobs: Option<u64>,
    /// For a guarded engine: the number of its jobs that were not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unverified_jobs: Option<u64>,
}

/// The work of one worker.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerEffort {
    /// Its number, from 0.
    pub worker: usize,
    /// Its engine's name.
    pub engine: String,
    /// Its work.
    #[serde(flatten)]
    pub effort: Effort,
    /// The reason that it was taken out of service, if its engine failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired: Option<String>,
    /// True if its last work was taken back and done by other workers, because its engine was late.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub was_late: bool,
}

/// A file that could not be done, or an operation that could not begin.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("{}: {error}", shown(path))]
pub struct Failure {
    /// The path as the user would write it.
    #[serde(flatten, serialize_with = "path_entries")]
    pub path: PathBuf,
    /// The cause.
    #[serde(rename = "cause", serialize_with = "as_text")]
    pub error: FileError,
}

/// Something left out on purpose, or that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The path as the user would write it.
    #[serde(flatten, serialize_with = "path_entries")]
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

impl Report {
    /// Returns whether everything requested was done, and none of it is in doubt.
    pub fn is_success(&self) -> bool {
        let in_doubt = self.retired.iter().any(|retirement| retirement.doubtful_jobs > 0);
        let in_doubt = in_doubt || !self.doubtful.is_empty() || self.doubtful_unnamed > 0;
        self.failures.is_empty() && !self.interrupted && !in_doubt
    }

    /// For the program: adds an entry of the source that was left out.
    #[doc(hidden)]
    pub fn leave_out(&mut self, path: PathBuf, reason: &str) {
        self.left_out += 1;
        self.notices.push(Notice { path, reason: reason.to_owned() });
    }

    /// One line that says why it is not a success and names the first file; `None` for a success.
    pub fn shortfall(&self) -> Option<String> {
        if self.is_success() {
            return None;
        }
        let also = |others: usize| match others {
            0 => String::new(),
            1 => " (and 1 other file)".to_owned(),
            others => format!(" (and {others} other files)"),
        };
        let stopped = match self.interrupted {
            true => format!("stopped after {} files", self.files),
            false => String::new(),
        };
        let cause = match (&self.failures[..], &self.doubtful[..]) {
            ([first, others @ ..], _) => format!("{first}{}", also(others.len())),
            ([], [first, others @ ..]) => {
                let others = others.len() as u64 + self.doubtful_unnamed;
                format!("{first}{}", also(usize::try_from(others).unwrap_or(usize::MAX)))
            }
            ([], []) if self.interrupted => String::new(),
            ([], []) => "an engine that did some of the files computed wrong results".to_owned(),
        };
        let between = if stopped.is_empty() || cause.is_empty() { "" } else { "; " };
        Some(format!("{stopped}{between}{cause}"))
    }

    /// Returns the report if it is a success.
    ///
    /// # Errors
    /// Otherwise, [`OperationError::Incomplete`] with the report.
    pub fn into_result(self) -> Result<Report, OperationError> {
        match self.is_success() {
            true => Ok(self),
            false => Err(OperationError::Incomplete(Box::new(self))),
        }
    }

    /// For the program: adds the results of a later operation of the same kind.
    #[doc(hidden)]
    pub fn absorb(&mut self, other: Report) {
        let absorb_name = |name: &mut String, other: String| {
            if name.is_empty() {
                *name = other;
            }
        };
        absorb_name(&mut self.operation, other.operation);
        absorb_name(&mut self.format, other.format);
        absorb_name(&mut self.cipher, other.cipher);
        self.files += other.files;
        self.bytes += other.bytes;
        self.bytes_written += other.bytes_written;
        self.files_skipped += other.files_skipped;
        self.files_updated += other.files_updated;
        self.files_unchanged += other.files_unchanged;
        self.locks_extended += other.locks_extended;
        self.files_deleted += other.files_deleted;
        self.left_out += other.left_out;
        self.hard_links += other.hard_links;
        self.symlinks += other.symlinks;
        self.directories += other.directories;
        self.seconds += other.seconds;
        self.interrupted |= other.interrupted;
        self.dry_run |= other.dry_run;
        self.update |= other.update;
        for (engine, effort) in other.engines {
            self.engines.entry(engine).or_default().absorb(&effort);
        }
        for worker in other.workers {
            self.absorb_worker(worker);
        }
        self.notices.extend(other.notices);
        self.failures.extend(other.failures);
        for Retirement { engine, cause, workers, doubtful_jobs } in other.retired {
            let known = self.retirement(&engine, cause);
            known.workers += workers;
            known.doubtful_jobs += doubtful_jobs;
        }
        self.doubtful.extend(other.doubtful);
        self.doubtful_unnamed += other.doubtful_unnamed;
    }

    fn absorb_worker(&mut self, worker: WorkerEffort) {
        let same = |known: &&mut WorkerEffort| {
            known.worker == worker.worker && known.engine == worker.engine
        };
        match self.workers.iter_mut().find(same) {
            Some(known) => {
                known.effort.absorb(&worker.effort);
                known.retired = known.retired.take().or(worker.retired);
                known.was_late |= worker.was_late;
            }
            None => self.workers.push(worker),
        }
    }

    pub(crate) fn add_statistics(&mut self, statistics: RunStatistics) {
        for worker in statistics.workers {
            let effort = Effort::from(&worker);
            let sum = self.engines.entry(worker.engine.clone()).or_default();
            sum.files += effort.files;
            sum.jobs += effort.jobs;
            sum.bytes += effort.bytes;
            sum.busy_seconds += effort.busy_seconds;
            sum.cpu_seconds += effort.cpu_seconds;
            let WorkerStatistics { engine, worker, retired, taken_back, .. } = worker;
            let retired = retired.map(|fault| {
                let known = self.add_fault(&engine, &fault);
                known.workers += 1;
                known.cause.clone()
            });
            let was_late = taken_back > 0;
            self.absorb_worker(WorkerEffort { worker, engine, effort, retired, was_late });
        }
    }
}

impl Report {
    /// Adds how many jobs of a watched engine were verified, and how many were not.
    pub(crate) fn add_verification(&mut self, engine: &str, verified: u64, unverified: u64) {
        let effort = self.engines.entry(engine.to_owned()).or_default();
        *effort.verified_jobs.get_or_insert(0) += verified;
        *effort.unverified_jobs.get_or_insert(0) += unverified;
    }

    /// Adds the total number of unverified jobs of an engine that computes wrong results: jobs that
    /// were in doubt when a worker found out may have been verified or discarded since.
    pub(crate) fn settle_fault(&mut self, engine: &str, fault: &EngineError, unverified: u64) {
        let known = self.add_fault(engine, fault);
        if matches!(fault, EngineError::WrongResult { .. }) {
            known.doubtful_jobs = unverified;
        }
    }

    /// Adds the fault that put an engine out of service.
    fn add_fault(&mut self, engine: &str, fault: &EngineError) -> &mut Retirement {
        let mut fault = fault.clone();
        let doubtful_jobs = match &mut fault {
            EngineError::WrongResult { unverified, .. } => std::mem::take(unverified),
            _ => 0,
        };
        let known = self.retirement(engine, fault.to_string());
        known.doubtful_jobs = doubtful_jobs.max(known.doubtful_jobs);
        known
    }

    /// Workers that find the same fault in an engine share one retirement.
    fn retirement(&mut self, engine: &str, cause: String) -> &mut Retirement {
        let same = |known: &Retirement| known.engine == engine && known.cause == cause;
        let index = self.retired.iter().position(same).unwrap_or_else(|| {
            let engine = engine.to_owned();
            self.retired.push(Retirement { engine, cause, workers: 0, doubtful_jobs: 0 });
            self.retired.len() - 1
        });
        &mut self.retired[index]
    }

    /// Adds the files with unverified jobs of an engine that computes wrong results.
    pub(crate) fn add_doubts(&mut self, unverified: impl Iterator<Item = (String, PathBuf)>) {
        let failed: HashSet<&Path> = self.failures.iter().map(|failure| &*failure.path).collect();
        let doubts = unverified
            .filter(|(engine, path)| self.is_in_doubt(engine) && !failed.contains(&**path))
            .map(|(engine, path)| Doubt { path, engine });
        let doubts: Vec<_> = doubts.collect();
        self.doubtful.extend(doubts);
    }

    /// Adds the number of further files of each engine that computes wrong results, with a notice
    /// for the root of them all.
    pub(crate) fn add_unnamed_doubts(&mut self, root: &Path, unnamed: Vec<(String, u64)>) {
        let in_doubt = unnamed.iter().filter(|(engine, _)| self.is_in_doubt(engine));
        let files = in_doubt.map(|(_, files)| files).sum::<u64>();
        self.doubtful_unnamed += files;
        if files > 0 {
            let reason = format!(
                "may be wrong in {files} more files that can't be named; verify the whole output"
            );
            self.notices.push(Notice { path: root.to_owned(), reason });
        }
    }

    fn is_in_doubt(&self, engine: &str) -> bool {
        self.retired.iter().any(|retired| retired.engine == engine && retired.doubtful_jobs > 0)
    }
}

impl Effort {
    fn absorb(&mut self, other: &Effort) {
        self.files += other.files;
        self.jobs += other.jobs;
        self.bytes += other.bytes;
        self.busy_seconds += other.busy_seconds;
        self.cpu_seconds += other.cpu_seconds;
        let add = |sum: &mut Option<u64>, number: Option<u64>| {
            if let Some(number) = number {
                *sum.get_or_insert(0) += number;
            }
        };
        add(&mut self.verified_jobs, other.verified_jobs);
        add(&mut self.unverified_jobs, other.unverified_jobs);
    }
}

impl From<&WorkerStatistics> for Effort {
    fn from(worker: &WorkerStatistics) -> Effort {
        Effort {
            files: worker.units,
            jobs: worker.jobs,
            bytes: worker.bytes,
            busy_seconds: worker.busy.as_secs_f64(),
            cpu_seconds: worker.cpu.as_secs_f64(),
            verified_jobs: None,
            unverified_jobs: None,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Serializes a path as text and, if that loses anything, also all its bytes in hexadecimal.
pub(crate) fn path_entries<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    entries_of("path", Some(path), serializer)
}

/// The same for several paths.
pub(crate) fn paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Entry<'p>(#[serde(serialize_with = "path_entries")] &'p Path);
    serializer.collect_seq(paths.iter().map(|path| Entry(path)))
}

/// The same for the target of a link.
pub(crate) fn target_entries<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    entries_of("target", path.as_deref(), serializer)
}

fn entries_of<S: Serializer>(
    name: &str,
    path: Option<&Path>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut entries = serializer.serialize_map(None)?;
    if let Some(path) = path {
        entries.serialize_entry(name, &path.to_string_lossy())?;
    }
    if let Some(path) = path.filter(|path| path.to_str().is_none()) {
        let bytes = path.as_os_str().as_bytes();
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        entries.serialize_entry(&format!("{name}_hex"), &digits)?;
    }
    entries.end()
}

fn as_text<S: Serializer>(error: &FileError, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(unverified: u64) -> EngineError {
        EngineError::WrongResult { engine: "module".to_owned(), unverified }
    }

    /// Each of two workers sees how many jobs are in doubt when it finds the fault.
    #[test]
    fn workers_that_find_the_same_wrong_make_one_retirement() {
        let worker = |number, unverified| WorkerStatistics {
            engine: "module".to_owned(),
            worker: number,
            retired: Some(wrong(unverified)),
            ..WorkerStatistics::default()
        };
        let workers = vec![worker(0, 5), worker(1, 7)];
        let mut report = Report::default();
        report.add_statistics(RunStatistics { workers, ..RunStatistics::default() });
        let facts = |report: &Report| {
            let [known] = &report.retired[..] else { panic!("{:?}", report.retired) };
            assert_eq!(known.cause, "engine `module` computed a wrong result");
            (known.workers, known.doubtful_jobs)
        };
        assert_eq!(facts(&report), (2, 7));
        report.settle_fault("module", &wrong(9), 3);
        assert_eq!(facts(&report), (2, 3));
        let mut sum = report.clone();
        sum.absorb(report);
        assert_eq!(facts(&sum), (4, 6));
    }
}
