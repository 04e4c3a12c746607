//! Programs for single files, run once for each file of a tree.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use super::super::walk::Listing;
use crate::LabError;
use crate::process::{Cost, run};

/// Runs `command(source, target)` for every regular file of the tree `source`, with one command per
/// core at a time, into a tree of the same shape at `target`. Links are skipped.
pub(super) fn each_file(
    source: &Path,
    target: &Path,
    command: impl Fn(&Path, &Path) -> Command + Sync,
) -> Result<Cost, LabError> {
    let listing = Listing::of(source)?;
    let start = Instant::now();
    for directory in &listing.directories {
        let path = target.join(directory);
        fs::create_dir_all(&path).map_err(LabError::file("create", &path))?;
    }

    let next = AtomicUsize::new(0);
    let work = || -> Result<u64, LabError> {
        let mut peak = 0;
        while let Some(name) = listing.files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let done = run(&mut command(&source.join(name), &target.join(name)));
            if done.is_err() {
                // The other threads stop after their current file.
                next.store(listing.files.len(), Ordering::Relaxed);
            }
            peak = peak.max(done?.peak);
        }
        Ok(peak)
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let peaks = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        workers.into_iter().map(join).collect::<Result<Vec<u64>, LabError>>()
    })?;
    let peak = peaks.into_iter().max().unwrap_or(0);
    Ok(Cost { wall: start.elapsed(), peak })
}
