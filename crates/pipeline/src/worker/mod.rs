//! One worker: one thread, one engine, one loop.
//!
//! ```text
//! claim      tasks from the queue; waits for them, and ends when the run is over
//! perform    each of them: the `Work` reads its input,
//!                          has the engine process it ([`Worker::process`]),
//!                          and writes its output
//! report     the time of the claim, with the next claim
//! ```
//!
//! When the engine fails, the loop ends and the rest of the claim returns to the queue.

mod engine;
mod stepping_back;

use std::collections::VecDeque;
use std::time::Duration;

use evener_core::{EngineError, Kind};

use crate::clock::thread_cpu_time;
use crate::priority;
use crate::queue::Claimed;
use crate::run::{Ended, Run, Work};
use crate::{Queue, WorkerStatistics};

pub use engine::Worker;

impl<W: Work> Run<'_, W> {
    /// Runs the worker's loop until the run is over for it or its engine fails. The rest of its
    /// claim then stays in `tasks`. `callers_cpu` is the CPU time that the thread used before, if it
    /// is the caller's.
    pub(crate) fn work_as(
        &self,
        number: usize,
        callers_cpu: Option<Duration>,
        tasks: &mut VecDeque<W::Task>,
        queue: &Queue<'_, W::Task>,
    ) -> Ended {
        let is_cpu = self.seats[number].description().kind == Kind::Cpu;
        // A thread of the class `SCHED_IDLE` is below the threads of modules anyway.
        let is_last = is_cpu && self.options.courtesy.in_background;
        if is_last {
            priority::yield_to_everybody();
        }
        let mut shift = self.shift(number, if is_last { Manner::Any } else { Manner::Normal });
        let mut elsewhere = WorkerStatistics::default();
        let mut claim = None;
        let failure = loop {
            match shift.work(self, claim.take(), tasks, queue) {
                End::Over => break None,
                End::Failed(cause) => break Some(cause),
                End::Relieved(claimed) => match self.step_back(number, claimed, tasks, queue) {
                    Some((statistics, end)) => {
                        elsewhere.add(statistics);
                        match end {
                            End::Over => break None,
                            End::Failed(cause) => break Some(cause),
                            End::Relieved(claimed) => claim = Some(claimed),
                        }
                    }
                    // No second thread could be started.
                    None => (shift.manner, claim) = (Manner::Any, Some(claimed)),
                },
            }
        };
        let mut statistics = shift.into_statistics();
        statistics.cpu = statistics.cpu.saturating_sub(callers_cpu.unwrap_or_default());
        statistics.add(elsewhere);
        if let Some(cause) = &failure {
            statistics.retire(cause);
        }
        Ended { statistics, failure }
    }

    fn shift(&self, number: usize, manner: Manner) -> Shift<'_, W> {
        let engine = self.seats[number].as_ref();
        let worker = Worker::new(engine, number)
            .throttled(self.throttle.as_ref())
            .giving_way(self.pressure.as_ref());
        Shift { worker, bench: None, manner }
    }
}

/// The part of a worker that runs on one thread: usually all of it.
struct Shift<'run, W: Work> {
    worker: Worker<'run>,
    /// Made for the first claim, because some workers have none in a short run.
    bench: Option<W::Bench>,
    manner: Manner,
}

impl<W: Work> Shift<'_, W> {
    /// The loop. It begins with the open claim, if there is one.
    fn work(
        &mut self,
        run: &Run<'_, W>,
        mut claimed: Option<Claimed>,
        tasks: &mut VecDeque<W::Task>,
        queue: &Queue<'_, W::Task>,
    ) -> End {
        let Shift { worker, bench, manner } = self;
        let mut performed = None;
        let mut ended = run.inner.now();
        loop {
            let claim = match claimed.take() {
                Some(claim) => claim,
                None => match queue.claim(worker.number(), performed.as_ref(), tasks, ended) {
                    Some(claim) => claim,
                    None => return End::Over,
                },
            };
            if !manner.suits(claim) {
                return End::Relieved(claim);
            }
            let begun = run.inner.now();
            let before = worker.begin(claim.measured);
            let bench = bench.get_or_insert_with(|| run.work.bench());
            let result = run.work.perform_claim(tasks, bench, worker, queue);
            ended = run.inner.now();
            let wall = ended.saturating_sub(begun);
            worker.statistics_mut().busy += wall;
            if let Err(cause) = result {
                return End::Failed(cause);
            }
            performed = Some(worker.performed(wall, before));
        }
    }

    /// The statistics, on the thread that did the work.
    fn into_statistics(mut self) -> WorkerStatistics {
        self.worker.statistics_mut().cpu = thread_cpu_time() + self.worker.cpu_elsewhere();
        self.worker.into_statistics()
    }
}

/// Which claims a thread performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Claims at normal priority.
    Normal,
    /// Claims at low priority.
    Yielding,
    /// All.
    Any,
}

impl Manner {
    fn suits(self, claim: Claimed) -> bool {
        match self {
            Manner::Normal => !claim.yields,
            Manner::Yielding => claim.yields,
            Manner::Any => true,
        }
    }
}

/// The reason why a thread's part ended.
enum End {
    /// The run is over for the worker.
    Over,
    /// Its engine has failed.
    Failed(EngineError),
    /// It claimed tasks for the other thread.
    Relieved(Claimed),
}
