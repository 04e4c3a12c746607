//! The command that runs the benchmark.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::{TlsOptions, TlsReport, run};
use crate::LabError;

/// `evener-lab bench tls`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: TlsOptions,
    /// Measure nothing; show the report that `--json` printed earlier
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
    /// Draw the ratios to `default`, as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Command {
    /// Runs the benchmark; prints the report to standard output and the progress to standard error.
    ///
    /// # Errors
    /// Those of [`run`], and when a report can't be read or written.
    pub fn run(&self) -> Result<(), LabError> {
        let report = match &self.from {
            None => run(&self.options, &mut |what| eprintln!("{what}"))?,
            Some(path) => read(path)?,
        };
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

fn read(path: &Path) -> Result<TlsReport, LabError> {
    let json = fs::read_to_string(path).map_err(LabError::file("read", path))?;
    serde_json::from_str(&json).map_err(io::Error::from).map_err(LabError::file("read", path))
}
