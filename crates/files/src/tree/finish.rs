//! How a file ends, and how the whole operation ends.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use evener_pipeline::Worker;
use rustix::fs::{Mode, Stat};

use super::directory::{Directory, Item, TargetDirectory, open_path};
use super::endpoints::Endpoints;
use super::work::TreeWork;
use super::{Operation, commit};
use crate::bench::Bench;
use crate::format::FileCipher;
use crate::output::Output;
use crate::segment::Segments;
use crate::source::Source;
use crate::{FileError, Report};

/// An output of a tree with the mode that it has since it was created, if that is known.
#[derive(Clone)]
pub(super) struct TreeOutput {
    pub(super) file: Arc<Output<TargetDirectory>>,
    pub(super) created: Option<Mode>,
}

/// A file whose every byte has been processed and written.
pub(super) struct Done<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) item: &'a Item,
    pub(super) source: &'a Arc<Source>,
    pub(super) cipher: &'a FileCipher,
    pub(super) segments: &'a Segments,
    /// The length of the result, in bytes.
    pub(super) length: u64,
}

/// The directories visited, whose metadata is set when everything in them is done.
#[derive(Default)]
pub(super) struct Directories {
    visited: Mutex<Vec<Visited>>,
    symlinks: AtomicU64,
}

/// A directory of the source tree.
pub(super) struct Visited {
    /// Its path below the root.
    pub(super) path: PathBuf,
    pub(super) status: Stat,
}

impl Directories {
    pub(super) fn visited(&self, directory: Visited) {
        self.visited.lock().unwrap_or_else(PoisonError::into_inner).push(directory);
    }

    pub(super) fn count_symlink(&self) {
        self.symlinks.fetch_add(1, Ordering::Relaxed);
    }
}

impl TreeWork<'_> {
    /// Begins the output of a file.
    pub(super) fn create(
        &self,
        target: TargetDirectory,
        item: &Item,
        source: &Source,
    ) -> Result<TreeOutput, FileError> {
        let (mode, created) = self.metadata.creation_mode(source.status());
        let file = Arc::new(self.outputs.create(target, &item.target, mode)?);
        let created = file.has_its_mode().then_some(created);
        Ok(TreeOutput { file, created })
    }

    /// Writes part of an output, with holes if they were asked for.
    pub(super) fn write(
        &self,
        output: &TreeOutput,
        bytes: &[u8],
        offset: u64,
    ) -> Result<(), FileError> {
        if self.leaves_holes() {
            output.file.write_sparse_at(bytes, offset)
        } else {
            output.file.write_all_at(bytes, offset)
        }
    }

    /// Ends a file: checks its source, sets the output's metadata and publishes it.
    pub(super) fn finish(
        &self,
        done: Done<'_>,
        output: Option<TreeOutput>,
        bench: &mut Bench,
        worker: &mut Worker<'_>,
    ) -> Result<(), FileError> {
        done.source.check_unchanged()?;
        let read = done.source.length();
        let Some(output) = output else {
            worker.count_units(1);
            self.record.done(read, 0);
            return Ok(());
        };
        if self.leaves_holes() {
            output.file.set_length(done.length)?;
        }
        if self.options.remove_source {
            self.compare(&done, &output, bench)?;
        }
        let (source, status) = (done.source.as_fd(), done.source.status());
        self.metadata.apply(source, status, output.file.as_fd().as_fd(), output.created)?;
        let finished = commit::Finished {
            directory: done.directory.clone(),
            name: done.item.name.clone(),
            source: done.source.clone(),
            output: output.file,
            length: done.length,
        };
        self.commit(finished)?;
        worker.count_units(1);
        Ok(())
    }

    fn leaves_holes(&self) -> bool {
        self.options.sparse && self.operation == Operation::Decrypt
    }

    /// Ends the operation, after all workers: outputs that wait to be synced, hard links, the
    /// directories' own metadata.
    pub(super) fn finish_all(self, endpoints: &Endpoints, report: &mut Report) {
        self.commit_waiting();
        if let Endpoints::Tree { root } = endpoints {
            report.hard_links = self.make_links(root);
            // After a stop the next run comes back to these directories.
            if !self.is_stopped() {
                self.finish_directories(root);
            }
        }
        self.sync_target(endpoints);
        let visited = self.directories.visited.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.directories = visited.len() as u64;
        report.symlinks = self.directories.symlinks.into_inner();
        self.record.into_report(report);
    }

    /// Sets the mode, times and so on of every target directory, the deepest first.
    fn finish_directories(&self, root: &Directory) {
        let Some(target) = &root.target else { return };
        let visited = self.directories.visited.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in visited.iter().rev() {
            let follow = self.options.follow_symlinks;
            let finished =
                open_both(root, target, directory, follow).and_then(|(source, output)| {
                    self.metadata.apply(source.as_fd(), &directory.status, output.as_fd(), None)
                });
            if let Err(error) = finished {
                self.record.failed(&directory.path, error);
            }
        }
    }
}

fn open_both(
    root: &Directory,
    target: &OwnedFd,
    directory: &Visited,
    follow: bool,
) -> Result<(OwnedFd, OwnedFd), FileError> {
    let source = open_path(root.source.as_fd(), &directory.path, follow);
    let both =
        source.and_then(|source| Ok((source, open_path(target.as_fd(), &directory.path, false)?)));
    both.map_err(FileError::system("set the output directory's metadata"))
}
