//! The end of a file, and the end of the operation.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use evener_core::IgnorePoison;
use evener_pipeline::Courtesy;
use rustix::fs::{Mode, Stat, fchmod, fstat};

use super::commit::Finished;
use super::descent::{Descent, Ways, most_open};
use super::directory::Directory;
use super::endpoints::Endpoints;
use super::full;
use super::open::TreeOutput;
use super::resume::has_time_of;
use super::work::TreeWork;
use crate::Operation;
use crate::Refusal::{self, OutputDirectoryMoved, SourceDirectoryMoved};
use crate::identity::{Identity, permissions, status_now};
use crate::location::Location;
use crate::metadata::{Metadata, Xattr, xattrs};
use crate::{FileError, Report};
use evener_seal::{Blob, Done, Workspace};

/// The directories visited, whose metadata is set when everything in them is done.
#[derive(Default)]
pub(super) struct Directories {
    visited: Mutex<Vec<Visited>>,
    /// The directories of the target tree.
    targets: Mutex<HashSet<Identity>>,
    /// The directories of the source tree.
    sources: Mutex<HashSet<Identity>>,
    symlinks: AtomicU64,
}

/// A directory of the source tree.
pub(super) struct Visited {
    pub(super) location: Arc<Location>,
    pub(super) status: Stat,
    /// The identity of its counterpart, and whether this run has made it.
    pub(super) target: Option<(Identity, bool)>,
}

impl Directories {
    pub(super) fn visited(&self, directory: &Directory) {
        self.sources.lock().ignore_poison().insert(directory.identity());
        self.visited.lock().ignore_poison().push(Visited {
            location: directory.location.clone(),
            status: directory.status,
            target: directory.target.as_ref().map(|made| (made.identity, made.is_new)),
        });
    }

    fn with_visited(&self, look: impl FnOnce(&[Visited])) {
        look(&self.visited.lock().ignore_poison());
    }

    /// Notes a directory of the target tree; returns whether it is new.
    pub(super) fn is_new_target(&self, directory: Identity) -> bool {
        self.targets.lock().ignore_poison().insert(directory)
    }

    /// Returns whether outputs go to this directory.
    pub(super) fn is_target(&self, directory: Identity) -> bool {
        self.targets.lock().ignore_poison().contains(&directory)
    }

    /// Returns whether files of this directory are sources.
    pub(super) fn is_source(&self, directory: Identity) -> bool {
        self.sources.lock().ignore_poison().contains(&directory)
    }

    pub(super) fn count_symlink(&self) {
        self.symlinks.fetch_add(1, Ordering::Relaxed);
    }
}

