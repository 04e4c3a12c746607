//! What an operation did.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evener_core::{EngineError, shown};
use evener_pipeline::{RunStatistics, WorkerStatistics};
use serde::{Serialize, Serializer};

use crate::FileError;

/// What an operation did. Its JSON is the document that `--json` prints; paths that are not
/// UTF-8 are shown there with replacement characters.
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
    /// Files that were complete already (`--resume`): their outputs have the right size and
    /// time and, in formats that show it, the right key. Their content was not verified.
    pub files_skipped: u64,
    /// Further names of files done, made as hard links.
    pub hard_links: u64,
    /// Symbolic links recreated.
    pub symlinks: u64,
    /// Directories entered.
    pub directories: u64,
    /// Wall time of the whole operation.
    pub seconds: f64,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Whether nothing was written because only a plan was asked for.
    pub dry_run: bool,
    /// Sums over each engine's workers.
    pub engines: BTreeMap<String, Effort>,
    /// Each worker.
    pub workers: Vec<WorkerEffort>,
    /// Things left out, such as sockets.
    pub notices: Vec<Notice>,
    /// Files that could not be done.
    pub failures: Vec<Failure>,
    /// Engines that were taken out of service. Their jobs were done by the others, where
    /// `failures` does not say otherwise.
    pub retired: Vec<Retirement>,
    /// Files that were done and may be wrong: an engine was found to compute wrong results when
    /// jobs of theirs had been done by it and not been verified.
    pub doubtful: Vec<Doubt>,
}

/// A file that may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Doubt {
    /// The source's path as the user would write it.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// The engine's name.
    pub engine: String,
}

/// An engine that was taken out of service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Retirement {
    /// The engine's name.
    pub engine: String,
    /// Why, as one line. Names the engine.
    pub cause: String,
    /// How many of its workers ended with that; none where it showed as the last session closed.
    pub workers: usize,
    /// Where it computed wrong results: how many jobs it had done before that were not
    /// verified, so that what was written may be wrong.
    #[serde(skip_serializing_if = "is_zero")]
    pub doubtful_jobs: u64,
}

/// What an engine or a worker did.
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
    /// Of an engine that is watched: how many of its jobs were computed again by the reference
    /// engine, with the same result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_jobs: Option<u64>,
    /// Of an engine that is watched: how many of its jobs nobody has compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unverified_jobs: Option<u64>,
}

/// What one worker did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerEffort {
    /// Its number, from 0.
    pub worker: usize,
    /// Its engine's name.
    pub engine: String,
    /// What it did.
    #[serde(flatten)]
    pub effort: Effort,
    /// Why it was taken out of service, when its engine failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retired: Option<String>,
}

/// A file that could not be done, or an operation that could not begin.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("{}: {error}", shown(path))]
pub struct Failure {
    /// The path as the user would write it.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Why.
    #[serde(rename = "cause", serialize_with = "as_text")]
    pub error: FileError,
}

/// Something that was left out on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The path as the user would write it.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

impl Report {
    /// Whether everything asked for was done, and nothing that was done is in doubt.
    pub fn is_success(&self) -> bool {
        let in_doubt = self.retired.iter().any(|retirement| retirement.doubtful_jobs > 0);
        let in_doubt = in_doubt || !self.doubtful.is_empty();
        self.failures.is_empty() && !self.interrupted && !in_doubt
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
            let WorkerStatistics { engine, worker, retired, doubtful, .. } = worker;
            if let Some(cause) = &retired {
                self.add_retirement(&engine, cause, doubtful);
            }
            self.workers.push(WorkerEffort { worker, engine, effort, retired });
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

    /// Adds why an engine is out of service, unless one of its workers has told.
    pub(crate) fn add_fault(&mut self, engine: &str, fault: &EngineError) {
        let cause = fault.to_string();
        if self.retired.iter().any(|known| known.engine == engine && known.cause == cause) {
            return;
        }
        let doubtful_jobs = match fault {
            EngineError::WrongResult { unverified, .. } => *unverified,
            _ => 0,
        };
        let engine = engine.to_owned();
        self.retired.push(Retirement { engine, cause, workers: 0, doubtful_jobs });
    }

    /// Adds the files that an engine has worked at since its last verified job, where that
    /// engine computes wrong results.
    pub(crate) fn add_doubts(&mut self, unverified: impl Iterator<Item = (String, PathBuf)>) {
        for (engine, path) in unverified {
            let in_doubt =
                |retired: &Retirement| retired.engine == engine && retired.doubtful_jobs > 0;
            let is_done = !self.failures.iter().any(|failure| failure.path == path);
            if is_done && self.retired.iter().any(in_doubt) {
                self.doubtful.push(Doubt { path, engine });
            }
        }
    }

    /// Workers of one engine that end for one reason make one retirement.
    fn add_retirement(&mut self, engine: &str, cause: &str, doubtful_jobs: u64) {
        let same = |known: &&mut Retirement| known.engine == engine && known.cause == cause;
        match self.retired.iter_mut().find(same) {
            Some(known) => known.workers += 1,
            None => self.retired.push(Retirement {
                engine: engine.to_owned(),
                cause: cause.to_owned(),
                workers: 1,
                doubtful_jobs,
            }),
        }
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

pub(crate) fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

fn as_text<S: Serializer>(error: &FileError, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(error)
}
