//! The tasks of an operation on files, and the workers' code for them.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::{Engine, EngineError, shown};
use evener_pipeline::{Load, Queue, Returned, Work, Worker};

use super::around::Around;
use super::changed_since::ChangeTimes;
use super::commit::Committer;
use super::directory::{Directory, Item};
use super::endpoints::Endpoints;
use super::large::Large;
use super::linked_sources::LinkedSources;
use super::links::Links;
use super::location::Location;
use super::mounts::Mounts;
use super::opened::Opened;
use super::record::Record;
use super::writing::Spares;
use crate::Operation;
use crate::metadata::Metadata;
use crate::output::Outputs;
use crate::selection::Watch;
use crate::trail::Trails;
use crate::workspace::{Workspace, buffer_for, bytes_at_once, large_room, room, spares};
use crate::{FileError, KeyRing, Options};

/// A task in the queue.
pub(super) enum Task {
    /// Some files of one directory.
    Files { directory: Arc<Directory>, files: Vec<Item> },
    /// A file with unclaimed segments, for another worker.
    Large(Arc<Large>),
    /// Claimed segments whose engine failed.
    Segments(Arc<Large>, Range<u64>),
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
    pub(super) linked_sources: LinkedSources,
    pub(super) change_times: ChangeTimes,
    pub(super) committer: Committer,
    pub(super) directories: super::finish::Directories,
    /// The read-only directories that are writable for the run.
    pub(super) opened: Opened,
    /// The mount points of the source.
    pub(super) mounts: Mounts,
    /// The length of each of a worker's two buffers, in bytes.
    pub(super) room: usize,
    /// The greatest length of those buffers for a worker whose engine wants many bytes at once.
    large_room: usize,
    /// Output buffers for workers that leave theirs to the writing worker.
    pub(super) spares: Spares,
    /// The number of workers.
    pub(super) workers: usize,
    /// True if one of the engines is guarded.
    pub(super) is_watched: bool,
    /// The files that would be in doubt.
    pub(super) trails: Trails,
    /// The files that are taken.
    pub(super) selection: Watch<'a>,
    /// The places that followed links must not lead to.
    pub(super) around: Option<&'a Around>,
    /// The user's name for the output directory.
    pub(super) target: Option<PathBuf>,
}

impl<'a> TreeWork<'a> {
    pub(super) fn new(
        (operation, metadata): (Operation, Metadata),
        keys: &'a KeyRing,
        (root, target): (&'a Path, Option<&'a Path>),
        endpoints: &'a Endpoints,
        options: &'a Options,
        outputs: &'a Outputs,
        seats: &[Arc<dyn Engine>],
    ) -> TreeWork<'a> {
        let length = endpoints.length();
        let room = room(options.memory, seats.len(), keys, length);
        let spares = spares(options.memory, seats.len(), room);
        let cipher = (keys.primary().cipher(), operation.direction());
        let large_room = large_room(options.memory, seats, cipher, room);
        let whole = length.and_then(|length| usize::try_from(length).ok());
        let large_room = whole.map_or(large_room, |whole| large_room.min(whole.max(room)));
        TreeWork {
            operation,
            keys,
            options,
            outputs,
            metadata,
            record: Record::new(options, root),
            links: Links::default(),
            linked_sources: LinkedSources::default(),
            change_times: ChangeTimes::default(),
            committer: Committer::default(),
            directories: super::finish::Directories::default(),
            opened: Opened::default(),
            mounts: Mounts::default(),
            room,
            large_room,
            spares: Spares::new(spares, room),
            workers: seats.len(),
            is_watched: seats.iter().any(|engine| engine.account().is_some()),
            trails: Trails::default(),
            selection: options.selection.watch(),
            around: endpoints.around(),
            target: endpoints.target(target),
        }
    }

    /// Feeds the queue from the caller's thread.
    pub(super) fn feed(&self, endpoints: &Endpoints, queue: &Queue<Task>) {
        match endpoints {
            Endpoints::File { directory, item, .. } => {
                self.record.fed(1);
                // A directory that can't be read may still be written to.
                let _ = self.sweep_target(directory);
                let task = Task::Files { directory: directory.clone(), files: vec![item.clone()] };
                self.push(queue, task);
            }
            Endpoints::Tree { root, .. } => self.walk(root, queue),
        }
    }

    /// Feeds one task. If a stopped queue refuses it, it is recorded as not done, because the
    /// operation was stopped or the last engine has failed.
    pub(super) fn push(&self, queue: &Queue<Task>, task: Task) {
        if let Err(task) = queue.push(task) {
            self.abandon(task, queue.failure().as_ref());
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.options.control.is_stopped()
    }

    /// For `map_err`: names the output at which a system call failed.
    pub(super) fn at_output<'e>(
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

    /// Returns whether outputs are written.
    pub(super) fn writes(&self) -> bool {
        self.operation != Operation::Verify && !self.options.dry_run
    }
}

