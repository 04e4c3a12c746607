//! A run: the feed, the workers and their tasks.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use evener_core::{Cipher, Direction, Engine, EngineError, IgnorePoison, shown_error};

use crate::clock::thread_cpu_time;
use crate::costs::{Costs, EngineCosts};
use crate::hidden::Meter;
use crate::openings;
use crate::policy::{MakePolicy, Seat, Setting};
use crate::pressure::Pressure;
use crate::queue::Inner;
use crate::throttle::Throttle;
use crate::{Load, Queue, RunStatistics, Tally, Worker, WorkerStatistics};

/// The work that a run does with each task.
pub trait Work: Sync {
    /// A description of work, not its data: some file names, a segment of an open file.
    type Task: Send;

    /// Data that a worker keeps between tasks, such as its buffers. It stays on the worker's thread.
    type Workspace;

    /// Makes a worker's workspace at its first claim. Its engine may have
    /// [buffers](Engine::buffer) for it.
    fn workspace(&self, engine: &dyn Engine) -> Self::Workspace;

    /// The load of a task.
    fn load(task: &Self::Task) -> Load {
        let _ = task;
        Load::unknown(1)
    }

    /// Divides a task, for an engine that must do little work at first, or between workers at the
    /// end of a run: leaves `jobs` of its jobs, at least one, in the task and returns the rest.
    fn split(task: &mut Self::Task, jobs: u64) -> Option<Self::Task> {
        let _ = (task, jobs);
        None
    }

    /// Performs a task on the worker's engine. Failures of the task itself (an unreadable
    /// file) are recorded by the implementation and are not errors here.
    ///
    /// # Errors
    /// The engine failed: the rest of the task returns to the queue for another worker, and this
    /// worker is taken out of service.
    fn perform(
        &self,
        task: Self::Task,
        workspace: &mut Self::Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Self::Task>,
    ) -> Result<(), Returned<Self::Task>>;

