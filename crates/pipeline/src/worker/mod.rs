//! One worker: one thread, one engine, one loop.
//!
//! ```text
//! open       a module's session, while others work
//! claim      tasks from the queue; waits for them, and ends when the run is over
//! perform    each of them: the `Work` reads its input,
//!                          has the engine process it ([`Worker::process`]),
//!                          and writes its output
//! report     what the claim took, with the next claim
//! ```
//!
//! A failure of the engine ends the loop, and so does a recall: the run was over before a module's
//! session was open, or a module was late with a claim. The rest of the claim goes back to the
//! queue.

mod engine;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evener_core::{EngineError, Kind};

use crate::hidden::Meter;
use crate::priority::{self, Ahead};
use crate::run::{Ended, Run, Work};
use crate::{Queue, Recall, openings};

pub use engine::Worker;

impl<W: Work> Run<'_, W> {
    /// Runs a worker until the run is over for it or its engine fails. The rest of its claim then
    /// stays in `tasks`. `callers_cpu` is the CPU time that the thread has used before, if it is
    /// not the worker's own.
    pub(crate) fn work_as(
        &self,
        number: usize,
        callers_cpu: Option<Duration>,
        tasks: &mut VecDeque<W::Task>,
        queue: &Queue<'_, W::Task>,
    ) -> Ended {
        let engine = self.seats[number].as_ref();
        let in_background = self.options.courtesy.in_background;
        let mut ahead = None;
        match engine.description().kind {
            Kind::Cpu if in_background => priority::yield_to_everybody(),
            Kind::Module if !in_background && self.has_cpu_workers() => ahead = Some(Ahead::go()),
            _ => {}
        }
        let _counted = self.meter.as_ref().and_then(Meter::count);
        let mut worker = Worker::new(engine, number)
            .counted_by(&self.options.tally)
            .throttled(self.throttle.as_ref(), self.meter.as_ref())
            .giving_way(self.pressure.as_ref());
        let is_module = engine.description().kind == Kind::Module;
        let _heeding = is_module.then(|| queue.recall(number).heed());
        let opened = if is_module { self.open(&mut worker, queue.recall(number)) } else { Ok(()) };
        if is_module && self.has_cpu_workers() {
            worker.watch_hidden();
        }
        let failure = match opened {
            Ok(()) => self.work_with(&mut worker, number, tasks, queue).err(),
            Err(cause) => Some(cause),
        };
        drop(ahead);
        let cpu = worker.cpu_time();
        let mut statistics = worker.into_statistics();
        statistics.cpu = cpu.saturating_sub(callers_cpu.unwrap_or_default());
        let is_recalled = queue.recall(number).is_called();
        if let Some(cause) = &failure {
            statistics.retire(cause);
            statistics.taken_back = if is_recalled { tasks.len() } else { 0 };
        }
        Ended { statistics, failure: failure.filter(|_| !is_recalled) }
    }

    /// Opens the session of a module's worker, which has no task meanwhile.
    fn open(&self, worker: &mut Worker<'_>, recall: &Recall) -> Result<(), EngineError> {
        let begun = Instant::now();
        let _opening = self.meter.as_ref().map(Meter::begin_opening);
        let opened = worker.open(self.options.cipher, self.options.direction);
        let name = &worker.engine().description().name;
        match opened {
            Ok(()) => openings::note(name, begun.elapsed()),
            Err(_) if recall.is_called() => openings::note_at_least(name, begun.elapsed()),
            Err(_) => {}
        }
        opened
    }

    /// Performs claims until the run is over for the worker.
    ///
    /// # Errors
    /// Its engine failed, or it was recalled.
    fn work_with(
        &self,
        worker: &mut Worker<'_>,
        number: usize,
        tasks: &mut VecDeque<W::Task>,
        queue: &Queue<'_, W::Task>,
    ) -> Result<(), EngineError> {
        let engine = worker.engine();
        // A CPU worker gets its workspace at its first claim: in a short run some workers claim
        // nothing.
        let is_module = engine.description().kind == Kind::Module;
        let mut workspace = is_module.then(|| self.work.workspace(engine));
        let mut performed = None;
        let mut ended = self.inner.now();
        while let Some(claim) = queue.claim(number, performed.as_ref(), tasks, ended) {
            let begun = self.inner.now();
            let before = worker.begin(claim);
            let workspace = workspace.get_or_insert_with(|| self.work.workspace(engine));
            let result = self.work.perform_claim(tasks, workspace, worker, queue);
            ended = self.inner.now();
            let wall = ended.saturating_sub(begun);
            worker.statistics_mut().busy += wall;
            result?;
            performed = Some(worker.performed(wall, before));
        }
        Ok(())
    }

    fn has_cpu_workers(&self) -> bool {
        self.seats.iter().any(|engine| engine.description().kind == Kind::Cpu)
    }
}
