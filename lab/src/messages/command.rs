//! The command that runs the benchmark.

use std::io::{self, Write};

use clap::Args;

use super::{MessagesOptions, run};
use crate::LabError;

/// `evener-lab bench messages`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: MessagesOptions,
    /// Print the report as one JSON document
    #[arg(long)]
    json: bool,
}

impl Command {
    /// The contenders that are third-party code.
    pub fn foreign_engines(&self) -> Vec<String> {
        let contenders = self.options.contenders().iter();
        contenders.filter(|it| it.is_foreign()).map(|it| it.name().to_owned()).collect()
    }

    /// Runs the benchmark; prints the report to standard output and the progress to standard error.
    ///
    /// # Errors
    /// Those of [`run`], and when the report can't be written.
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
        written.map_err(LabError::file("write", "standard output"))
    }
}
