//! One worker: one thread, one engine, one loop.
//!
//! ```text
//! claim      tasks from the queue; waits for them, and ends when the run is over
//! perform    each of them: the `Work` reads its input,
//!                          has the engine process it ([`Worker::process`]),
//!                          and writes its output
//! report     what the claim took, with the next claim
//! ```
//!
//! An engine that fails ends the loop. What is left of the claim goes back to the queue.

mod engine;

use std::collections::VecDeque;
use std::time::Duration;

use evener_core::Kind;

use crate::Queue;
use crate::clock::thread_cpu_time;
use crate::priority::{self, Ahead};
use crate::run::{Ended, Run, Work};

pub use engine::Worker;

impl<W: Work> Run<'_, W> {
    /// Is a worker, until the run is over for it or its engine fails. What is then left of its
    /// claim stays in `tasks`. `callers_cpu` is the CPU time that the thread has used before, if
    /// it is not the worker's own.
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
        let mut worker = Worker::new(engine, number)
            .throttled(self.throttle.as_ref())
            .giving_way(self.pressure.as_ref());
        // Made for the first claim: in a short run some workers have none.
        let mut workspace = None;
        let mut performed = None;
        let mut ended = self.inner.now();
        let failure = loop {
            let Some(claim) = queue.claim(number, performed.as_ref(), tasks, ended) else {
                break None;
            };
            let begun = self.inner.now();
            let before = worker.begin(claim.measured);
            let workspace = workspace.get_or_insert_with(|| self.work.workspace(engine));
            let result = self.work.perform_claim(tasks, workspace, &mut worker, queue);
            ended = self.inner.now();
            let wall = ended.saturating_sub(begun);
            worker.statistics_mut().busy += wall;
            if let Err(cause) = result {
                break Some(cause);
            }
            performed = Some(worker.performed(wall, before));
        };
        drop(ahead);
        let cpu = thread_cpu_time() + worker.cpu_elsewhere();
        let mut statistics = worker.into_statistics();
        statistics.cpu = cpu.saturating_sub(callers_cpu.unwrap_or_default());
        if let Some(cause) = &failure {
            statistics.retire(cause);
        }
        Ended { statistics, failure }
    }

    fn has_cpu_workers(&self) -> bool {
        self.seats.iter().any(|engine| engine.description().kind == Kind::Cpu)
    }
}
