//! What engines cost on this machine.
//!
//! One [`Costs`] is for one cipher and direction. The adaptive policy begins with what a
//! [`Profile`] says, and adds what it sees in its run.

mod estimate;

use std::time::Duration;

use evener_core::{EngineProfile, Point, Profile};

use crate::SizeClass;
use crate::policy::Processed;

pub use estimate::Cost;
use estimate::{Estimate, Line};

/// What engines cost for one cipher and direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    engines: Vec<(String, EngineCosts)>,
}

/// What an engine costs, by the size of a job.
///
/// A SIMD engine or a GPU takes about as long for a few jobs as for a full batch, so what full
/// batches cost is kept apart from what others do.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineCosts {
    /// How many jobs the engine likes in a batch.
    batch: usize,
    /// A job's share of a batch that is at least half full.
    full: Line,
    /// A whole batch that is less than half full.
    part: Line,
}

impl Costs {
    /// What is known of an engine.
    pub fn engine(&self, name: &str) -> Option<&EngineCosts> {
        self.engines.iter().find(|(known, _)| known == name).map(|(_, costs)| costs)
    }

    /// Replaces what is known of an engine.
    pub fn insert(&mut self, name: &str, costs: EngineCosts) {
        match self.engines.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = costs,
            None => self.engines.push((name.to_owned(), costs)),
        }
    }

    /// What a profile says.
    pub fn from_profile(profile: &Profile) -> Costs {
        let costs = |engine: &EngineProfile| (engine.name.clone(), EngineCosts::of(engine));
        Costs { engines: profile.engines.iter().map(costs).collect() }
    }
}

impl EngineCosts {
    /// Nothing is known yet.
    pub fn new(batch: usize) -> EngineCosts {
        EngineCosts { batch: batch.max(1), full: Line::new(), part: Line::new() }
    }

    /// What an engine's profile says of it with one worker.
    pub fn of(engine: &EngineProfile) -> EngineCosts {
        let mut costs = EngineCosts::new(engine.batch);
        engine.points.iter().for_each(|point| costs.remember(point));
        costs
    }

    /// Learns from what the engine did. Of a session that has just been `opened` only what
    /// its jobs cost at most is learnt, and that where nothing is known.
    pub fn learn(&mut self, processed: &Processed, opened: bool) {
        if processed.jobs == 0 || processed.batches == 0 {
            return;
        }
        let (jobs, batches) = (processed.jobs as f64, processed.batches as f64);
        let bytes = processed.bytes as f64 / jobs;
        if opened && self.cost(bytes, jobs / batches).is_some() {
            return;
        }
        let class = SizeClass::of(bytes as u64);
        let is_full = 2.0 * jobs >= self.batch as f64 * batches;
        let (line, share) =
            if is_full { (&mut self.full, jobs) } else { (&mut self.part, batches) };
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / share;
        let (wall, cpu) = (micros(processed.wall), micros(processed.cpu));
        match line.of(class) {
            Some(estimate) => estimate.learn(bytes, wall, cpu),
            None if opened => line.set(class, Estimate::cold(bytes, wall, cpu)),
            None => line.set(class, Estimate::new(bytes, wall, cpu)),
        }
    }

    /// What a job of `bytes` bytes costs in a batch of `jobs`, in microseconds.
    ///
    /// Between sizes that are known it is on the straight line. Beyond, it is what can be said
    /// for sure: a smaller job costs no more than a known one, and a larger one no more than in
    /// proportion to its length.
    pub fn cost(&self, bytes: f64, jobs: f64) -> Option<Cost> {
        let batch = self.batch as f64;
        let full = estimate::between(&self.full, bytes);
        if 2.0 * jobs >= batch {
            let part = || Some(estimate::between(&self.part, bytes)?.shared(jobs));
            return full.or_else(part);
        }
        let part = estimate::between(&self.part, bytes).map(|cost| cost.shared(jobs.max(1.0)));
        // A batch takes no longer for having fewer jobs in it.
        let bound = full.map(|cost| cost.shared(jobs.max(1.0) / batch));
        match (part, bound) {
            (Some(part), Some(bound)) if part.cpu > bound.cpu => Some(bound),
            (part, bound) => part.or(bound),
        }
    }

    fn remember(&mut self, point: &Point) {
        let class = SizeClass::of(point.bytes as u64);
        let estimate = Estimate::remembered(point.bytes as f64, point.wall_us, point.cpu_us);
        self.full.set(class, estimate);
    }
}

#[cfg(test)]
mod tests;