impl TreeWork<'_> {
    /// Ends a file: checks its source, sets the output's metadata and publishes it.
    pub(super) fn finish_file(
        &self,
        done: &Done<'_, Self>,
        output: Option<TreeOutput>,
        workspace: &mut Workspace,
    ) -> Result<(), FileError> {
        let Done { group: directory, item, blob: source, .. } = *done;
        let is_unchanged = self.is_unchanged(item, source)?;
        let Some(output) = output else {
            self.record.done(|| directory.path_of(&item.name), source.length(), 0, false);
            return Ok(());
        };
        let named = self.named(directory, item);
        if output.leaves_holes {
            output.file.set_length(done.length).map_err(&named)?;
        }
        if self.options.remove_source {
            self.compare_with(done, &output, workspace)?;
            self.compare_with_existing(done, workspace)?;
        }
        let TreeOutput { file, created, granted, .. } = output;
        let (from, into) = (source.as_fd(), file.as_fd());
        let applied = self.metadata.apply(from, source.status(), into, created, granted);
        applied.map_err(&named)?;
        self.commit(Finished {
            directory: directory.clone(),
            name: item.name.clone(),
            target: item.target.clone(),
            source: source.clone(),
            output: file,
            length: done.length,
            is_unchanged,
        })
    }

    /// Ends the operation after all workers and links: handles outputs that wait to be synced,
    /// sources with several names, outputs whose source is gone, and the directories' own metadata.
    pub(super) fn finish_all(
        self,
        endpoints: &Endpoints,
        target: Option<&Path>,
        report: &mut Report,
    ) {
        self.commit_waiting();
        report.hard_links += self.remove_linked_sources(endpoints);
        if let Endpoints::Tree { root, .. } = endpoints {
            if !self.is_stopped() {
                self.tell_of_selection();
            }
            if let (Some(delete), Some(target)) = (self.options.existing.delete(), target) {
                self.delete_orphans(root, target, &delete.agree);
                self.make_late_symlinks(root);
            }
            self.tell_of_mounts(target.unwrap_or(Path::new("")));
            if self.minds_names() {
                self.directories.with_visited(|visited| self.find_clashes(root, visited));
            }
            self.close_directories(root, target.unwrap_or(Path::new("")));
            // After a stop, the next run returns to these directories, but can't tell which of this
            // user's directories the source's owner should get.
            if self.writes() && (!self.is_stopped() || self.options.owner) {
                self.finish_directories(root, target.unwrap_or(Path::new("")));
            }
        }
        self.sync_target(endpoints);
        for error in self.metadata.unkept.failures() {
            self.record.failed_of(target.unwrap_or(Path::new("")).to_owned(), error);
        }
        for reason in self.metadata.unkept.notices() {
            self.record.notice_of(target.unwrap_or(Path::new("")).to_owned(), reason);
        }
        let visited = self.directories.visited.into_inner().ignore_poison();
        report.directories = visited.len() as u64;
        report.symlinks = self.directories.symlinks.into_inner();
        self.record.into_report(report);
    }

    /// Reports globs without a match, and paths that do not exist.
    fn tell_of_selection(&self) {
        let suffix =
            Some(self.options.names.suffix()).filter(|_| self.operation != Operation::Encrypt);
        for reason in self.selection.notices(suffix) {
            self.record.notice(Path::new(""), reason);
        }
        for (path, error) in self.selection.missing(suffix) {
            self.record.failed(path, error);
        }
    }

    /// Sets the mode, times and so on of every target directory that this run has made. If outputs
    /// of earlier runs are expected, also of the directories that an interrupted run may have made,
    /// and with `Existing::Update` of all. `path` is the user's name for the target.
    fn finish_directories(&self, root: &Directory, path: &Path) {
        let visited = self.directories.visited.lock().ignore_poison();
        let is_concerned = |directory: &&Visited| {
            let is_new = directory.target.is_some_and(|(_, is_new)| is_new);
            self.may_find_outputs() || is_new
        };
        let finish = |ways: &mut Option<Ways<'_>>, directory: &&Visited| {
            let (Some(Ways { sources, targets }), below) = (ways, &directory.location) else {
                return;
            };
            let itself = (below, Identity::of(&directory.status));
            match open_again(sources, itself, "open the directory again", SourceDirectoryMoved) {
                Err(error) => self.record.failed(&below.path(), error),
                Ok((source, _)) => {
                    if let Err(error) = self.finish_directory(directory, source, targets) {
                        self.record.failed_of(full(path, &below.path()), error);
                    }
                }
            }
        };
        // Entries below a directory that stays open to this process can be found before and after.
        let stays_open = |directory: &&Visited| {
            let mode = self.metadata.wanted_mode(&directory.status);
            !self.metadata.owner && mode.contains(Mode::RWXU)
        };
        let deepest = visited.iter().map(|directory| directory.location.depth()).max();
        let concerned = visited.iter().filter(is_concerned);
        let (open, others): (Vec<_>, Vec<_>) = concerned.partition(stays_open);
        let shares_cores = self.run.courtesy != Courtesy::default();
        let threads = if shares_cores { 1 } else { self.workers };
        let threads = threads.min(MOST_OPEN / (2 * most_open(deepest.unwrap_or(0)).max(1)));
        let threads = threads.min(open.len() / DIRECTORIES_FOR_A_THREAD);
        for_each(&open, threads, || root.ways(), finish);
        // The deepest first.
        let mut ways = root.ways();
        others.iter().rev().for_each(|directory| finish(&mut ways, directory));
    }

    fn finish_directory(
        &self,
        directory: &Visited,
        source: BorrowedFd<'_>,
        targets: &mut Descent<'_>,
    ) -> Result<(), FileError> {
        let Visited { location, status, target } = directory;
        let (counterpart, is_new) = target.ok_or(OutputDirectoryMoved)?;
        let action = "set the output directory's metadata";
        let counterpart = (location, counterpart);
        let (output, there) = open_again(targets, counterpart, action, OutputDirectoryMoved)?;
        let is_root = location.is_root();
        let granted = self.metadata.granted(&there, status);
        // If there is nothing to do, the target may be read-only.
        if !is_new
            && permissions(&there) == self.metadata.wanted_mode(status) & granted
            && has_time_of(&there, status)
            && self.metadata.has_owner(status, &there)
            && self.metadata.has_xattrs(source, output)?
        {
            return Ok(());
        }
        if is_new {
            let xattrs = || xattrs(source, |name| self.metadata.gives_xattr(name));
            return finish_new_directory(&self.metadata, xattrs, status, (output, &there));
        }
        if self.options.existing.updates() && !is_root {
            return self.metadata.renew(source, status, output, granted);
        }
        let is_finished = self.metadata.apply_to_unfinished(source, status, output)?;
        // The root of an updated tree keeps its mode, and so does any directory where outputs are
        // replaced: the user may have made it.
        if !is_finished && self.options.existing.resumes() && self.keeps_modes(output) {
            let mut reason = "its output directory was there before with another mode, owner or \
                              access list, which it keeps"
                .to_owned();
            if !is_root {
                reason.push_str("; an update gives it that of the source");
            }
            self.record.notice(&location.path(), reason);
        }
        Ok(())
    }
}

