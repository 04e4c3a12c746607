//! Statistics of a run, by worker.

use std::time::Duration;

use evener_core::EngineError;

/// The work of one worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerStatistics {
    /// The name of the worker's engine.
    pub engine: String,
    /// The worker's number, from 0.
    pub worker: usize,
    /// The caller's units (files, records) that this worker finished.
    pub units: u64,
    /// Jobs that its engine processed.
    pub jobs: u64,
    /// Bytes of input of these jobs.
    pub bytes: u64,
    /// Wall time from claims to the end of their tasks.
    pub busy: Duration,
    /// CPU time of the worker's thread and of its sessions' own, in user and kernel mode.
    pub cpu: Duration,
    /// The reason why the worker was taken out of service, if its engine failed.
    pub retired: Option<String>,
    /// If its engine computed wrong results: the number of unverified jobs of all workers of that
    /// engine.
    pub doubtful: u64,
}

impl WorkerStatistics {
    /// Adds the work of the same worker on another thread.
    pub(crate) fn add(&mut self, other: WorkerStatistics) {
        self.units += other.units;
        self.jobs += other.jobs;
        self.bytes += other.bytes;
        self.busy += other.busy;
        self.cpu += other.cpu;
    }

    pub(crate) fn retire(&mut self, cause: &EngineError) {
        match cause {
            // Nothing is wrong with the engine.
            EngineError::Interrupted { .. } => return,
            EngineError::WrongResult { unverified, .. } => self.doubtful = *unverified,
            _ => {}
        }
        self.retired = Some(cause.to_string());
    }
}

/// The work of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunStatistics {
    /// One entry for each worker that was started, in the order of their numbers.
    pub workers: Vec<WorkerStatistics>,
    /// Wall time from the start of the workers to the end of the last.
    pub wall: Duration,
}
