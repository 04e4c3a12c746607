//! Publishing outputs: at once, or in synced batches when they must be durable.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};

use evener_core::{IgnorePoison, shown};
use evener_keys::KeyFile;
use rustix::fs::{AtFlags, fstat, statat, syncfs, unlinkat};
use rustix::io::Errno;

use super::directory::{Directory, Made};
use super::durable;
use super::endpoints::Endpoints;
use super::names::check_published;
use super::work::TreeWork;
use crate::FileError;
use crate::identity::Identity;
use crate::output::Output;
use crate::source::Source;
use evener_seal::Blob;

/// A complete output that is ready for its name.
pub(super) struct Finished {
    pub(super) directory: Arc<Directory>,
    /// The source's name.
    pub(super) name: OsString,
    /// The output's name.
    pub(super) target: OsString,
    pub(super) source: Arc<Source>,
    pub(super) output: Arc<Output<Arc<Made>>>,
    /// The output's length in bytes.
    pub(super) length: u64,
    /// True if the source was not written to while it was read.
    pub(super) is_unchanged: bool,
}

/// Outputs that wait for the next sync.
///
/// A sync costs a disk about as much for many files as for one, so files that must be durable
/// are published in batches: sync all their content at once, give all of them their names, and
/// sync again before any source is removed.
///
/// One batch is synced at a time, while the next gathers: more batches would keep too many files
/// open.
#[derive(Default)]
pub(super) struct Committer {
    waiting: Mutex<Vec<Finished>>,
    syncing: Mutex<()>,
    /// The first directory seen of each filesystem.
    witnesses: Mutex<Vec<(u64, Arc<Made>)>>,
}

