//! An operation on files, as all workers share it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use evener_core::{Engine, shown};

use super::around::Around;
use super::changed_since::ChangeTimes;
use super::commit::Committer;
use super::directory::{Directory, Item};
use super::endpoints::Endpoints;
use super::linked_sources::LinkedSources;
use super::links::{Links, Name};
use super::mounts::Mounts;
use super::names::Claims;
use super::opened::Opened;
use crate::location::Location;
use crate::metadata::Metadata;
use crate::output::Outputs;
use crate::record::Record;
use crate::selection::Watch;
use crate::{FileError, KeyRing, Operation, RunSettings, TreeOptions};
use evener_seal::Feed;

/// One operation on files, shared by all workers.
pub(super) struct TreeWork<'a> {
    pub(super) operation: Operation,
    pub(super) keys: &'a KeyRing,
    pub(super) run: &'a RunSettings,
    pub(super) options: &'a TreeOptions,
    pub(super) outputs: &'a Outputs,
    pub(super) metadata: Metadata,
    pub(super) record: Record<'a>,
    pub(super) links: Links,
    pub(super) linked_sources: LinkedSources,
    /// The symbolic links whose place a directory has until the deletions.
    pub(super) late_symlinks: Mutex<Vec<(Name, Arc<Claims>)>>,
    pub(super) change_times: ChangeTimes,
    pub(super) committer: Committer,
    pub(super) directories: super::finish::Directories,
    /// The read-only directories that are writable for the run.
    pub(super) opened: Opened,
    /// The mount points of the source.
    pub(super) mounts: Mounts,
    /// The number of workers.
    pub(super) workers: usize,
    /// The files that are taken.
    pub(super) selection: Watch<'a>,
    /// The places that followed links must not lead to.
    pub(super) around: Option<&'a Around>,
    /// False for a single file.
    pub(super) is_tree: bool,
    /// The user's name for the output directory.
    pub(super) target: Option<PathBuf>,
}

impl<'a> TreeWork<'a> {
    pub(super) fn new(
        (operation, metadata): (Operation, Metadata),
        keys: &'a KeyRing,
        (root, target): (&'a Path, Option<&'a Path>),
        endpoints: &'a Endpoints,
        (run, options): (&'a RunSettings, &'a TreeOptions),
        outputs: &'a Outputs,
        seats: &[Arc<dyn Engine>],
    ) -> TreeWork<'a> {
        TreeWork {
            operation,
            keys,
            run,
            options,
            outputs,
            metadata,
            record: Record::new(run, root),
            links: Links::default(),
            linked_sources: LinkedSources::default(),
            late_symlinks: Mutex::default(),
            change_times: ChangeTimes::default(),
            committer: Committer::default(),
            directories: super::finish::Directories::default(),
            opened: Opened::default(),
            mounts: Mounts::default(),
            workers: seats.len(),
            selection: options.selection.watch(),
            around: endpoints.around(),
            is_tree: matches!(endpoints, Endpoints::Tree { .. }),
            target: endpoints.target(target),
        }
    }

    /// Feeds the queue from the caller's thread.
    pub(super) fn feed(&self, endpoints: &Endpoints, feed: &Feed<'_, Self>) {
        match endpoints {
            Endpoints::File { directory, item, .. } => {
                self.record.fed(1);
                if self.may_find_outputs() {
                    // A directory that can't be read may still be written to.
                    let _ = self.sweep_target(directory);
                }
                feed.push(directory.clone(), vec![item.clone()]);
            }
            Endpoints::Tree { root, .. } => self.walk(root, feed),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.run.control.is_stopped()
    }

    /// For `map_err`: names the output at which a system call failed.
    pub(super) fn at_name<'e>(
        &'e self,
        directory: &'e Location,
        name: &'e OsStr,
    ) -> impl Fn(FileError) -> FileError + 'e {
        move |error| match (error, &self.target) {
            (FileError::System { action, errno }, Some(target)) => {
                let output = target.join(directory.path_of(name));
                FileError::Output { action, errno, output: shown(&output).to_string() }
            }
            (error, _) => error,
        }
    }

    /// For `map_err`: names a file's output, at which a system call failed.
    pub(super) fn named<'e>(
        &'e self,
        directory: &'e Directory,
        item: &'e Item,
    ) -> impl Fn(FileError) -> FileError + 'e {
        self.at_name(&directory.location, &item.target)
    }

    /// Returns whether outputs are written.
    pub(super) fn writes(&self) -> bool {
        self.operation != Operation::Verify && !self.options.dry_run
    }
}
