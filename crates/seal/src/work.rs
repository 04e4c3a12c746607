//! The tasks of a run over objects, and the workers' code for them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use evener_core::{Engine, EngineError};
use evener_pipeline::{Load, Queue, Returned, Work, Worker};

use super::large::Large;
use super::objects::Objects;
use super::openings::Openings;
use super::trail::{Trails, Unverified};
use super::workspace::{Workspace, buffer_for, bytes_at_once, large_room, room, spares};
use super::writing::Spares;
use crate::{Control, FileError, KeyRing, Operation};

/// A task in the queue.
pub enum Task<O: Objects> {
    /// Some objects of one group.
    Some { group: O::Group, items: Vec<O::Item> },
    /// An object with unclaimed segments, for another worker.
    Large(Arc<Large<O>>),
    /// Claimed segments whose engine failed.
    Segments(Arc<Large<O>>, Range<u64>),
}

/// The operation of a run, and its means.
pub struct Request<'a> {
    /// The operation on each object.
    pub operation: Operation,
    /// The keys; the first encrypts.
    pub keys: &'a KeyRing,
    /// Stops the run, and counts its bytes.
    pub control: &'a Control,
    /// The engine of each worker.
    pub seats: &'a [Arc<dyn Engine>],
    /// The most memory that the workers' buffers may use together, in bytes.
    pub memory: usize,
    /// The length of the run's only object, in bytes, if it has only one.
    pub length: Option<u64>,
    /// True if outputs are read back and compared before they are published.
    pub reads_back: bool,
    /// For outputs that take their bytes in order: the bounds of what waits for its turn.
    pub order: Option<Order>,
}

/// Bounds for outputs that take their bytes in order.
#[derive(Clone, Copy)]
pub struct Order {
    /// The most long objects that are open at once.
    pub objects: usize,
    /// The most bytes of each that wait for those in front of them.
    pub early: usize,
}

/// One run over objects, shared by all workers.
pub struct Sealer<'a, O: Objects> {
    pub(crate) objects: &'a O,
    pub(crate) operation: Operation,
    pub(crate) keys: &'a KeyRing,
    pub(crate) control: &'a Control,
    /// The length of each of a worker's two buffers, in bytes.
    pub(crate) room: usize,
    /// The greatest length of those buffers for a worker whose engine wants many bytes at once.
    large_room: usize,
    /// Output buffers for workers that leave theirs to the writing worker.
    pub(crate) spares: Spares,
    /// True if one of the engines is guarded.
    pub(crate) is_watched: bool,
    pub(crate) reads_back: bool,
    /// The long objects that are open.
    pub(crate) openings: Openings<(O::Group, O::Item)>,
    /// The number of segments of an object that may be done before the first of them.
    pub(crate) window: u64,
    /// The objects that would be in doubt.
    trails: Trails,
}

/// The queue of a run, as the walk of a place sees it.
pub struct Feed<'f, O: Objects> {
    sealer: &'f Sealer<'f, O>,
    queue: &'f Queue<'f, Task<O>>,
}

impl<O: Objects> Feed<'_, O> {
    /// Feeds one task. If a stopped queue refuses it, it is recorded as not done, because the
    /// operation was stopped or the last engine has failed.
    pub fn push(&self, group: O::Group, items: Vec<O::Item>) {
        if let Err(task) = self.queue.push(Task::Some { group, items }) {
            self.sealer.abandon(task, self.queue.failure().as_ref());
        }
    }

    /// Has workers come for the tasks so far, since the feed may wait for their results before it goes on.
    pub fn hold(&self) {
        self.queue.hold_feed();
    }

    /// Returns whether the run was ended early, so that tasks may stay undone.
    pub fn is_stopped(&self) -> bool {
        self.queue.is_stopped()
    }

    /// Stops the run.
    pub fn stop(&self) {
        self.queue.stop();
    }
}

