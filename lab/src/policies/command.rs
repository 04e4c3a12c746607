//! The command that runs the benchmark.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use evener_engines::loads_foreign_code;

use super::published::Ratios;
use super::{PoliciesOptions, PoliciesReport, run};
use crate::LabError;

/// `evener-lab bench policies`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: PoliciesOptions,
    /// Measure nothing; show the reports that `--json` printed earlier, combined if there are
    /// several
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// The report's heading
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
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
    /// The engines that load third-party code.
    pub fn foreign_engines(&self) -> Vec<String> {
        let PoliciesOptions { cpu, module, .. } = &self.options;
        let measured = [cpu].into_iter().chain(module).filter(|_| self.from.is_empty());
        measured.filter(|engine| loads_foreign_code(engine)).cloned().collect()
    }

    /// Runs the benchmark; prints the report to standard output and the progress to standard error.
    ///
    /// # Errors
    /// Those of [`run`], and when a report can't be read or written.
    pub fn run(&self) -> Result<(), LabError> {
        let mut report = match self.from.as_slice() {
            [] => run(&self.options, &mut |what| eprintln!("{what}"))?,
            files => read(files)?,
        };
        if let Some(title) = &self.title {
            report.title.clone_from(title);
        }
        report.tell(self.json, self.published, self.html.as_deref())
    }
}

/// Reads reports and combines them.
fn read(files: &[PathBuf]) -> Result<PoliciesReport, LabError> {
    let mut all: Option<PoliciesReport> = None;
    for path in files {
        let json = fs::read_to_string(path).map_err(LabError::file("read", path))?;
        let report: PoliciesReport = serde_json::from_str(&json)
            .map_err(io::Error::from)
            .map_err(LabError::file("read", path))?;
        match &mut all {
            None => all = Some(report),
            Some(all) => all.add(report),
        }
    }
    all.ok_or_else(|| LabError::Unavailable("there is no report to show".to_owned()))
}

impl PoliciesReport {
    /// Prints the report as text (with `published`, followed by ratios to published times) or JSON,
    /// and writes the page if `html` is given.
    ///
    /// # Errors
    /// When either can't be written.
    pub fn tell(
        &self,
        json: bool,
        published: bool,
        html: Option<&std::path::Path>,
    ) -> Result<(), LabError> {
        if let Some(path) = html {
            fs::write(path, self.to_html()).map_err(LabError::file("write", path))?;
        }
        let mut output = io::stdout().lock();
        let written = if json {
            serde_json::to_writer_pretty(&mut output, self)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(output))
        } else if published {
            write!(output, "{self}{}", Ratios(self))
        } else {
            write!(output, "{self}")
        };
        written.map_err(LabError::file("write", "standard output"))
    }
}
