//! The command that runs the benchmark.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use evener_engines::loads_foreign_code;

use super::options::seconds;
use super::{BackgroundOptions, Program, run};
use crate::LabError;

/// `evener-lab bench background`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: BackgroundOptions,
    /// Run only the foreground program for this time and print its figures, to measure it beside
    /// other programs
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    only_foreground: Option<f64>,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
    /// Draw the report, as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Command {
    /// The engines that load third-party code.
    pub fn foreign_engines(&self) -> Vec<String> {
        let BackgroundOptions { engines, module, .. } = &self.options;
        let used = engines.iter().chain(module).filter(|_| self.only_foreground.is_none());
        used.filter(|engine| loads_foreign_code(engine)).cloned().collect()
    }

    /// Runs the benchmark; prints the report to standard output and the progress to standard error.
    ///
    /// # Errors
    /// Those of [`run`], and when the report can't be written.
    pub fn run(&self) -> Result<(), LabError> {
        if let Some(seconds) = self.only_foreground {
            return Program::perform(&self.options, seconds);
        }
        let path = env::current_exe().map_err(LabError::file("find", "this program"))?;
        let program = Program { path, arguments: ARGUMENTS.map(OsString::from).to_vec() };
        let report = run(&self.options, &program, &mut |what| eprintln!("{what}"))?;
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

/// The arguments with which this program starts itself as the foreground program.
const ARGUMENTS: [&str; 2] = ["bench", "background"];
