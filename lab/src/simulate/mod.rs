//! Simulates the policies experiment on other machines: a discrete-event simulation from a profile.
//!
//! The policies and the scheduler are those of the real queue. The machine is simulated: cores that
//! threads share fairly (`processor.rs`), CPU engines that use a core for the whole job, and
//! modules that use a core for the CPU part of a job and the device for the rest (`worker.rs`,
//! `run.rs`).

mod command;
mod processor;
mod run;
mod worker;

use evener_core::{EngineProfile, Kind, Profile};
use evener_pipeline::costs::Costs;

use crate::policies::Row;
use crate::{LabError, Rival};

pub use command::Command;
pub use run::{Outcome, Scene};

/// The runs to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The lengths of the files; there is a row for each length and policy.
    pub sizes: Vec<usize>,
    /// The policies.
    pub policies: Vec<Rival>,
    /// The number of files of each size.
    pub files: usize,
    /// Number of cores; `None` for the profile's number.
    pub cores: Option<usize>,
}

/// Removes the engines that are parts of another, and returns their names. A policy treats all
/// engines that compute on the cores as one, `cpu`, but a measurement of all of a machine's engines
/// also contains the parts.
pub fn without_parts(profile: &mut Profile) -> Vec<String> {
    if profile.engine(WHOLE).is_none_or(|whole| whole.kind != Kind::Cpu) {
        return Vec::new();
    }
    let is_part = |engine: &EngineProfile| engine.kind == Kind::Cpu && engine.name != WHOLE;
    let (parts, engines) = std::mem::take(&mut profile.engines).into_iter().partition(is_part);
    profile.engines = engines;
    let parts: Vec<EngineProfile> = parts;
    parts.into_iter().map(|engine| engine.name).collect()
}

/// The engine of all cores.
const WHOLE: &str = "cpu";

/// Simulates the experiment.
///
/// # Errors
/// When a policy did not do all files.
pub fn simulate(profile: &Profile, plan: &Plan) -> Result<Vec<Row>, LabError> {
    let cores = plan.cores.unwrap_or(profile.cores);
    let mut rows = Vec::new();
    for &policy in &plan.policies {
        for &bytes in &plan.sizes {
            let engines = profile.engines.iter().collect();
            let scene = Scene::new(cores, engines, vec![bytes; plan.files]);
            let outcome = scene.run(policy, Costs::from_profile(profile))?;
            rows.push(row(profile, policy, bytes, &outcome));
        }
    }
    Ok(rows)
}

fn row(profile: &Profile, policy: Rival, bytes: usize, outcome: &Outcome) -> Row {
    let ms = outcome.wall.as_secs_f64() * 1e3;
    let files = |of_cpu: bool| {
        let each = outcome.jobs.iter().zip(&profile.engines);
        let of_kind = each.filter(|(_, engine)| (engine.kind == Kind::Cpu) == of_cpu);
        of_kind.map(|(jobs, _)| *jobs).sum::<u64>() as f64
    };
    Row {
        bytes,
        policy: policy.to_string(),
        cipher: profile.cipher.clone(),
        direction: profile.direction.clone(),
        files: outcome.jobs.iter().sum(),
        // Simulated times are the same in every run.
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