    /// Performs the tasks of one claim together, in one batch, and leaves in the list those that
    /// the engine could not do. By default it performs them one by one.
    ///
    /// # Errors
    /// The engine failed: the tasks that are left go to another worker, and this one is taken
    /// out of service.
    fn perform_claim(
        &self,
        tasks: &mut VecDeque<Self::Task>,
        workspace: &mut Self::Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<Self::Task>,
    ) -> Result<(), EngineError> {
        while let Some(task) = tasks.pop_front() {
            if let Err(Returned { task, cause }) = self.perform(task, workspace, worker, queue) {
                tasks.push_front(task);
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Records a task that was not performed: the run was stopped, or every worker's engine has
    /// failed, the last one because of `cause`.
    fn abandon(&self, task: Self::Task, cause: Option<&EngineError>);
}

/// A task for another worker, because an engine failed.
#[derive(Debug)]
pub struct Returned<T> {
    /// The rest of the task.
    pub task: T,
    /// The reason for the engine's failure.
    pub cause: EngineError,
}

/// Options of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunOptions {
    /// Makes the policy.
    pub policy: Arc<dyn MakePolicy>,
    /// The cipher of the engines' offers.
    pub cipher: Cipher,
    /// The direction of the engines' offers.
    pub direction: Direction,
    /// Capacity of the queue, in tasks.
    pub capacity: usize,
    /// Measured costs of the engines, from which the adaptive policy starts.
    pub costs: Costs,
    /// How the run shares the cores with other programs.
    pub courtesy: Courtesy,
    /// True if [`Courtesy::in_background`] sets only the scheduling class and causes no pauses, to
    /// measure the effect of the pauses.
    pub ignores_pressure: bool,
    /// True if a module continues even though it takes more of the cores' time than it saves, as in
    /// the papers' experiments.
    pub ignores_burden: bool,
    /// Counts the run's work while it goes on.
    pub tally: Arc<Tally>,
}

/// How a run shares the cores with other programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Courtesy {
    /// True if CPU workers use only idle CPU time. Workers of modules, which need a core for a
    /// moment at a time, continue.
    ///
    /// CPU workers then have the scheduling class `SCHED_IDLE`. Schedulers that first divide the
    /// cores between groups of threads (sessions, control groups) apply it within a group only. So
    /// CPU workers also pause while the kernel's pressure-stall information shows that other
    /// programs wait for their cores. Modules alternate between work and pause if their drivers let
    /// other programs wait for more than a twentieth of one core.
    pub in_background: bool,
    /// CPU limit of the whole process, as a percentage of all cores (1-100); `None` for no limit.
    pub most_cpu: Option<u8>,
}

impl RunOptions {
    /// A run under a policy, for this cipher and direction, with a queue of this capacity.
    pub fn new(
        policy: impl Into<Arc<dyn MakePolicy>>,
        cipher: Cipher,
        direction: Direction,
        capacity: usize,
    ) -> RunOptions {
        RunOptions {
            policy: policy.into(),
            cipher,
            direction,
            capacity,
            costs: Costs::default(),
            courtesy: Courtesy::default(),
            ignores_pressure: false,
            ignores_burden: false,
            tally: Arc::default(),
        }
    }
}

/// Runs `work` with one worker for each entry of `seats`, while `feed` pushes tasks from the
/// calling thread.
///
/// Returns when every task has been performed or abandoned. Stopping the queue, from the feed
/// or from the work, ends the run early. Where the policy starts no thread for a small amount of
/// work, the calling thread does it after the feed.
pub fn run<W: Work>(
    seats: &[Arc<dyn Engine>],
    options: &RunOptions,
    work: &W,
    feed: impl FnOnce(&Queue<'_, W::Task>),
) -> RunStatistics {
    Run::new(seats, options, work).perform(feed)
}

/// Like [`run`], but with all tasks in the queue before the clock starts. The clock runs from just
/// before the first worker starts until the last worker has ended.
pub fn run_filled<W: Work>(
    seats: &[Arc<dyn Engine>],
    options: &RunOptions,
    work: &W,
    tasks: impl IntoIterator<Item = W::Task>,
) -> RunStatistics {
    let mut run = Run::new(seats, options, work);
    run.inner.fill(tasks);
    run.perform(|_| {})
}

/// One run.
pub(crate) struct Run<'run, W: Work> {
    pub(crate) options: &'run RunOptions,
    pub(crate) seats: &'run [Arc<dyn Engine>],
    pub(crate) work: &'run W,
    pub(crate) inner: Inner<W::Task>,
    pub(crate) throttle: Option<Throttle>,
    pub(crate) pressure: Option<Pressure>,
    pub(crate) meter: Option<Meter>,
    ended: Mutex<Vec<Ended>>,
}

/// The outcome of a worker.
pub(crate) struct Ended {
    pub(crate) statistics: WorkerStatistics,
    pub(crate) failure: Option<EngineError>,
}

impl<'run, W: Work> Run<'run, W> {
    pub(crate) fn new(
        seats: &'run [Arc<dyn Engine>],
        options: &'run RunOptions,
        work: &'run W,
    ) -> Self {
        let facts: Vec<_> = seats.iter().map(|engine| facts(&**engine, options)).collect();
        let setting = Setting {
            cores: thread::available_parallelism().map_or(1, usize::from),
            costs: options.costs.clone(),
        };
        let policy = options.policy.policy(&facts, &setting);
        let spared = (!options.ignores_burden).then_some(setting.cores);
        let inner =
            Inner::new(policy, &facts, options.capacity, W::load, spared).splitting(W::split);
        let inner = inner.counted_by(options.tally.clone());
        let throttle =
            options.courtesy.most_cpu.map(|percent| Throttle::new(percent, setting.cores));
        let in_background = options.courtesy.in_background;
        let pressure = (in_background && !options.ignores_pressure).then(Pressure::watch).flatten();
        let ended = Mutex::default();
        Run { options, seats, work, inner, throttle, pressure, meter: Meter::begin(), ended }
    }

