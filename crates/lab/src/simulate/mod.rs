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
use evener_pipeline::PolicyName;
use evener_pipeline::costs::Costs;

use crate::policies::Row;
use crate::statistics::median;

pub use command::Command;
pub use run::{Outcome, Scene};

/// What to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The lengths of the files, one row for each and policy.
    pub sizes: Vec<usize>,
    /// The policies.
    pub policies: Vec<PolicyName>,
    /// How many files there are of each size.
    pub files: usize,
    /// How often each policy does them. Only one that learns does not take the same every time.
    pub runs: usize,
    /// How many cores there are, instead of what the profile says.
    pub cores: Option<usize>,
    /// Whether a policy that learns knows the profile before the first run.
    pub knows_profile: bool,
}

/// Simulates the experiment.
pub fn simulate(profile: &Profile, plan: &Plan) -> Vec<Row> {
    let cores = plan.cores.unwrap_or(profile.cores);
    let mut rows = Vec::new();
    for &policy in &plan.policies {
        let mut costs =
            if plan.knows_profile { Costs::from_profile(profile) } else { Costs::default() };
        for &bytes in &plan.sizes {
            let scene =
                Scene::new(cores, profile.engines.iter().collect(), vec![bytes; plan.files]);
            let mut outcomes: Vec<Outcome> = Vec::new();
            while outcomes.len() < plan.runs.max(1) {
                let again = outcomes.last().filter(|_| policy != PolicyName::Adaptive).cloned();
                let outcome = again.unwrap_or_else(|| scene.run(policy, costs.clone()));
                costs = outcome.costs.clone();
                outcomes.push(outcome);
            }
            rows.push(row(profile, policy, bytes, &outcomes));
        }
    }
    rows
}

fn row(profile: &Profile, policy: PolicyName, bytes: usize, outcomes: &[Outcome]) -> Row {
    let times = || outcomes.iter().map(|outcome| outcome.wall.as_secs_f64() * 1e3);
    let mean = |sum: f64| sum / outcomes.len() as f64;
    let files = |of_cpu: bool| {
        let each = outcomes.iter().flat_map(|outcome| outcome.jobs.iter().zip(&profile.engines));
        let of_kind = each.filter(|(_, engine)| (engine.kind == Kind::Cpu) == of_cpu);
        mean(of_kind.map(|(jobs, _)| *jobs as f64).sum())
    };
    Row {
        bytes,
        policy: policy.to_string(),
        cipher: profile.cipher.clone(),
        direction: profile.direction.clone(),
        files: outcomes.first().map_or(0, |outcome| outcome.jobs.iter().sum()),
        runs: outcomes.len() as u64,
        ms_mean: mean(times().sum()),
        ms_median: median(&times().collect::<Vec<_>>()).unwrap_or_default(),
        ms_min: times().fold(f64::INFINITY, f64::min),
        ms_max: times().fold(0.0, f64::max),
        files_cpu: files(true),
        files_module: files(false),
    }
}

#[cfg(test)]
mod tests;
