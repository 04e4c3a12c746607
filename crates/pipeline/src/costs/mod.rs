//! The costs of engines: the time of a job by its size.
//!
//! A [`Costs`] is for one cipher and direction. The adaptive policy starts from the figures of a
//! [`Profile`], and adds the measurements of its run.

mod estimate;

use std::time::Duration;

use evener_core::{EngineProfile, Point, Profile, batch_of};

use crate::SizeClass;

pub use estimate::Cost;
use estimate::{Estimate, Line};

/// The work of an engine for one claim, without the opening of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processed {
    /// Number of batches.
    pub batches: u64,
    /// Number of jobs in them.
    pub jobs: u64,
    /// Number of bytes of the jobs.
    pub bytes: u64,
    /// Wall time of the batches.
    pub wall: Duration,
    /// CPU time of the batches.
    pub cpu: Duration,
}

/// The costs of engines for one cipher and direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    engines: Vec<(String, EngineCosts)>,
}

/// The costs of an engine, by the size of a job.
///
/// A SIMD engine or a GPU takes about as long for a few jobs as for a full batch, so full batches
/// have separate figures.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineCosts {
    /// The recommended number of jobs in a batch.
    batch: usize,
    /// The recommended number of bytes in a batch; 0 if only the number of jobs matters.
    bytes: usize,
    /// A job's share of a batch that is at least half full.
    full: Line,
    /// A batch that is less than half full.
    part: Line,
    /// The time to open a session, in microseconds, if a profile gives it.
    opening: Option<f64>,
}

impl Costs {
    /// The costs of an engine, if there are any.
    pub fn engine(&self, name: &str) -> Option<&EngineCosts> {
        self.engines.iter().find(|(known, _)| known == name).map(|(_, costs)| costs)
    }

    /// Replaces the costs of an engine.
    pub fn insert(&mut self, name: &str, costs: EngineCosts) {
        match self.engines.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = costs,
            None => self.engines.push((name.to_owned(), costs)),
        }
    }

    /// The costs in a profile.
    pub fn from_profile(profile: &Profile) -> Costs {
        let costs = |engine: &EngineProfile| (engine.name.clone(), EngineCosts::of(engine));
        Costs { engines: profile.engines.iter().map(costs).collect() }
    }
}

impl EngineCosts {
    /// Costs without any figures.
    pub fn new(batch: usize) -> EngineCosts {
        let (full, part) = (Line::new(), Line::new());
        EngineCosts { batch: batch.max(1), bytes: 0, full, part, opening: None }
    }

    /// Sets the recommended number of bytes in a batch.
    pub fn of_bytes(self, bytes: usize) -> EngineCosts {
        EngineCosts { bytes, ..self }
    }

    /// The time to open a session, in microseconds, if a profile gives it.
    pub fn opening(&self) -> Option<f64> {
        self.opening
    }

    /// The number of jobs of this mean length in a full batch.
    fn batch_of(&self, bytes: f64) -> f64 {
        batch_of(self.batch, self.bytes, bytes)
    }

    /// The costs in an engine's profile, with one worker.
    pub fn of(engine: &EngineProfile) -> EngineCosts {
        let mut costs = EngineCosts::new(engine.batch).of_bytes(engine.bytes);
        costs.opening = (engine.open_us > 0.0).then_some(engine.open_us);
        engine.points.iter().for_each(|point| costs.remember(point));
        costs
    }

    /// Adds a measurement. The first jobs of a session that has just been `opened` are an upper
    /// bound only, which is used if there is no measurement.
    pub fn learn(&mut self, processed: &Processed, opened: bool) {
        if processed.jobs == 0 || processed.batches == 0 {
            return;
        }
        let (jobs, batches) = (processed.jobs as f64, processed.batches as f64);
        let bytes = processed.bytes as f64 / jobs;
        let known = self.cost(bytes, jobs / batches);
        if opened && known.is_some() {
            return;
        }
        let class = SizeClass::of(bytes as u64);
        let is_full = 2.0 * jobs >= self.batch_of(bytes) * batches;
        let (line, share) =
            if is_full { (&mut self.full, jobs) } else { (&mut self.part, batches) };
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / share;
        let (wall, cpu) = (micros(processed.wall), micros(processed.cpu));
        if let Some(estimate) = line.of(class) {
            estimate.learn(bytes, wall, cpu);
            return;
        }
        // Measurements do not show hidden time; a profile may give it for nearby sizes.
        let hidden = known.map_or(0.0, |known| known.hidden) * jobs / share;
        let estimate = Estimate::new(bytes, wall, cpu).hiding(hidden);
        line.set(class, if opened { estimate.cold() } else { estimate });
    }

    /// The cost of a job of `bytes` bytes in a batch of `jobs`, in microseconds.
    ///
    /// Between measured sizes it is interpolated. Beyond them it is an upper bound: a smaller job
    /// costs no more than the smallest measured one, and the cost of a larger one grows at most in
    /// proportion to its length.
    pub fn cost(&self, bytes: f64, jobs: f64) -> Option<Cost> {
        let batch = self.batch_of(bytes);
        let full = estimate::between(&self.full, bytes);
        if 2.0 * jobs >= batch {
            let part = || Some(estimate::between(&self.part, bytes)?.shared(jobs));
            return full.or_else(part);
        }
        let part = estimate::between(&self.part, bytes).map(|cost| cost.shared(jobs.max(1.0)));
        // A batch with fewer jobs takes no longer.
        let bound = full.map(|cost| cost.shared(jobs.max(1.0) / batch));
        match (part, bound) {
            (Some(part), Some(bound)) if part.cpu > bound.cpu => Some(bound),
            (part, bound) => part.or(bound),
        }
    }

    fn remember(&mut self, point: &Point) {
        let class = SizeClass::of(point.bytes as u64);
        self.full.set(class, Estimate::remembered(point));
    }
}

#[cfg(test)]
mod tests;
