//! The command line of the simulator.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use evener_core::{EngineProfile, Kind, Profile};

use super::{Plan, simulate, without_parts};
use crate::policies::{PoliciesReport, Sizes};
use crate::{LabError, Rival, values};

/// Options of the simulator.
#[derive(Args, Clone, Debug)]
pub struct Command {
    /// The profile
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// Bytes of a file, such as 8,16 or 1500-3500:250; 2015 and 2013 stand for the papers' sizes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2015")]
    sizes: Vec<Sizes>,
    /// Policy to simulate; repeatable [default: all]
    #[arg(long = "policy", alias = "policies", value_name = "NAME", value_delimiter = ',',
        value_parser = values::rival(), hide_possible_values = true)]
    policies: Vec<Rival>,
    /// Number of files of each size
    #[arg(long, value_name = "N", default_value_t = 4000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Number of cores [default: the profile's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,
    /// Show the times as ratios to the published ones, too
    #[arg(long, conflicts_with = "json")]
    published: bool,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
    /// Draw the papers' figures, as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Command {
    /// Simulates, and prints the report.
    ///
    /// # Errors
    /// When the profile can't be read or is not valid, a policy did not do all files, or the report
    /// can't be written.
    pub fn run(&self) -> Result<(), LabError> {
        let text =
            fs::read_to_string(&self.profile).map_err(LabError::file("read", &self.profile))?;
        let mut profile: Profile = text
            .parse()
            .map_err(|error| LabError::Profile { path: self.profile.clone(), error })?;
        let parts = without_parts(&mut profile);
        let policies = match &self.policies[..] {
            [] => Rival::ALL,
            chosen => chosen,
        };
        let has_work =
            |policy: &Rival| profile.engines.iter().any(|engine| policy.admits(engine.kind));
        let (policies, idle): (Vec<_>, Vec<_>) = policies.iter().copied().partition(has_work);
        let rows = simulate(
            &profile,
            &Plan {
                sizes: Sizes::all(&self.sizes),
                policies,
                files: self.files as usize,
                cores: self.cores.map(usize::from),
            },
        )?;
        let mut report = PoliciesReport::new(
            "Policies, simulated",
            facts(&profile, self.cores.map(usize::from)),
        );
        report.add_rows(rows)?;
        let why = |policy| format!("{policy}: the profile has no engine that it would use");
        report.skipped.extend(idle.into_iter().map(why));
        let why = |part| format!("engine {part}: the cores are simulated as one engine, cpu");
        report.skipped.extend(parts.into_iter().map(why));
        report.tell(self.json, self.published, self.html.as_deref())
    }
}

/// Facts that explain the figures.
fn facts(profile: &Profile, cores: Option<usize>) -> Vec<(String, String)> {
    let cores = cores.unwrap_or(profile.cores);
    let mut facts = vec![("Machine".to_owned(), format!("{}, {cores} cores", profile.machine))];
    facts.extend(profile.engines.iter().map(|engine| {
        let EngineProfile { name, kind, depth, batch, .. } = engine;
        let kind = if *kind == Kind::Cpu { "Processor" } else { "Module" };
        (kind.to_owned(), format!("{name}, depth {depth}, batch {batch}"))
    }));
    facts
}