impl TreeWork<'_> {
    /// Publishes an output, now or with the next batch.
    pub(super) fn commit(&self, finished: Finished) -> Result<(), FileError> {
        if !self.is_durable() {
            let updated = self.publish(&finished)?;
            self.record_done(&finished, updated);
            return Ok(());
        }
        let mut waiting = self.committer.waiting.lock().ignore_poison();
        waiting.push(finished);
        if waiting.len() < BATCH {
            return Ok(());
        }
        // A thread with another file to commit waits for this one sync, too.
        let syncing = self.committer.syncing.lock().ignore_poison();
        let batch = std::mem::take(&mut *waiting);
        drop(waiting);
        self.commit_batch(batch);
        drop(syncing);
        Ok(())
    }

    /// Publishes the outputs that still wait, when no worker is left.
    pub(super) fn commit_waiting(&self) {
        let mut waiting = self.committer.waiting.lock().ignore_poison();
        let batch = std::mem::take(&mut *waiting);
        drop(waiting);
        self.commit_batch(batch);
    }

    /// Syncs the target's directories to the device, at the end of a durable operation.
    pub(super) fn sync_target(&self, endpoints: &Endpoints) {
        let (Endpoints::Tree { root: directory, .. } | Endpoints::File { directory, .. }) =
            endpoints;
        // After a stop there is no need to sync: no source was removed without it.
        if self.is_stopped() {
            return;
        }
        if let (true, Some(target)) = (self.is_durable() && self.writes(), &directory.target)
            && let Err(errno) = self.unless_unsupported(syncfs(target))
        {
            let error = FileError::system("sync the output")(errno);
            self.record.failed(&directory.location.path(), error);
        }
    }

    fn is_durable(&self) -> bool {
        self.options.durable || self.options.remove_source
    }

    fn commit_batch(&self, batch: Vec<Finished>) {
        if self.is_stopped() {
            // None of them has a name yet; syncing them could take long.
            for finished in batch {
                self.fail(&finished, FileError::Interrupted);
            }
            return;
        }
        // Usually one: a target tree may have other filesystems mounted in it.
        let on_each = match self.one_on_each_filesystem(&batch) {
            Ok(on_each) => on_each,
            Err(errno) => return self.fail_all(batch, "read its output's status", errno),
        };
        let synced = on_each.iter().try_for_each(|(device, witness)| {
            let files = batch.iter().map(|finished| finished.output.as_fd());
            let these =
                files.filter(|file| fstat(file).map_or(true, |file| file.st_dev == *device));
            durable::sync(witness, these)
        });
        if let Err(errno) = self.unless_unsupported(synced) {
            self.fail_all(batch, "sync its output", errno);
            return;
        }
        let mut published = Vec::with_capacity(batch.len());
        for finished in batch {
            match self.publish(&finished) {
                Ok(updated) => published.push((finished, updated)),
                Err(error) => self.fail(&finished, error),
            }
        }
        // At the end of the operation only the root's filesystem is synced.
        let is_synced_now = self.options.remove_source || on_each.len() > 1;
        let sync = || on_each.iter().try_for_each(|(_, witness)| syncfs(witness));
        if is_synced_now
            && !self.is_stopped()
            && let Err(errno) = self.unless_unsupported(sync())
        {
            let named = published.into_iter().map(|(finished, _)| finished).collect();
            return self.fail_all(named, "sync its output, so its source was kept", errno);
        }
        if let Err(error) = self.check_wrapped_key() {
            published.iter().for_each(|(finished, _)| self.fail(finished, error.clone()));
            return;
        }
        // A file is counted once, when nothing of it can fail any more.
        for (finished, updated) in published {
            let removes = self.options.remove_source && !self.is_stopped();
            match if removes { self.finish_moving(&finished, updated) } else { Ok(Moved::Done) } {
                Ok(Moved::Done) => self.record_done(&finished, updated),
                Ok(Moved::Later) => {}
                Err(error) => self.fail(&finished, error),
            }
        }
    }

    /// Checks, before sources are removed, that the key of their outputs is still in its place.
    fn check_wrapped_key(&self) -> Result<(), FileError> {
        let Some((path, fingerprint)) = &self.options.program.wrapped_key else { return Ok(()) };
        let removes = self.options.remove_source && !self.is_stopped();
        let is_there =
            || KeyFile::read(path).is_ok_and(|there| there.fingerprint() == *fingerprint);
        match !removes || is_there() {
            true => Ok(()),
            false => Err(FileError::KeyGone(shown(path).to_string())),
        }
    }

    /// If a file system can't sync, outputs are stored all the same, but no source is removed.
    fn unless_unsupported(&self, synced: Result<(), Errno>) -> Result<(), Errno> {
        match self.options.remove_source {
            true => synced,
            false => synced.or_else(|errno| self.metadata.unkept.syncs.forgive(errno)),
        }
    }

    /// Removes the source of an output that is on the device, or schedules its removal at the end
    /// if it has several names. If that fails, the output is still complete, and the file's further
    /// names are linked to it.
    fn finish_moving(&self, finished: &Finished, updated: bool) -> Result<Moved, FileError> {
        let output = check_published(finished)?;
        self.links.done(&finished.source, output);
        if finished.source.status().st_nlink > 1 {
            self.linked_sources.add_finished(finished, updated, output);
            return Ok(Moved::Later);
        }
        remove_source(finished).map(|()| Moved::Done)
    }

    /// The filesystems of a batch, each with one of its directories that was opened before anything
    /// was written there.
    fn one_on_each_filesystem(&self, batch: &[Finished]) -> Result<Vec<(u64, Arc<Made>)>, Errno> {
        let mut known = self.committer.witnesses.lock().ignore_poison();
        let mut found: Vec<(u64, Arc<Made>)> = Vec::new();
        for finished in batch {
            let device = fstat(finished.output.as_fd())?.st_dev;
            if found.iter().any(|(other, _)| *other == device) {
                continue;
            }
            if !known.iter().any(|(other, _)| *other == device)
                && let Some(directory) = finished.directory.target.clone()
            {
                known.push((device, directory));
            }
            found.extend(known.iter().find(|(other, _)| *other == device).cloned());
        }
        Ok(found)
    }

    /// Gives an output its name; returns whether it has replaced the output of an older state.
    fn publish(&self, finished: &Finished) -> Result<bool, FileError> {
        let has_links = finished.source.status().st_nlink > 1 && !self.options.remove_source;
        let named = self.at_name(&finished.directory.location, &finished.target);
        let identity = has_links.then(|| Identity::of_open(finished.output.as_fd())).transpose();
        let identity = identity.map_err(&named)?;
        let has_replaced = self.publish_output(finished).map_err(&named)?;
        if let Some(output) = identity {
            self.links.done(&finished.source, output);
        }
        Ok(has_replaced && self.options.existing.updates())
    }

    fn record_done(&self, finished: &Finished, updated: bool) {
        let path = || finished.directory.path_of(&finished.name);
        self.record.done(path, finished.source.length(), finished.length, updated);
        if !finished.is_unchanged {
            self.record.stored_changing(&path());
        }
    }

    fn fail(&self, finished: &Finished, error: FileError) {
        self.record.failed_file(&finished.directory.path_of(&finished.name), error);
    }

    fn fail_all(&self, batch: Vec<Finished>, action: &'static str, errno: Errno) {
        for finished in batch {
            let named = self.at_name(&finished.directory.location, &finished.target);
            self.fail(&finished, named(FileError::system(action)(errno)));
        }
    }
}

/// The outcome of a file's move.
enum Moved {
    Done,
    /// Its source is removed at the end, and counted then.
    Later,
}

/// Removes a source whose output is verified, named and on the device, if its name still leads to
/// the file that was read.
fn remove_source(finished: &Finished) -> Result<(), FileError> {
    finished.source.check_unchanged().map_err(|error| match error {
        FileError::Changed => FileError::ChangedSince,
        other => other,
    })?;
    let directory = &finished.directory.source;
    let there = statat(directory, &finished.name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(FileError::system("remove the source"))?;
    if Identity::of(&there) != Identity::of(finished.source.status()) {
        return Err(FileError::ChangedSince);
    }
    unlinkat(directory, &finished.name, AtFlags::empty())
        .map_err(FileError::system("remove the source"))
}

/// The number of outputs synced together. Each keeps two files open, and at worst two directories.
const BATCH: usize = 64;
