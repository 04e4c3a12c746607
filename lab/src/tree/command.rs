//! The command that runs the benchmark.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::{TreeOptions, run};
use crate::LabError;

/// `evener-lab bench tree`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: TreeOptions,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
    /// Draw the ratios to `cp -r` as a chart
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Command {
    /// Runs the benchmark; prints the report to standard output and the progress to standard error.
    ///
    /// # Errors
    /// Those of [`run`], and when the report can't be written.
    pub fn run(&self) -> Result<(), LabError> {
        let report = run(&self.options, &mut |what| eprintln!("{what}"))?;
        if let Some(path) = &self.svg {
            fs::write(path, report.to_svg()).map_err(LabError::file("write", path))?;
        }
        let mut output = io::stdout().lock();
        let written = if self.json {
            serde_json::to_writer_pretty(&mut output, &report)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(output))
        } else {
            write!(output, "{report}")
        };
        written.map_err(LabError::file("write", "standard output"))
    }
}
