//! Trails: the files in doubt after an engine has computed wrong results.
//!
//! Some jobs of a guarded engine are verified. A right sample proves nothing about other jobs,
//! because an engine may be wrong now and then. So every file with an unverified job stays in the
//! worker's trail until the end of the run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use evener_core::{IgnorePoison, Verification};

/// The verification of a batch's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// True if any job was not verified.
    pub open: bool,
}

impl Seen {
    pub fn of(jobs: &[Verification]) -> Seen {
        Seen { open: jobs.iter().any(|&job| job != Verification::Passed) }
    }
}

/// One worker's files with jobs that were not verified.
#[derive(Debug, Default)]
pub struct Trail {
    files: Mutex<Files>,
    /// The number of names that all workers of the run keep.
    kept: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Files {
    engine: String,
    /// Directories are shared, since most files are in the previous file's directory.
    names: Vec<(Arc<Path>, Box<OsStr>)>,
    /// The file after the last one kept, if any was left out.
    beyond: Option<PathBuf>,
    /// The number of files left out.
    unnamed: u64,
}

impl Trail {
    /// Notes that an engine did a job of a file that was not verified.
    pub fn add(&self, engine: &str, path: impl FnOnce() -> PathBuf) {
        let files = &mut *self.files();
        let path = path();
        let name = path.file_name().unwrap_or_default();
        let directory = path.parent().unwrap_or(Path::new(""));
        let last = files.names.last();
        let is_last = last.is_some_and(|(its, last)| **its == *directory && **last == *name);
        if files.beyond.as_ref().map_or(is_last, |beyond| *beyond == path) {
            return;
        }
        files.engine.replace_range(.., engine);
        if self.kept.fetch_add(1, Ordering::Relaxed) < MOST {
            let shared = last.map(|(its, _)| its).filter(|its| ***its == *directory).cloned();
            let directory = shared.unwrap_or_else(|| directory.into());
            files.names.push((directory, OsString::from(name).into_boxed_os_str()));
        } else {
            files.beyond = Some(path);
            files.unnamed += 1;
        }
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().ignore_poison()
    }
}

/// The unverified files of all workers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unverified {
    /// Engines and files, each file once for each engine.
    pub files: Vec<(String, PathBuf)>,
    /// Engines, each with the number of further files whose names were not kept.
    pub unnamed: Vec<(String, u64)>,
}

/// The trails of all workers.
#[derive(Debug, Default)]
pub(crate) struct Trails {
    trails: Mutex<Vec<Arc<Trail>>>,
    kept: Arc<AtomicU64>,
}

impl Trails {
    /// Begins the trail of a new worker.
    pub(crate) fn begin(&self) -> Arc<Trail> {
        let trail = Arc::new(Trail { kept: Arc::clone(&self.kept), ..Trail::default() });
        self.trails.lock().ignore_poison().push(Arc::clone(&trail));
        trail
    }

    /// Everything in the trails.
    pub(crate) fn files(&self) -> Unverified {
        let trails = self.trails.lock().ignore_poison();
        let mut all = Unverified::default();
        for trail in trails.iter() {
            let files = trail.files();
            let paths = files.names.iter().map(|(directory, name)| directory.join(&**name));
            all.files.extend(paths.map(|path| (files.engine.clone(), path)));
            if files.unnamed > 0 {
                all.unnamed.push((files.engine.clone(), files.unnamed));
            }
        }
        all.files.sort();
        all.files.dedup();
        all
    }
}

/// The most names that a run keeps: some megabytes.
const MOST: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_holds_every_file_with_an_unverified_job() {
        let trails = Trails::default();
        let (one, two) = (trails.begin(), trails.begin());
        one.add("a", || "first".into());
        one.add("a", || "below/second".into());
        one.add("a", || "below/second".into());
        two.add("b", || "below/second".into());
        two.add("b", || "".into());
        let named = |engine: &str, path: &str| (engine.to_owned(), PathBuf::from(path));
        let files = [
            named("a", "below/second"),
            named("a", "first"),
            named("b", ""),
            named("b", "below/second"),
        ];
        assert_eq!(trails.files(), Unverified { files: files.into(), unnamed: Vec::new() });
    }

    #[test]
    fn files_beyond_the_bound_are_counted() {
        let trails = Trails::default();
        let trail = trails.begin();
        for number in 0..MOST + 3 {
            for _segment in 0..2 {
                trail.add("a", || format!("below/{number}").into());
            }
        }
        let unverified = trails.files();
        assert_eq!(unverified.files.len() as u64, MOST);
        assert_eq!(unverified.unnamed, [("a".to_owned(), 3)]);
    }
}
