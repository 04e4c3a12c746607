//! Feeds the queue with the files of the source tree, and makes directories and links.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use evener_core::shown;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::choice::{Choice, Found, Unfit};
use super::directory::{Directory, Item, Made, make_below, open_directory};
use super::walk::{Below, Entry, Step, Visitor, Walk, read};
use super::work::TreeWork;
use crate::left_out;
use crate::naming::no_output_directory;
use crate::temporary::sweep;
use crate::{FileError, Operation, Refusal};
use evener_seal::Feed;

/// The visitor that feeds the queue.
struct Feeder<'f, 'a> {
    work: &'f TreeWork<'a>,
    feed: &'f Feed<'f, TreeWork<'a>>,
    /// The files of the directory that are not fed yet.
    files: Vec<Item>,
}

impl Visitor for Feeder<'_, '_> {
    fn is_over(&self) -> bool {
        let is_stopped = self.work.is_stopped();
        if is_stopped {
            self.feed.stop();
        }
        is_stopped
    }

    fn take(&mut self, step: &mut Step<'_>) -> Result<bool, FileError> {
        let work = self.work;
        let directory = &mut step.directory;
        directory.target = work.counterpart_of(step.above, directory)?.map(Arc::new);
        let is_left_out = step.is_elsewhere && work.options.one_file_system;
        if is_left_out {
            work.note_mount(directory)?;
            work.record.left_out(&directory.location.path(), left_out::OTHER_FILE_SYSTEM);
            work.directories.visited(directory);
        }
        Ok(!is_left_out)
    }

    fn read(&mut self, directory: &Arc<Directory>, below: &mut Below) -> Result<(), FileError> {
        let work = self.work;
        work.take_over(directory);
        work.directories.visited(directory);
        let was_mount = work.note_mount(directory)?;
        if work.may_find_outputs() {
            work.sweep_target(directory)?;
        }
        let is_empty = read(self, directory, below);
        self.feed_files(directory);
        match is_empty? && was_mount && !work.options.existing.deletes_unmounted() {
            true => Err(FileError::Unmounted),
            false => Ok(()),
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<bool, FileError> {
        let work = self.work;
        let Found { kind, status, is_taken } = work.choice().look_at(entry)?;
        match kind {
            FileType::Directory if !is_taken => work.mounts.leave_gap(),
            _ if !is_taken => {}
            FileType::Directory => {
                if work.operation != Operation::Verify {
                    work.refuse_collision(entry.directory, entry.name)?;
                }
                return Ok(true);
            }
            FileType::RegularFile => self.add(entry, status)?,
            FileType::Symlink => work.copy_symlink(entry.directory, entry.name)?,
            other => work.record.left_out(&entry.path(), left_out::special(other)),
        }
        Ok(false)
    }

    fn failed(&mut self, path: PathBuf, error: FileError) {
        self.work.record.failed(&path, error);
    }
}

impl Feeder<'_, '_> {
    fn add(&mut self, entry: &Entry<'_>, status: Option<Stat>) -> Result<(), FileError> {
        let work = self.work;
        let target = match work.choice().output_of(entry) {
            Ok(target) => target,
            Err(Unfit::Beside) => return Ok(()),
            Err(Unfit::LeftOut(reason)) => {
                work.record.left_out(&entry.path(), reason);
                return Ok(());
            }
            Err(Unfit::Failed(error)) => return Err(error),
        };
        work.refuse_own_name(entry.directory, &target)?;
        if work.options.measure_total {
            let status = status.map_or_else(|| entry.status(), Ok)?;
            work.run.control.found(0, status.st_size as u64);
        }
        self.files.push(Item::new(entry.name, target));
        if self.files.len() == BATCH {
            self.feed_files(entry.directory);
        }
        Ok(())
    }

    fn feed_files(&mut self, directory: &Arc<Directory>) {
        if !self.files.is_empty() {
            self.work.record.fed(self.files.len() as u64);
            let files = std::mem::replace(&mut self.files, Vec::with_capacity(BATCH));
            self.feed.push(directory.clone(), files);
        }
    }
}

impl TreeWork<'_> {
    /// Walks through the source. It feeds all files of a directory first, then enters each
    /// subdirectory. At any time, some of the directories on the way down are open, and those whose
    /// files wait in the queue.
    pub(super) fn walk(&self, root: &Arc<Directory>, feed: &Feed<'_, Self>) {
        if let Some(target) = &root.target {
            self.directories.is_new_target(target.identity);
        }
        self.recall_mounts(root);
        let files = Vec::with_capacity(BATCH);
        Walk::new(root.clone()).run(&mut Feeder { work: self, feed, files });
    }

    pub(super) fn choice(&self) -> Choice<'_> {
        let TreeWork { operation, options, selection, around, keys, .. } = self;
        Choice { operation: *operation, options, selection, around: *around, keys: Some(keys) }
    }

