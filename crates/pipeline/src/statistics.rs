//! Counts of each engine's work.

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
    /// Bytes that went into those jobs.
    pub bytes: u64,
    /// Wall time between claiming a task and having performed it.
    pub busy: Duration,
    /// CPU time of the worker's thread and of its sessions' own, in user and kernel mode.
    pub cpu: Duration,
    /// The failure that took the worker out of service, if its engine failed.
    pub retired: Option<EngineError>,
    /// Tasks that were taken back from it and done by other workers, because its engine was late
    /// with them near the end of the run. The engine did not fail; any further work on them is
    /// discarded.
    pub taken_back: usize,
}

impl WorkerStatistics {
    pub(crate) fn retire(&mut self, cause: &EngineError) {
        // An interrupted engine is not at fault.
        if !matches!(cause, EngineError::Interrupted { .. }) {
            self.retired = Some(cause.clone());
        }
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
