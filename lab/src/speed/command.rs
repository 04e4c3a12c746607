//! The command that runs the comparison.

use std::env;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use evener_engines::measure;

use super::{Comparison, SpeedError, SpeedOptions, SpeedReport, compare, csv, run};

/// `evener-lab speed`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: SpeedOptions,
    /// Show earlier results too, in table and charts: a file that --json or --csv printed, here or
    /// on another machine, or `article` for the two servers of the AES-NI article; repeatable
    #[arg(long, value_name = "FILE")]
    compare: Vec<PathBuf>,
    /// Print the report as one JSON document
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the figures as comma-separated values
    #[arg(long)]
    csv: bool,
    /// Draw bar charts to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write bar charts and the table to this file, as a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Command {
    /// The engines that load third-party code.
    pub fn foreign_engines(&self) -> Vec<String> {
        measure::foreign(&self.options.engines)
    }

    /// Measures; prints the report to standard output and the progress to standard error.
    ///
    /// # Errors
    /// Those of [`run`], and when earlier results can't be read or the report can't be written.
    pub fn run(&self) -> Result<(), SpeedError> {
        // Load earlier results before measuring, so that an error wastes no time.
        let loaded: Result<Vec<_>, _> =
            self.compare.iter().map(|path| compare::load(path)).collect();
        let compared = loaded?.concat();
        let program = env::current_exe().ok();
        let mut report = run(&self.options, program.as_deref(), &mut |what| {
            // If standard error is closed, progress is not needed.
            let _ = writeln!(io::stderr().lock(), "{what}");
        })?;
        report.compare_with(compared);
        self.print(&report).map_err(SpeedError::Output)?;
        let write = |path: &Path, text: String| {
            let wrong = |source| SpeedError::Write { path: path.to_owned(), source };
            fs::write(path, text).map_err(wrong)
        };
        if let Some(path) = &self.svg {
            write(path, report.to_svg())?;
        }
        if let Some(path) = &self.html {
            write(path, report.to_html())?;
        }
        Ok(())
    }

    fn print(&self, report: &SpeedReport) -> io::Result<()> {
        let mut output = io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut output, report)?;
            writeln!(output)?;
        } else if self.csv {
            output.write_all(csv::write(&report.rows).as_bytes())?;
        } else {
            let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            let coloured = output.is_terminal() && !is_plain;
            output.write_all(report.to_table(coloured).as_bytes())?;
        }
        output.flush()
    }
}

impl SpeedReport {
    /// Adds earlier results to this run's, and lists those that have no case in common with it.
    fn compare_with(&mut self, compared: Vec<Comparison>) {
        for comparison in compared {
            let common = self.rows.iter().any(|own| {
                let case = |row: &super::Row| {
                    (row.cipher.clone(), row.direction.clone(), row.bytes, row.threads == 1)
                };
                comparison.rows.iter().any(|row| case(row) == case(own))
            });
            if common {
                self.compared.push(comparison);
            } else {
                let reason = "it has no figure of what was measured here".to_owned();
                self.leave_out(&comparison.name, reason);
            }
        }
    }
}
