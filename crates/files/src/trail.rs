//! Which files are in doubt when an engine turns out to compute wrong results.
//!
//! An engine that somebody watches has some of its jobs verified. The files whose jobs a worker
//! has had done since the last verified one keep their names in its trail; a job that passes
//! clears it. Since two jobs of every file are verified, that is hardly ever more than one file.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evener_core::{Job, Verification};

/// What became of a batch's verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether a job passed.
    pub(crate) passed: bool,
    /// Whether a job came after the last that passed.
    pub(crate) open: bool,
}

impl Seen {
    pub(crate) fn of(jobs: &[Job<'_>]) -> Seen {
        let passed = jobs.iter().rposition(|job| job.verification == Verification::Passed);
        Seen { passed: passed.is_some(), open: passed.is_none_or(|at| at + 1 < jobs.len()) }
    }
}

/// One worker's files since its last verified job.
#[derive(Debug, Default)]
pub(crate) struct Trail(Mutex<Files>);

#[derive(Debug, Default)]
struct Files {
    engine: String,
    paths: Vec<PathBuf>,
}

impl Trail {
    /// A job was verified.
    pub(crate) fn clear(&self) {
        self.lock().paths.clear();
    }

    /// A job of a file was done by an engine and not verified.
    pub(crate) fn add(&self, engine: &str, path: impl FnOnce() -> PathBuf) {
        let mut files = self.lock();
        if files.paths.len() < MOST {
            files.engine.replace_range(.., engine);
            let path = path();
            if files.paths.last() != Some(&path) {
                files.paths.push(path);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The trails of all workers.
#[derive(Debug, Default)]
pub(crate) struct Trails(Mutex<Vec<Arc<Trail>>>);

impl Trails {
    /// A new worker's.
    pub(crate) fn begin(&self) -> Arc<Trail> {
        let trail = Arc::<Trail>::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&trail));
        trail
    }

    /// The engines and files of all trails, each file once for each engine.
    pub(crate) fn files(&self) -> Vec<(String, PathBuf)> {
        let trails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::new();
        for trail in trails.iter() {
            let files = trail.lock();
            all.extend(files.paths.iter().map(|path| (files.engine.clone(), path.clone())));
        }
        all.sort();
        all.dedup();
        all
    }
}

/// How many names a worker keeps. Only where next to nothing is verified are there more.
const MOST: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_holds_the_files_since_the_last_verified_job() {
        let trails = Trails::default();
        let (one, two) = (trails.begin(), trails.begin());
        one.add("a", || "first".into());
        one.clear();
        one.add("a", || "second".into());
        one.add("a", || "second".into());
        two.add("b", || "second".into());
        let named = |engine: &str| (engine.to_owned(), PathBuf::from("second"));
        assert_eq!(trails.files(), [named("a"), named("b")]);
    }
}
