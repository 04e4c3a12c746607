//! The command that runs the benchmark.

use std::io::{self, Write};

use clap::Args;
use evener_engines::loads_foreign_code;

use super::{ModuleOptions, run};
use crate::LabError;

/// `evener-lab bench module`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: ModuleOptions,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
}

impl Command {
    /// The engines that load third-party code. (`evener` loads the device's engines in separate
    /// processes.)
    pub fn foreign_engines(&self) -> Vec<String> {
        let cpu = &self.options.cpu;
        Vec::from_iter(loads_foreign_code(cpu).then(|| cpu.clone()))
    }

    /// Runs the benchmark; prints the report to standard output and the progress to standard error.
    ///
    /// # Errors
    /// Those of [`run`], when the report can't be written, and [`LabError::Late`] after the report when
    /// runs were beyond the bound.
    pub fn run(&self) -> Result<(), LabError> {
        let report = run(&self.options, &mut |what| eprintln!("{what}"))?;
        let mut output = io::stdout().lock();
        let written = if self.json {
            serde_json::to_writer_pretty(&mut output, &report)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(output))
        } else {
            write!(output, "{report}")
        };
        written.map_err(LabError::file("write", "standard output"))?;
        match report.beyond() {
            0 => Ok(()),
            beyond => Err(LabError::Late { beyond, runs: report.runs() }),
        }
    }
}
