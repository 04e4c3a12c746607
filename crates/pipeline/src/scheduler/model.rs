//! The costs of loads on an engine.

use std::time::Duration;

use crate::Load;
use crate::costs::{EngineCosts, Processed};
use crate::policy::Performed;

/// The costs of loads. Loads of unknown size tell nothing about other loads.
#[derive(Clone)]
pub(super) struct Model {
    of_bytes: EngineCosts,
    of_unknown: EngineCosts,
}

impl Model {
    pub(super) fn new(costs: EngineCosts) -> Model {
        Model { of_bytes: costs.clone(), of_unknown: costs }
    }

    /// Learns from a claim, which may have been larger than its load said: a file's segments.
    pub(super) fn learn(&mut self, load: Load, performed: &Performed, time: Duration) {
        let (batches, cpu) = (1, Duration::ZERO);
        let costs = if load.bytes.is_some() { &mut self.of_bytes } else { &mut self.of_unknown };
        let (jobs, bytes) = match (load.bytes, performed.done) {
            (None, _) => (load.jobs, 0),
            (Some(bytes), (0, _)) => (load.jobs, bytes),
            (Some(_), done) => done,
        };
        costs.learn(&Processed { batches, jobs, bytes, wall: time, cpu }, performed.opened);
    }

    /// Mean and spread of the time for a load, in microseconds.
    pub(super) fn time(&self, load: Load) -> Option<(f64, f64)> {
        let costs = if load.bytes.is_some() { &self.of_bytes } else { &self.of_unknown };
        let jobs = load.jobs.max(1) as f64;
        let cost = costs.cost(load.bytes.unwrap_or_default() as f64 / jobs, jobs)?;
        Some((cost.wall * jobs, cost.spread * jobs))
    }
}
