//! The command line of the simulator.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use evener_core::Profile;
use evener_pipeline::PolicyName;

use super::{Plan, simulate};
use crate::LabError;
use crate::policies::Row;

/// What to simulate, as options of a program.
#[derive(Args, Clone, Debug)]
pub struct Command {
    /// The profile
    #[arg(value_name = "PROFILE")]
    profile: PathBuf,
    /// The lengths of the files, in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = SIZES)]
    sizes: Vec<usize>,
    /// The policies [default: all]
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    policies: Vec<PolicyName>,
    /// How many files there are of each size
    #[arg(long, value_name = "N", default_value_t = 4000)]
    files: usize,
    /// How often each policy does them, to learn from one time to the next
    #[arg(long, value_name = "N", default_value_t = 5)]
    runs: usize,
    /// How many cores there are, instead of what the profile says
    #[arg(long, value_name = "N")]
    cores: Option<usize>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

impl Command {
    /// Simulates and prints.
    ///
    /// # Errors
    /// When the profile can't be read or is none, or the report can't be written.
    pub fn run(&self) -> Result<(), LabError> {
        let text =
            fs::read_to_string(&self.profile).map_err(LabError::file("read", &self.profile))?;
        let profile: Profile = text
            .parse()
            .map_err(|error| LabError::Profile { path: self.profile.clone(), error })?;
        let policies = match &self.policies[..] {
            [] => PolicyName::ALL.to_vec(),
            chosen => chosen.to_vec(),
        };
        let rows = simulate(
            &profile,
            &Plan {
                sizes: self.sizes.clone(),
                policies,
                files: self.files,
                runs: self.runs,
                cores: self.cores,
                knows_profile: false,
            },
        );
        let report = if self.json { to_json(&rows) } else { to_text(&rows) };
        print!("{report}");
        Ok(())
    }
}

fn to_json(rows: &[Row]) -> String {
    serde_json::to_string_pretty(rows).expect("numbers and strings are always JSON") + "\n"
}

fn to_text(rows: &[Row]) -> String {
    let mut text =
        format!("{:>9}  {:<11} {:>10} {:>9} {:>9}\n", "bytes", "policy", "ms", "cpu", "module");
    for row in rows {
        text += &format!(
            "{:>9}  {:<11} {:>10.2} {:>9.0} {:>9.0}\n",
            row.bytes, row.policy, row.ms_mean, row.files_cpu, row.files_module
        );
    }
    text
}

/// Those of the 2015 paper.
const SIZES: [usize; 8] = [8, 16, 64, 256, 1024, 4096, 8192, 16_384];