impl Work for TreeWork<'_> {
    type Task = Task;
    type Workspace = Workspace;

    fn workspace(&self, engine: &dyn Engine) -> Workspace {
        let wanted =
            bytes_at_once(engine, self.keys.primary().cipher(), self.operation.direction());
        let large = wanted.min(self.large_room);
        let lent = (large > self.room).then(|| Workspace::lent(engine, large)).flatten();
        if let Some(spare) = lent.as_ref().and_then(|_| buffer_for(engine, large)) {
            self.spares.give_back(spare);
        }
        let mut workspace = lent.unwrap_or_else(|| Workspace::new(self.room));
        workspace.trail = self.trails.begin();
        workspace
    }

    fn load(task: &Task) -> Load {
        match task {
            Task::Files { files, .. } => Load::unknown(files.len() as u64),
            Task::Large(large) => Load { is_divisible: true, ..large.load() },
            Task::Segments(large, _) => large.load(),
        }
    }

    fn split(task: &mut Task, jobs: u64) -> Option<Task> {
        let Task::Files { directory, files } = task else { return None };
        let jobs = usize::try_from(jobs).unwrap_or(usize::MAX);
        let rest = files.split_off(jobs.min(files.len()));
        (!rest.is_empty()).then(|| Task::Files { directory: Arc::clone(directory), files: rest })
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
            let reason = format!("there is no memory for its {} bytes of buffers", 2 * self.room);
            return Err(Returned {
                task,
                cause: EngineError::unavailable(reason).of(&worker.engine().description().name),
            });
        }
        match task {
            Task::Files { directory, files } => {
                self.perform_files(directory, files, workspace, worker, queue)
            }
            Task::Large(large) => self.help_with(large, workspace, worker, queue),
            Task::Segments(large, claimed) => {
                self.perform_returned(large, claimed, workspace, worker, queue)
            }
        }
    }

    fn perform_claim(
        &self,
        tasks: &mut VecDeque<Task>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task>,
    ) -> Result<(), EngineError> {
        let joins = workspace.pieces(self.room) > 1;
        while let Some(mut task) = tasks.pop_front() {
            if joins {
                join(&mut task, tasks);
            }
            if let Err(Returned { task, cause }) = self.perform(task, workspace, worker, queue) {
                tasks.push_front(task);
                return Err(cause);
            }
        }
        Ok(())
    }

    fn abandon(&self, task: Task, cause: Option<&EngineError>) {
        // After a stop, an engine's failure is no news.
        let cause = cause.filter(|_| !self.is_stopped());
        let error = || cause.map_or(FileError::Interrupted, |cause| cause.clone().into());
        match task {
            Task::Files { directory, files } => {
                for item in files {
                    self.record.failed_file(&directory.path_of(&item.name), error());
                }
            }
            Task::Large(large) => self.abandon_rest(&large, error()),
            Task::Segments(large, claimed) => self.abandon_segments(&large, &claimed, error()),
        }
    }
}

/// Adds the files of the next tasks for the same directory to a task's files, for an engine that
/// wants many bytes at once.
fn join(task: &mut Task, tasks: &mut VecDeque<Task>) {
    let Task::Files { directory, files } = task else { return };
    while let Some(Task::Files { directory: other, files: more }) = tasks.front_mut() {
        if !Arc::ptr_eq(directory, other) {
            return;
        }
        files.append(more);
        tasks.pop_front();
    }
}
