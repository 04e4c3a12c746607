//! Processes a batch of messages in memory with the workers of several engines.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use evener_core::{Cipher, Direction, Engine, EngineError, IgnorePoison, Job, Outcome};

use crate::{Load, Queue, Returned, RunOptions, Work, Worker, run_filled};

/// Lets workers process a batch together. Each job has its key. `is_stopped` is called before each
/// task of some jobs; after it has returned true, no more jobs are begun.
///
/// Jobs that no engine could do, or that were not begun, stay pending. If an engine was found to
/// compute wrong results, its earlier results for this batch are in doubt, so the whole batch is
/// pending again. Returns the last engine's failure, if one failed with jobs left.
pub fn run_batch(
    seats: &[Arc<dyn Engine>],
    options: &RunOptions,
    jobs: &mut [Job<'_>],
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Option<EngineError> {
    let before: Vec<_> = seats.iter().map(is_wrong).collect();
    let RunOptions { cipher, direction, .. } = *options;
    let work =
        Messages { cipher, direction, is_stopped, failure: Mutex::default(), tasks: PhantomData };
    run_filled(seats, options, &work, tasks(jobs));
    let failure = work.failure.into_inner().ignore_poison();
    if seats.iter().zip(before).any(|(engine, before)| !before && is_wrong(engine)) {
        jobs.iter_mut().for_each(|job| job.outcome = Outcome::Pending);
    }
    failure
}

/// Returns whether an engine is out of service for a wrong result.
fn is_wrong(engine: &Arc<dyn Engine>) -> bool {
    let fault = engine.account().and_then(|account| account.fault);
    matches!(fault, Some(EngineError::WrongResult { .. }))
}

/// Cuts a batch into pieces that a worker takes at once.
fn tasks<'j, 'm>(mut jobs: &'j mut [Job<'m>]) -> Vec<&'j mut [Job<'m>]> {
    let mut tasks = Vec::new();
    while !jobs.is_empty() {
        let mut bytes = 0;
        let lengths = jobs.iter().take(MOST_MESSAGES).map(|job| job.input.len());
        let count = lengths
            .take_while(|length| {
                let fits = bytes < LEAST_BYTES;
                bytes += length;
                fits
            })
            .count();
        let (task, rest) = jobs.split_at_mut(count);
        tasks.push(task);
        jobs = rest;
    }
    tasks
}

/// The messages of one batch.
struct Messages<'s, 'j, 'm> {
    cipher: Cipher,
    direction: Direction,
    is_stopped: &'s (dyn Fn() -> bool + Sync),
    /// The failure that left messages undone.
    failure: Mutex<Option<EngineError>>,
    tasks: PhantomData<fn(&'j mut [Job<'m>])>,
}

impl<'j, 'm> Work for Messages<'_, 'j, 'm> {
    type Task = &'j mut [Job<'m>];
    type Workspace = ();

    fn workspace(&self, _: &dyn Engine) {}

    fn load(task: &Self::Task) -> Load {
        let bytes = task.iter().map(|job| job.input.len() as u64).sum();
        Load::jobs(task.len() as u64, bytes)
    }

    fn split(task: &mut Self::Task, jobs: u64) -> Option<Self::Task> {
        let (whole, jobs) = (std::mem::take(task), usize::try_from(jobs).unwrap_or(usize::MAX));
        let (first, rest) = whole.split_at_mut(jobs.min(whole.len()));
        *task = first;
        (!rest.is_empty()).then_some(rest)
    }

    fn perform(
        &self,
        task: Self::Task,
        (): &mut (),
        worker: &mut Worker<'_>,
        queue: &Queue<'_, Self::Task>,
    ) -> Result<(), Returned<Self::Task>> {
        if (self.is_stopped)() {
            queue.stop();
            return Ok(());
        }
        match worker.process(self.cipher, self.direction, task) {
            Ok(()) => Ok(()),
            Err(cause) => Err(Returned { task, cause }),
        }
    }

    fn abandon(&self, _: Self::Task, cause: Option<&EngineError>) {
        *self.failure.lock().ignore_poison() = cause.cloned();
    }
}

/// The least number of bytes that a worker takes at once, if available, so that claiming costs
/// little.
const LEAST_BYTES: usize = 64 << 10;

/// The largest number of messages that a worker takes at once.
const MOST_MESSAGES: usize = 256;

#[cfg(test)]
mod tests {
    use evener_core::Iv;

    use super::*;

    #[test]
    fn a_batch_is_cut_by_bytes_and_by_messages() {
        let input = vec![0; LEAST_BYTES];
        let count = |lengths: &[usize]| {
            let mut outputs = vec![[0; 0]; lengths.len()];
            let jobs = lengths.iter().zip(&mut outputs);
            let mut jobs: Vec<_> = jobs
                .map(|(length, output)| Job::new(Iv::NONE, &input[..*length], output))
                .collect();
            tasks(&mut jobs).iter().map(|task| task.len()).collect::<Vec<_>>()
        };
        assert_eq!(count(&[]), [0; 0]);
        assert_eq!(count(&[0]), [1]);
        assert_eq!(count(&[LEAST_BYTES, 1, LEAST_BYTES, 5]), [1, 2, 1]);
        assert_eq!(count(&[0; 600]), [256, 256, 88]);
    }
}
