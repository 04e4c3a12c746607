//! Counts of what each engine did.

use std::time::Duration;

use evener_core::EngineError;

/// What one worker did.
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
    /// Why the worker was taken out of service, when its engine failed.
    pub retired: Option<EngineError>,
    /// Tasks that were taken back from it and done by others, because its engine was late with them near
    /// the end of the run. The engine did not fail; whatever it still does with them is discarded.
    pub taken_back: usize,
}

impl WorkerStatistics {
    pub(crate) fn retire(&mut self, cause: &EngineError) {
        // An engine that was interrupted is in order.
        if !matches!(cause, EngineError::Interrupted { .. }) {
            self.retired = Some(cause.clone());
        }
    }
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunStatistics {
    /// One entry for each worker that was started, in the order of their numbers.
    pub workers: Vec<WorkerStatistics>,
    /// Wall time from the start of the workers to the end of the last.
    pub wall: Duration,
}
