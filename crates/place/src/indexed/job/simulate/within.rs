//! The number of workers for a time.

use super::outcome::Outcome;
use super::run::simulate;
use super::scenario::Scenario;
use super::work::Work;
use crate::Control;

/// The answer to [`workers_within`].
#[derive(Clone, Debug, PartialEq)]
pub enum Within {
    /// The outcome with the fewest workers that do it in time.
    Enough(Box<Outcome>),
    /// No number of workers does: this is the outcome with the most that were tried.
    Never(Box<Outcome>),
}

/// Finds the fewest workers that do a job within so many seconds, plan and finish included. `None` if
/// it was stopped.
///
/// It doubles the number until that is enough, and then searches below. Where more workers are not
/// faster, fewer may do it too.
pub fn workers_within(
    work: &Work,
    scenario: &Scenario,
    seconds: f64,
    control: &Control,
) -> Option<Within> {
    let try_with = |workers: u64| simulate(work, &Scenario { workers, ..*scenario }, control);
    let most = work.shards().clamp(1, MOST_WORKERS);
    let (mut too_few, mut enough) = (0, 1);
    let mut best = loop {
        let outcome = try_with(enough)?;
        if outcome.seconds <= seconds {
            break outcome;
        }
        if enough == most || outcome.plan_seconds + outcome.finish_seconds > seconds {
            return Some(Within::Never(Box::new(outcome)));
        }
        // Time is inversely proportional at best.
        let run = seconds - outcome.plan_seconds - outcome.finish_seconds;
        let least = (outcome.run_seconds * enough as f64 / run.max(1.0)) as u64;
        too_few = enough;
        enough = least.max(enough + enough.div_ceil(8)).min(most);
    };
    while enough - too_few > 1 {
        let between = too_few + (enough - too_few) / 2;
        let outcome = try_with(between)?;
        if outcome.seconds <= seconds {
            (enough, best) = (between, outcome);
        } else {
            too_few = between;
        }
    }
    Some(Within::Enough(Box::new(best)))
}

/// More than any cluster has.
const MOST_WORKERS: u64 = 1 << 16;