impl<'a, O: Objects> Sealer<'a, O> {
    /// Nothing is done before workers call it.
    pub fn new(objects: &'a O, request: &Request<'a>) -> Sealer<'a, O> {
        let Request { operation, keys, control, seats, memory, length, reads_back, order } =
            *request;
        let room = room(memory, seats.len(), keys, length);
        let cipher = (keys.primary().cipher(), operation.direction());
        let large_room = large_room(memory, seats, cipher, room);
        let whole = length.and_then(|length| usize::try_from(length).ok());
        let large_room = whole.map_or(large_room, |whole| large_room.min(whole.max(room)));
        Sealer {
            objects,
            operation,
            keys,
            control,
            room,
            large_room,
            spares: Spares::new(spares(memory, seats.len(), room), room),
            is_watched: seats.iter().any(|engine| engine.account().is_some()),
            reads_back,
            openings: Openings::new(order.map_or(usize::MAX, |order| order.objects)),
            window: order.map_or(u64::MAX, |order| (order.early / room.max(1)).max(1) as u64),
            trails: Trails::default(),
        }
    }

    /// The queue as the walk of a place sees it.
    pub fn feed<'f>(&'f self, queue: &'f Queue<'f, Task<O>>) -> Feed<'f, O> {
        Feed { sealer: self, queue }
    }

    /// The objects with jobs that were not verified.
    pub fn unverified(&self) -> Unverified {
        self.trails.files()
    }

    /// Has an object done again, if that may help, or records why it was not done.
    pub(crate) fn failed_or_again(
        &self,
        group: &O::Group,
        item: &O::Item,
        error: FileError,
        queue: &Queue<Task<O>>,
    ) {
        match self.objects.again(item, &error) {
            Some(again) => queue.share(Task::Some { group: group.clone(), items: vec![again] }),
            None => self.objects.failed(group, item, error),
        }
    }
}

impl<O: Objects> Work for Sealer<'_, O> {
    type Task = Task<O>;
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

    fn load(task: &Task<O>) -> Load {
        match task {
            Task::Some { items, .. } => Load::unknown(items.len() as u64),
            Task::Large(large) => Load { is_divisible: true, ..large.load() },
            Task::Segments(large, _) => large.load(),
        }
    }

    fn split(task: &mut Task<O>, jobs: u64) -> Option<Task<O>> {
        let Task::Some { group, items } = task else { return None };
        let jobs = usize::try_from(jobs).unwrap_or(usize::MAX);
        let rest = items.split_off(jobs.min(items.len()));
        (!rest.is_empty()).then(|| Task::Some { group: group.clone(), items: rest })
    }

    fn perform(
        &self,
        task: Task<O>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
    ) -> Result<(), Returned<Task<O>>> {
        if self.control.is_stopped() {
            queue.stop();
            self.abandon(task, None);
            return Ok(());
        }
        if !workspace.has_room(self.room) {
            let engine = &worker.engine().description().name;
            let reason = format!("there is no memory for its {} bytes of buffers", 2 * self.room);
            return Err(Returned { task, cause: EngineError::unavailable(reason).of(engine) });
        }
        match task {
            Task::Some { group, items } => {
                let performed = self.perform_some(group, items, workspace, worker, queue);
                self.feed_waiting(queue);
                performed
            }
            Task::Large(large) => {
                large.follow_invitation();
                self.help_with(large, workspace, worker, queue)
            }
            Task::Segments(large, claimed) => {
                self.perform_returned(large, claimed, workspace, worker, queue)
            }
        }
    }

    fn perform_claim(
        &self,
        tasks: &mut VecDeque<Task<O>>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Task<O>>,
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

    fn abandon(&self, task: Task<O>, cause: Option<&EngineError>) {
        // After a stop, an engine's failure is no news.
        let cause = cause.filter(|_| !self.control.is_stopped());
        let error = || cause.map_or(FileError::Interrupted, |cause| cause.clone().into());
        match task {
            Task::Some { group, items } => {
                items.iter().for_each(|item| self.objects.failed(&group, item, error()));
            }
            Task::Large(large) => self.abandon_rest(&large, error()),
            Task::Segments(large, claimed) => self.abandon_segments(&large, &claimed, error()),
        }
        for (group, item) in self.openings.left() {
            self.objects.failed(&group, &item, error());
        }
    }
}

/// Adds the objects of the next tasks of the same group to a task's objects, for an engine that
/// wants many bytes at once.
fn join<O: Objects>(task: &mut Task<O>, tasks: &mut VecDeque<Task<O>>) {
    let Task::Some { group, items } = task else { return };
    while let Some(Task::Some { group: other, items: more }) = tasks.front_mut() {
        if !O::is_same(group, other) {
            return;
        }
        items.append(more);
        tasks.pop_front();
    }
}