    /// Makes (or finds) the counterpart of a directory in that of `parent`.
    fn counterpart_of(
        &self,
        parent: &Directory,
        directory: &Directory,
    ) -> Result<Option<Made>, FileError> {
        let Directory { status, location, .. } = directory;
        if self.directories.is_target(directory.identity()) {
            return Err(Refusal::HoldsOutputs.into());
        }
        self.around.map_or(Ok(()), |around| around.refuse(status))?;
        let (Some(made), Some((_, name))) = (&parent.target, location.above()) else {
            return Ok(None);
        };
        let named = self.at_name(&parent.location, name);
        let counterpart = || self.counterpart((parent, made), name, status);
        let make = || self.in_target(parent, counterpart);
        let Some(mut target) = parent.claims.take_name(made.as_fd(), name, make).map_err(&named)?
        else {
            return Ok(None);
        };
        let is_source =
            target.identity == directory.identity() || self.directories.is_source(target.identity);
        if is_source {
            return Err(Refusal::HoldsSources.into());
        }
        if !self.directories.is_new_target(target.identity) {
            return Err(FileError::SameName(shown(&location.path()).to_string()));
        }
        self.look_at_mounted(made, &target)?;
        target.settle(made.inherited, status, &self.metadata).map_err(&named)?;
        Ok(Some(target))
    }

    /// Makes (or finds) a directory of the target tree. A new one is usable by its owner; it gets
    /// the rest of its own mode when everything in it is done.
    fn counterpart(
        &self,
        (directory, parent): (&Directory, &Made),
        name: &OsStr,
        source: &Stat,
    ) -> Result<Option<Made>, FileError> {
        if !self.options.dry_run {
            return make_below(parent, name, source, &self.metadata).map(Some);
        }
        match open_directory(parent.as_fd(), name, false) {
            Ok(directory) => Made::of(directory, false).map(Some),
            Err(Errno::NOENT) => {
                self.may_make_in(directory, parent)
                    .map_err(FileError::system("make its output directory"))?;
                Ok(None)
            }
            Err(errno) => Err(no_output_directory(parent.as_fd(), name, errno)),
        }
    }

    /// Removes unfinished files of killed runs from the target of a directory, once.
    pub(super) fn sweep_target(&self, directory: &Directory) -> Result<(), FileError> {
        match &directory.target {
            Some(target) if self.writes() && directory.claims.begin_sweep() => {
                let swept = match sweep(target.as_fd()) {
                    // A directory that can't be read may still be written to.
                    Err(Errno::ACCESS) => Ok(()),
                    swept => swept,
                };
                let error = swept.map_err(FileError::system("look for old temporary files"));
                error.map_err(self.at_name(&directory.location, OsStr::new("")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a symbolic link or a directory that has the name of a neighbouring file's output:
    /// their names stay as they are, and chance would decide which of the two came first.
    pub(super) fn refuse_collision(
        &self,
        directory: &Directory,
        name: &OsStr,
    ) -> Result<(), FileError> {
        let names = &self.options.names;
        let file = match self.operation {
            Operation::Encrypt => names.open(name),
            Operation::Decrypt | Operation::Verify => Ok(names.seal(name)),
        };
        let Ok(file) = file else { return Ok(()) };
        let is_file = directory
            .status_of(&file)
            .is_ok_and(|there| FileType::from_raw_mode(there.st_mode) == FileType::RegularFile);
        let plain_path = || self.choice().plain_path(&directory.location, &file);
        if is_file && self.selection.takes_file(&plain_path()) {
            return Err(Refusal::NameOfOutput(shown(&file).to_string()).into());
        }
        Ok(())
    }
}

/// The number of names in one task: enough that claiming costs little, few enough that the workers
/// end together.
const BATCH: usize = 32;
