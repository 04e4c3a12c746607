//! The processor of another machine, for work that is not an engine's job.

use std::time::Duration;

use evener_core::{EngineError, EngineProfile};

use super::clock::{burn, thread_time};
use super::{NAME, probe};

/// A modelled processor. It processes messages one after the other, on the calling thread.
pub struct Processor {
    costs: EngineProfile,
}

impl Processor {
    /// Finds the engine that the parameters `FILE#NAME` name.
    ///
    /// # Errors
    /// As [`find`](super::find).
    pub fn find(parameters: &str) -> Result<Processor, EngineError> {
        let model = probe::read(parameters).map_err(|reason| {
            EngineError::unavailable(reason).of(&format!("{NAME}:{parameters}"))
        })?;
        Ok(Processor { costs: model.engine })
    }

    /// Does the work of a message of `bytes` bytes and keeps the thread busy until the modelled
    /// processor would have finished.
    pub fn message<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        busy(self.costs.cost(bytes).wall_us, work)
    }

    /// As [`Processor::message`], for `bytes` bytes within a message: without the fixed cost of a
    /// message.
    pub fn part<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let [.., one, other] = &self.costs.points[..] else { return work() };
        let distance = other.bytes.saturating_sub(one.bytes).max(1) as f64;
        busy((other.wall_us - one.wall_us) / distance * bytes as f64, work)
    }
}

fn busy<T>(microseconds: f64, work: impl FnOnce() -> T) -> T {
    let begun = thread_time();
    let result = work();
    burn(begun + Duration::from_secs_f64((microseconds * 1e-6).clamp(0.0, LONGEST)));
    result
}

/// The longest busy time, in seconds; a profile may contain any number.
const LONGEST: f64 = 3600.0;
