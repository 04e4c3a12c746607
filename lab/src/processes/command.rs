//! The command that runs the benchmark.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;

use super::{ProcessesError, ProcessesOptions, run};

/// `evener-lab bench processes`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: ProcessesOptions,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
    /// Draw throughput against processes, as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Command {
    /// Runs the benchmark; prints the report to standard output and the progress to standard error.
    /// The calling process must have one thread, because it forks.
    ///
    /// # Errors
    /// Those of [`run`], and when the report can't be written.
    pub fn run(&self) -> Result<(), ProcessesError> {
        let report = run(&self.options, &mut |what| eprintln!("{what}"))?;
        let failed = |cause| ProcessesError::Report { cause };
        if let Some(path) = &self.html {
            fs::write(path, report.to_html()).map_err(failed)?;
        }
        let mut output = io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut output, &report)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(output))
        } else {
            write!(output, "{report}")
        }
        .map_err(failed)
    }
}
