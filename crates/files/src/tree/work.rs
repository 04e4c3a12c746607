//! The tasks of an operation on files, and the workers' code for them.

use std::path::Path;
use std::sync::Arc;

use evener_core::{Engine, EngineError};
use evener_pipeline::{Load, Queue, Returned, Work, Worker};

use super::commit::Committer;
use super::directory::{Directory, Item};
use super::endpoints::Endpoints;
use super::large::Large;
use super::links::Links;
use super::record::Record;
use super::writing::Spares;
use crate::Operation;
use crate::metadata::Metadata;
use crate::output::Outputs;
use crate::selection::Watch;
use crate::trail::Trails;
use crate::workspace::{Workspace, room, spares};
use crate::{FileError, KeyRing, Options};

/// A task in the queue.
pub(super) enum Task {
    /// Some files of one directory.
    Files { directory: Arc<Directory>, files: Vec<Item> },
    /// A file with unclaimed segments, for a further worker.
    Large(Arc<Large>),
    /// One segment that was claimed, and whose engine failed.
    Segment(Arc<Large>, u64),
}

/// One operation on files, shared by all workers.
pub(super) struct TreeWork<'a> {
    pub(super) operation: Operation,
    pub(super) keys: &'a KeyRing,
    pub(super) options: &'a Options,
    pub(super) outputs: &'a Outputs,
    pub(super) metadata: Metadata,
    pub(super) record: Record<'a>,
    pub(super) links: Links,
    pub(super) committer: Committer,
    pub(super) directories: super::finish::Directories,
    /// The length of each of a worker's two buffers, in bytes.
    pub(super) room: usize,
    /// Output buffers for workers that leave theirs to the one that writes.
    pub(super) spares: Spares,
    /// Whether one of the engines is guarded.
    pub(super) is_watched: bool,
    /// The files that would be in doubt.
    pub(super) trails: Trails,
    /// Which files are taken.
    pub(super) selection: Watch<'a>,
}

impl<'a> TreeWork<'a> {
    pub(super) fn new(
        operation: Operation,
        keys: &'a KeyRing,
        (root, length): (&'a Path, Option<u64>),
        options: &'a Options,
        outputs: &'a Outputs,
        seats: &[Arc<dyn Engine>],
    ) -> TreeWork<'a> {
        let room = room(options.memory, seats.len(), keys, length);
        let spares = spares(options.memory, seats.len(), room);
        TreeWork {
            operation,
            keys,
            options,
            outputs,
            metadata: Metadata::of(options),
            record: Record::new(options, root),
            links: Links::default(),
            committer: Committer::default(),
            directories: super::finish::Directories::default(),
            room,
            spares: Spares::new(spares, room),
            is_watched: seats.iter().any(|engine| engine.account().is_some()),
            trails: Trails::default(),
            selection: options.selection.watch(),
        }
    }

    /// Feeds the queue from the caller's thread.
    pub(super) fn feed(&self, endpoints: &Endpoints, queue: &Queue<Task>) {
        match endpoints {
            Endpoints::File { directory, item, .. } => {
                self.options.control.found(1, 0);
                let task = Task::Files { directory: directory.clone(), files: vec![item.clone()] };
                self.push(queue, task);
            }
            Endpoints::Tree { root } => self.walk(root, queue),
        }
    }

    /// Feeds one task; what a queue that has stopped refuses is recorded as not done: because
    /// the operation was stopped, or because the last engine has failed.
    pub(super) fn push(&self, queue: &Queue<Task>, task: Task) {
        if let Err(task) = queue.push(task) {
            self.abandon(task, queue.failure().as_ref());
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.options.control.is_stopped()
    }

    /// Whether outputs are written.
    pub(super) fn writes(&self) -> bool {
        self.operation != Operation::Verify && !self.options.dry_run
    }
}

impl Work for TreeWork<'_> {
    type Task = Task;
    type Workspace = Workspace;

    fn workspace(&self) -> Workspace {
        let mut workspace = Workspace::new(self.room);
        workspace.trail = self.trails.begin();
        workspace
    }

    fn load(task: &Task) -> Load {
        match task {
            Task::Files { files, .. } => Load::unknown(files.len() as u64),
            Task::Large(large) => Load { is_divisible: true, ..large.load() },
            Task::Segment(large, _) => large.load(),
        }
    }

    fn perform(
        &self,
        task: Task,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task>,
    ) -> Result<(), Returned<Task>> {
        if self.is_stopped() {
            queue.stop();
            self.abandon(task, None);
            return Ok(());
        }
        if !workspace.has_room(self.room) {
            let engine = worker.engine().description().name.clone();
            let reason = format!("there is no memory for its {} bytes of buffers", 2 * self.room);
            return Err(Returned { task, cause: EngineError::Unavailable { engine, reason } });
        }
        match task {
            Task::Files { directory, files } => {
                self.perform_files(directory, files, workspace, worker, queue)
            }
            Task::Large(large) => self.help_with(large, workspace, worker, queue),
            Task::Segment(large, index) => {
                self.perform_segment(large, index, workspace, worker, queue)
            }
        }
    }

    fn abandon(&self, task: Task, cause: Option<&EngineError>) {
        // After a stop, an engine's failure is no news.
        let cause = cause.filter(|_| !self.is_stopped());
        let error = || cause.map_or(FileError::Interrupted, |cause| cause.clone().into());
        match task {
            Task::Files { directory, files } => {
                for item in files {
                    self.record.failed(&directory.path_of(&item.name), error());
                }
            }
            Task::Large(large) => self.abandon_rest(&large, error()),
            Task::Segment(large, _) => self.abandon_segment(&large, error()),
        }
    }
}