/// Gives a directory that this run has made the metadata of its source.
pub(crate) fn finish_new_directory(
    metadata: &Metadata,
    xattrs: impl FnOnce() -> Result<Vec<Xattr>, FileError>,
    status: &Stat,
    (output, there): (BorrowedFd<'_>, &Stat),
) -> Result<(), FileError> {
    let mode = permissions(there);
    let may_have = metadata.wanted_mode(status) | Mode::RWXU | Mode::SGID | Mode::SVTX;
    if !may_have.contains(mode) {
        metadata.unkept.modes.note();
    }
    let granted = metadata.granted(there, status);
    metadata.apply_with(xattrs, status, output, Some(mode), granted)?;
    metadata.unmark(output);
    Ok(())
}

impl TreeWork<'_> {
    /// Returns whether the file system of a directory sets modes. Tries it with a file that never
    /// gets its name.
    fn keeps_modes(&self, directory: BorrowedFd<'_>) -> bool {
        let unkept = &self.metadata.unkept.modes;
        if unkept.is_noted() {
            return false;
        }
        let Ok(trial) = self.outputs.create(directory, OsStr::new("trial"), Mode::RUSR) else {
            return true;
        };
        // No mount gives this mode to all of its files.
        let wanted = Mode::RUSR | Mode::WUSR | Mode::XGRP;
        let _ = fchmod(trial.as_fd(), wanted);
        let keeps = status_now(trial.as_fd()).is_ok_and(|there| permissions(&there) == wanted);
        if !keeps {
            unkept.note();
        }
        keeps
    }
}

/// Opens a directory of either tree again, and returns its status too. `moved` is the error if it
/// is another one now.
fn open_again<'a>(
    way: &'a mut Descent<'_>,
    (location, expected): (&Arc<Location>, Identity),
    action: &'static str,
    moved: Refusal,
) -> Result<(BorrowedFd<'a>, Stat), FileError> {
    let system = FileError::system(action);
    let directory = way.to(location).map_err(&system)?;
    let there = fstat(directory).map_err(&system)?;
    match Identity::of(&there) == expected {
        true => Ok((directory, there)),
        false => Err(moved.into()),
    }
}

/// Calls `act` for each item on at most `threads` threads, and at most as many as there are cores.
/// Each thread has its own state.
fn for_each<T: Sync, S>(
    items: &[T],
    threads: usize,
    state: impl Fn() -> S + Sync,
    act: impl Fn(&mut S, &T) + Sync,
) {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut state = state();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            act(&mut state, item);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.min(cores) {
            // Without this thread, the others do all items.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
}

/// The number of directories open at once at the end: few enough for the usual limit of 1,024 open
/// files.
const MOST_OPEN: usize = 256;

/// Starting a thread takes as long as finishing some directories.
const DIRECTORIES_FOR_A_THREAD: usize = 32;
