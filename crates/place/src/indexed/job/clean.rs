//! Removes the files of a job.

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use evener_core::{IgnorePoison, Key};
use serde::Serialize;

use super::super::depot::{Depot, refused};
use super::super::{at_work, marker};
use super::manifest::{self, FINISHED, Job, MANIFEST, MARKER, MOST_MANIFEST, RECEIPTS};
use super::plan::Ends;
use crate::place::{Kind, Store};
use crate::{Failure, Fault, FileError, Name, RunSettings};

/// The result of removing a job's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CleanedJob {
    /// The files removed from the job's place.
    pub files: u64,
}

/// Removes the files of a finished job from its place. The generation needs none of them.
/// `abandons` also removes those of a job that has no generation: what its workers have written to
/// the target then belongs to nothing, and cleaning the tree removes it.
///
/// # Errors
/// When the job is not finished, or files can't be removed.
pub fn clean_job(
    ends: &Ends<'_>,
    run: &RunSettings,
    key: &Key,
    abandons: bool,
) -> Result<CleanedJob, Failure> {
    let of_job = |error| Failure { path: ends.job.label(), error };
    let depot = Depot::of(ends.job, run).map_err(of_job)?;
    manifest::marker(&depot).map_err(of_job)?;
    let job = match depot.read(MANIFEST, MOST_MANIFEST).map_err(of_job)? {
        Some(_) => Some(Job::open(ends.job, run, key, ends.manifest).map_err(of_job)?),
        None => None,
    };
    let note = job.as_ref().map(Job::note).transpose().map_err(of_job)?.flatten();
    let is_finished = note.is_some();
    if !is_finished && !abandons {
        return Err(of_job(refused(
            "the job is not finished: run `evener job finish`, or give it up with --abandon",
        )));
    }
    if let Some(job) = &job {
        let target = Depot::of(ends.target, run).and_then(|target| {
            at_work::forget(&target, vec![job.manifest.writer.clone()])?;
            if is_finished { Ok(()) } else { job.remove_begun(&target, ends.target) }
        });
        target.map_err(|error| Failure { path: ends.target.label(), error })?;
    }
    let files = remove_all(&depot, ends.job).map_err(of_job)?;
    Ok(CleanedJob { files })
}

impl Job<'_> {
    /// Removes a tree that the job has begun and that nobody else has written to.
    fn remove_begun(&self, target: &Depot<'_>, store: &dyn Store) -> Result<(), FileError> {
        let is_its = marker::read(target)? == Some(self.tree()?);
        if !is_its || !target.list("tree")?.is_empty() || !at_work::all(target)?.is_empty() {
            return Ok(());
        }
        remove_below(target, store, &["data", "keys", "writers", "tree"])?;
        remove(target, store, vec![Name::found(Path::new(marker::MARKER).to_owned())]).map(drop)
    }
}

/// Removes the files that jobs have, the manifest and the marker last.
pub(super) fn remove_all(depot: &Depot<'_>, store: &dyn Store) -> Result<u64, FileError> {
    let mut removed = remove_below(depot, store, &OWN)?;
    for last in [FINISHED, MANIFEST, MARKER] {
        removed += remove(depot, store, vec![Name::found(Path::new(last).to_owned())])?;
    }
    Ok(removed)
}

/// Removes these directories. Returns the number of files in them.
fn remove_below(
    depot: &Depot<'_>,
    store: &dyn Store,
    directories: &[&str],
) -> Result<u64, FileError> {
    let (mut files, mut emptied) = (Vec::new(), Vec::new());
    for entry in depot.origin.walk() {
        let entry = entry?;
        let is_below = directories.iter().any(|it| entry.name.path().starts_with(it));
        match entry.kind {
            Kind::Directory if is_below => emptied.push(entry.name),
            _ if is_below => files.push(entry.name),
            _ => {}
        }
    }
    let removed = remove(depot, store, files)?;
    emptied.sort_by_key(|name| std::cmp::Reverse(name.path().components().count()));
    if store.tree().is_some() {
        emptied.iter().try_for_each(|name| passed_over(store.remove(name)))?;
    }
    Ok(removed)
}

/// Removes files, as many at once as the place takes requests.
fn remove(depot: &Depot<'_>, store: &dyn Store, files: Vec<Name>) -> Result<u64, FileError> {
    let requests = store.abilities().requests().clamp(1, MOST_AT_ONCE).min(files.len().max(1));
    let (left, failure) = (Mutex::new(files.into_iter()), Mutex::new(None));
    let removed = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..requests {
            scope.spawn(|| {
                let next = || left.lock().ignore_poison().next();
                while let Some(name) = next() {
                    let result = match depot.run.control.is_stopped() {
                        true => Err(FileError::Interrupted),
                        false => store.remove(&name).map_err(FileError::from),
                    };
                    match result {
                        Ok(()) => *removed.lock().ignore_poison() += 1,
                        Err(FileError::Place(Fault::Missing(_))) => {}
                        Err(error) => {
                            failure.lock().ignore_poison().get_or_insert(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    match failure.into_inner().ignore_poison() {
        Some(error) => Err(error),
        None => Ok(removed.into_inner().ignore_poison()),
    }
}

fn passed_over(removed: Result<(), Fault>) -> Result<(), FileError> {
    match removed {
        Err(Fault::Missing(_)) | Ok(()) => Ok(()),
        Err(fault) => Err(fault.into()),
    }
}

/// The directories with a job's files.
const OWN: [&str; 3] = ["shards", RECEIPTS, "attempts"];

const MOST_AT_ONCE: usize = 32;
