//! A run: the feed, the workers and what becomes of their tasks.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use evener_core::{Engine, EngineError};

use crate::clock::thread_cpu_time;
use crate::{Queue, RunStatistics, Worker, WorkerStatistics};

/// What is to be done with each task.
pub trait Work: Sync {
    /// A description of work, not its data: some file names, a segment of an open file.
    type Task: Send;

    /// What a worker keeps between tasks, such as its buffers. It stays on the worker's thread.
    type Bench;

    /// Makes a worker's bench, when the worker starts.
    fn bench(&self) -> Self::Bench;

    /// Performs a task on the worker's engine. Failures of the task itself (an unreadable
    /// file) are recorded by the implementation and are not errors here.
    ///
    /// # Errors
    /// The engine failed: what is left of the task comes back and another worker gets it.
    /// This worker is taken out of service.
    fn perform(
        &self,
        task: Self::Task,
        bench: &mut Self::Bench,
        worker: &mut Worker<'_>,
        queue: &Queue<Self::Task>,
    ) -> Result<(), Returned<Self::Task>>;

    /// Records that nobody performed the task: the run was stopped, or every worker's engine
    /// has failed, the last one because of `cause`.
    fn abandon(&self, task: Self::Task, cause: Option<&EngineError>);
}

/// A task that an engine failed, to be given to another worker.
#[derive(Debug)]
pub struct Returned<T> {
    /// What is left to do.
    pub task: T,
    /// Why the engine could not do it.
    pub cause: EngineError,
}

