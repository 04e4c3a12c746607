//! Publishing outputs: at once, or in synced batches when they must be durable.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, statat, syncfs, unlinkat};
use rustix::io::Errno;

use super::directory::{Directory, TargetDirectory};
use super::endpoints::{Endpoints, same_file};
use super::work::TreeWork;
use crate::FileError;
use crate::output::Output;
use crate::source::Source;

/// A complete output that is ready for its name.
pub(super) struct Finished {
    pub(super) directory: Arc<Directory>,
    /// The source's name.
    pub(super) name: OsString,
    pub(super) source: Arc<Source>,
    pub(super) output: Arc<Output<TargetDirectory>>,
    /// The output's length in bytes.
    pub(super) length: u64,
}

/// Outputs that wait for the next sync.
///
/// A sync costs a disk about as much for many files as for one, so files that must be durable
/// are published in batches: sync all their content at once, give all of them their names, and
/// sync again before any source is removed.
#[derive(Default)]
pub(super) struct Committer {
    waiting: Mutex<Vec<Finished>>,
}

impl TreeWork<'_> {
    /// Publishes an output, now or with the next batch.
    pub(super) fn commit(&self, finished: Finished) -> Result<(), FileError> {
        if !self.is_durable() {
            return self.publish(&finished);
        }
        let mut waiting = self.committer.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(finished);
        if waiting.len() < BATCH {
            return Ok(());
        }
        let batch = std::mem::take(&mut *waiting);
        drop(waiting);
        self.commit_batch(batch);
        Ok(())
    }

    /// Publishes the outputs that still wait.
    pub(super) fn commit_waiting(&self) {
        let mut waiting = self.committer.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = std::mem::take(&mut *waiting);
        drop(waiting);
        self.commit_batch(batch);
    }

    /// Brings the target's directories to the device, at the end of a durable operation.
    pub(super) fn sync_target(&self, endpoints: &Endpoints) {
        let (Endpoints::Tree { root: directory } | Endpoints::File { directory, .. }) = endpoints;
        if let (true, Some(target)) = (self.is_durable(), &directory.target)
            && let Err(errno) = syncfs(target)
        {
            let error = FileError::System { action: "sync the output", errno };
            self.record.failed(&directory.path, error);
        }
    }

    fn is_durable(&self) -> bool {
        self.options.durable || self.options.remove_source
    }

    fn commit_batch(&self, mut batch: Vec<Finished>) {
        let Some(output) = batch.first().map(|finished| finished.output.clone()) else { return };
        if let Err(errno) = syncfs(output.as_fd()) {
            self.fail_all(batch, "sync its output", errno);
            return;
        }
        batch.retain(|finished| match self.publish(finished) {
            Ok(()) => true,
            Err(error) => {
                self.record.failed(&finished.directory.path_of(&finished.name), error);
                false
            }
        });
        if !self.options.remove_source {
            return;
        }
        if let Err(errno) = syncfs(output.as_fd()) {
            self.fail_all(batch, "sync its output, so the source was kept", errno);
            return;
        }
        for finished in batch {
            match remove_source(&finished) {
                Ok(()) => self.links.done(&finished.source),
                Err(error) => {
                    self.record.failed(&finished.directory.path_of(&finished.name), error);
                }
            }
        }
    }

    fn publish(&self, finished: &Finished) -> Result<(), FileError> {
        finished.output.publish(self.outputs)?;
        if !self.options.remove_source {
            self.links.done(&finished.source);
        }
        self.record.done(finished.source.length(), finished.length);
        Ok(())
    }

    fn fail_all(&self, batch: Vec<Finished>, action: &'static str, errno: Errno) {
        for finished in batch {
            let path = finished.directory.path_of(&finished.name);
            self.record.failed(&path, FileError::System { action, errno });
        }
    }
}

/// Removes a source whose output is verified, named and on the device, if its name still is
/// the file that was read.
fn remove_source(finished: &Finished) -> Result<(), FileError> {
    finished.source.check_unchanged()?;
    let directory = &finished.directory.source;
    let there = statat(directory, &finished.name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(FileError::system("remove the source"))?;
    if !same_file(&there, finished.source.status()) {
        return Err(FileError::Changed);
    }
    unlinkat(directory, &finished.name, AtFlags::empty())
        .map_err(FileError::system("remove the source"))
}

/// How many outputs are synced together. Each keeps two files open.
const BATCH: usize = 128;
