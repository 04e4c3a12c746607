//! The experiment with policies on machines that one doesn't have: a discrete-event simulation
//! from a profile.
//!
//! The policies, and the scheduler that asks them, are those of the real queue. What is simulated is
//! the machine: cores that threads share fairly (`processor.rs`), CPU engines that need a core
//! for as long as a job takes, and modules that need one for their CPU part, and the device for
//! the rest, which sleeps beside the cores (`run.rs`).

mod command;
mod processor;
mod run;

use evener_core::{Kind, Profile};
use evener_pipeline::costs::Costs;

use crate::Rival;
use crate::policies::Row;

pub use command::Command;
pub use run::{Outcome, Scene};

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The lengths of the files, one row for each and policy.
    pub sizes: Vec<usize>,
    /// The policies.
    pub policies: Vec<Rival>,
    /// How many files there are of each size.
    pub files: usize,
    /// How many cores there are, instead of what the profile says.
    pub cores: Option<usize>,
}

/// Simulates the experiment.
pub fn simulate(profile: &Profile, plan: &Plan) -> Vec<Row> {
    let cores = plan.cores.unwrap_or(profile.cores);
    let mut rows = Vec::new();
    for &policy in &plan.policies {
        for &bytes in &plan.sizes {
            let engines = profile.engines.iter().collect();
            let scene = Scene::new(cores, engines, vec![bytes; plan.files]);
            let outcome = scene.run(policy, Costs::from_profile(profile));
            rows.push(row(profile, policy, bytes, &outcome));
        }
    }
    rows
}

fn row(profile: &Profile, policy: Rival, bytes: usize, outcome: &Outcome) -> Row {
    let ms = outcome.wall.as_secs_f64() * 1e3;
    let files = |of_cpu: bool| {
        let each = outcome.jobs.iter().zip(&profile.engines);
        let of_kind = each.filter(|(_, engine)| (engine.kind == Kind::Cpu) == of_cpu);
        of_kind.map(|(jobs, _)| *jobs as f64).sum()
    };
    Row {
        bytes,
        policy: policy.to_string(),
        cipher: profile.cipher.clone(),
        direction: profile.direction.clone(),
        files: outcome.jobs.iter().sum(),
        // Simulated time is the same every time.
        runs: 1,
        ms_mean: ms,
        ms_median: ms,
        ms_min: ms,
        ms_max: ms,
        files_cpu: files(true),
        files_module: files(false),
    }
}

#[cfg(test)]
mod tests;