    fn perform(mut self, feed: impl FnOnce(&Queue<'_, W::Task>)) -> RunStatistics {
        let started = Instant::now();
        self.inner.begin(started);
        let panicked = Mutex::new(None);
        thread::scope(|scope| {
            let _counted = self.meter.as_ref().and_then(Meter::count);
            let crew = Crew { run: &self, scope, panicked: &panicked };
            let start = |worker| crew.start(worker);
            let queue = Queue { inner: &self.inner, start: &start };
            queue.open();
            let feeding = Feeding(&queue);
            feed(feeding.0);
            queue.close();
            match queue.unstarted() {
                // The caller's thread could not raise its priority again.
                Some(worker) if self.options.courtesy.in_background => crew.start(worker),
                Some(worker) => crew.serve(worker, Some(thread_cpu_time())),
                None => {}
            }
        });
        if let Some(panic) = panicked.lock().ignore_poison().take() {
            resume_unwind(panic);
        }
        self.finish(started)
    }

    fn finish(self, started: Instant) -> RunStatistics {
        let ended = self.ended.into_inner().ignore_poison();
        let scheduler = self.inner.into_desk();
        // Otherwise the run was stopped.
        let cause = ended.iter().rev().find_map(|ended| ended.failure.as_ref());
        let cause = cause.filter(|_| scheduler.is_deserted()).cloned();
        for task in scheduler.into_tasks() {
            self.work.abandon(task, cause.as_ref());
        }
        let mut workers: Vec<_> = ended.into_iter().map(|ended| ended.statistics).collect();
        workers.sort_by_key(|worker| worker.worker);
        RunStatistics { workers, wall: started.elapsed() }
    }
}

/// An engine's offer, for the policy.
fn facts(engine: &dyn Engine, options: &RunOptions) -> Seat {
    let description = engine.description();
    let offer = engine.offer(options.cipher, options.direction);
    let measured = options.costs.engine(&description.name).and_then(EngineCosts::opening);
    let measured = measured.map(|micros| Duration::from_nanos((micros * 1000.0) as u64));
    let stated = offer.map(|offer| offer.opening).filter(|opening| !opening.is_zero());
    Seat {
        opening: measured.or_else(|| openings::last(&description.name)).or(stated),
        engine: description.name.clone(),
        kind: description.kind,
        batch: offer.map_or(1, |offer| offer.batch.max(1)),
        bytes: offer.map_or(0, |offer| offer.bytes),
    }
}

/// The workers, and the way to start more of them.
struct Crew<'scope, 'env, W: Work> {
    run: &'scope Run<'env, W>,
    scope: &'scope Scope<'scope, 'env>,
    panicked: &'scope Mutex<Option<Box<dyn Any + Send>>>,
}

impl<W: Work> Clone for Crew<'_, '_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Work> Copy for Crew<'_, '_, W> {}

impl<'scope, W: Work> Crew<'scope, '_, W> {
    /// Starts a worker's thread. If that fails, the run continues without it.
    fn start(self, worker: usize) {
        let serve = move || self.serve(worker, None);
        if let Err(error) = thread::Builder::new().spawn_scoped(self.scope, serve) {
            self.give_up(worker, &error);
        }
    }

    /// Ends a worker that never had a thread.
    fn give_up(self, number: usize, error: &io::Error) {
        let engine = self.run.seats[number].description().name.clone();
        let reason =
            format!("no thread could be started for it (see `ulimit -u`): {}", shown_error(error));
        let cause = EngineError::unavailable(reason).of(&engine);
        let mut statistics =
            WorkerStatistics { engine, worker: number, ..WorkerStatistics::default() };
        statistics.retire(&cause);
        self.run.inner.has_failed(&cause);
        self.count_failure(number);
        self.run.ended.lock().ignore_poison().push(Ended { statistics, failure: Some(cause) });
        let start = |worker| self.start(worker);
        Queue { inner: &self.run.inner, start: &start }.leave(number, &mut VecDeque::new());
    }

    fn count_failure(self, worker: usize) {
        self.run.options.tally.engine(&self.run.seats[worker].description().name).failed();
    }

    /// Runs a worker until the run is over for it. `callers_cpu` is the CPU time that the thread used
    /// before, if it is the caller's.
    fn serve(self, number: usize, callers_cpu: Option<Duration>) {
        let start = |worker| self.start(worker);
        let queue = Queue { inner: &self.run.inner, start: &start };
        let mut tasks = VecDeque::new();
        let served = catch_unwind(AssertUnwindSafe(|| {
            let ended = self.run.work_as(number, callers_cpu, &mut tasks, &queue);
            ended.failure.iter().for_each(|cause| self.run.inner.has_failed(cause));
            if ended.statistics.retired.is_some() && ended.failure.is_some() {
                self.count_failure(number);
            }
            self.run.ended.lock().ignore_poison().push(ended);
        }));
        queue.leave(number, &mut tasks);
        if let Err(panic) = served {
            *self.panicked.lock().ignore_poison() = Some(panic);
        }
    }
}

/// Ends the run when the feed panics, so that no worker waits for it.
struct Feeding<'q, 'run, T>(&'q Queue<'run, T>);

impl<T> Drop for Feeding<'_, '_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
