//! The command that runs the benchmark.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::{ThreadsOptions, run};
use crate::LabError;

/// `evener-lab bench threads`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: ThreadsOptions,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
    /// Draw time and speed-up against threads, beside the paper's
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the drawing and the tables as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
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
        if let Some(path) = &self.html {
            fs::write(path, report.to_html()).map_err(LabError::file("write", path))?;
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