/// Runs `work` with one worker for each entry of `seats`, while `feed` pushes tasks from the
/// calling thread, at most `capacity` of them waiting at a time.
///
/// Returns when every task has been performed or abandoned. Stopping the queue, from the feed
/// or from the work, ends the run early.
pub fn run<W: Work>(
    seats: &[Arc<dyn Engine>],
    capacity: usize,
    work: &W,
    feed: impl FnOnce(&Queue<W::Task>),
) -> RunStatistics {
    let started = Instant::now();
    let queue = Queue::new(capacity);
    let serving = AtomicUsize::new(seats.len());
    let ended: Vec<Ended> = thread::scope(|scope| {
        let threads: Vec<_> = seats
            .iter()
            .enumerate()
            .map(|(number, engine)| {
                let (queue, serving) = (&queue, &serving);
                scope.spawn(move || {
                    let _seat = Seat { queue, serving };
                    serve(Worker::new(engine.as_ref(), number), queue, work)
                })
            })
            .collect();
        feed(&queue);
        queue.close();
        let join = |thread: thread::ScopedJoinHandle<'_, Ended>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    // If any worker was still in service, the run was stopped.
    let all_failed = ended.iter().all(|ended| ended.failure.is_some());
    let cause = ended.iter().find_map(|ended| ended.failure.as_ref()).filter(|_| all_failed);
    for task in queue.remains() {
        work.abandon(task, cause);
    }
    let workers = ended.into_iter().map(|ended| ended.statistics).collect();
    RunStatistics { workers, wall: started.elapsed() }
}

/// How a worker ended.
struct Ended {
    statistics: WorkerStatistics,
    failure: Option<EngineError>,
}

/// The loop of one worker: claim, perform, until nothing is left or its engine fails.
fn serve<W: Work>(mut worker: Worker<'_>, queue: &Queue<W::Task>, work: &W) -> Ended {
    let mut bench = work.bench();
    let mut failure = None;
    while let Some(mut claim) = queue.claim() {
        let Some(task) = claim.take() else { continue };
        let claimed = Instant::now();
        let performed = work.perform(task, &mut bench, &mut worker, queue);
        worker.statistics_mut().busy += claimed.elapsed();
        if let Err(Returned { task, cause }) = performed {
            queue.share(task);
            worker.statistics_mut().retire(&cause);
            failure = Some(cause);
            break;
        }
    }
    worker.statistics_mut().cpu = thread_cpu_time() + worker.cpu_elsewhere();
    Ended { statistics: worker.into_statistics(), failure }
}

/// A worker's place in the run. When the last worker leaves it, by whatever way, the queue
/// stops, so that the feed does not wait for workers that are gone.
struct Seat<'run, T> {
    queue: &'run Queue<T>,
    serving: &'run AtomicUsize,
}

impl<T> Drop for Seat<'_, T> {
    fn drop(&mut self) {
        if self.serving.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.queue.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use evener_core::{
        Cipher, Description, Direction, Iv, Job, Kind, Offer, Outcome, Session, SessionRequest,
    };

    use super::*;

    /// Copies its input, and fails for good after a number of batches.
    struct Copier {
        description: Description,
        batches_left: Arc<AtomicUsize>,
    }

    struct CopierSession(Arc<AtomicUsize>);

    fn copier(name: &str, batches: usize) -> Arc<dyn Engine> {
        let description = Description { name: name.into(), kind: Kind::Cpu, detail: String::new() };
        Arc::new(Copier { description, batches_left: Arc::new(AtomicUsize::new(batches)) })
    }

    impl Engine for Copier {
        fn description(&self) -> &Description {
            &self.description
        }

        fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
            Some(Offer { depth: 1, batch: 1, holders: None })
        }

        fn open(&self, _: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
            Ok(Box::new(CopierSession(self.batches_left.clone())))
        }
    }

    impl Session for CopierSession {
        fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
            let take = |left: usize| left.checked_sub(1);
            if self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
                return Err(EngineError::Failed { engine: "copier".into(), reason: "gone".into() });
            }
            for job in batch {
                job.output[..job.input.len()].copy_from_slice(job.input);
                job.outcome = Outcome::Done { written: job.input.len() };
            }
            Ok(())
        }
    }

    #[derive(Default)]
    struct Record {
        performed: Mutex<Vec<u8>>,
        abandoned: Mutex<Vec<(u8, bool)>>,
    }

    impl Work for Record {
        type Task = u8;
        type Bench = ();

        fn bench(&self) {}

        fn perform(
            &self,
            task: u8,
            (): &mut (),
            worker: &mut Worker<'_>,
            _: &Queue<u8>,
        ) -> Result<(), Returned<u8>> {
            let (input, mut output) = ([task], [0]);
            let mut jobs = [Job::new(Iv::NONE, &input, &mut output)];
            worker
                .process(Cipher::Aes128Ecb, Direction::Encrypt, &mut jobs)
                .map_err(|cause| Returned { task, cause })?;
            worker.count_units(1);
            self.performed.lock().unwrap().push(output[0]);
            Ok(())
        }

        fn abandon(&self, task: u8, cause: Option<&EngineError>) {
            self.abandoned.lock().unwrap().push((task, cause.is_some()));
        }
    }

    fn feed_all(queue: &Queue<u8>) {
        for task in 0..100 {
            if queue.push(task).is_err() {
                return;
            }
        }
    }

    #[test]
    fn a_failing_engine_loses_nothing() {
        for fails_after in [0, 1, 50] {
            let record = Record::default();
            let seats = [copier("sound", usize::MAX), copier("failing", fails_after)];
            let statistics = run(&seats, 8, &record, feed_all);
            let mut performed = record.performed.into_inner().unwrap();
            performed.sort_unstable();
            assert_eq!(performed, Vec::from_iter(0..100));
            assert_eq!(statistics.workers.iter().map(|worker| worker.units).sum::<u64>(), 100);
            assert_eq!(statistics.workers.iter().map(|worker| worker.jobs).sum::<u64>(), 100);
        }
    }

    #[test]
    fn when_every_engine_fails_the_tasks_are_abandoned_and_the_feed_ends() {
        let record = Record::default();
        let seats = [copier("a", 10), copier("b", 5)];
        let statistics = run(&seats, 4, &record, feed_all);
        assert_eq!(record.performed.into_inner().unwrap().len(), 15);
        let abandoned = record.abandoned.into_inner().unwrap();
        assert!(!abandoned.is_empty() && abandoned.iter().all(|(_, has_cause)| *has_cause));
        assert!(statistics.workers.iter().all(|worker| worker.retired.is_some()));
    }

    #[test]
    fn a_stopped_run_abandons_what_is_left() {
        let record = Record::default();
        let statistics = run(&[copier("a", usize::MAX)], 4, &record, |queue| queue.stop());
        assert!(record.abandoned.into_inner().unwrap().is_empty());
        assert_eq!(statistics.workers.len(), 1);
    }
}
