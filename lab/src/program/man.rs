//! `evener-lab man`

use std::io::{self, Write};

use clap::{Args, Command};
use evener_cli::man::{find, page};

use crate::examples::examples;
use crate::help::{EXIT_STATUS, NAME};
use crate::trouble::Trouble;

/// Print a page of the manual
///
/// Read it with `evener-lab man | man -l -`.
#[derive(Args)]
pub(crate) struct Man {
    /// A command, for its own page, such as speed or bench-tree [default: evener-lab itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Man {
    pub(crate) fn perform(&self, mut program: Command) -> Result<(), Trouble> {
        program.build();
        let text = match &self.command {
            None => page(program, NAME, examples(NAME), &[("EXIT STATUS", EXIT_STATUS)]),
            Some(name) => {
                let unknown = || Trouble::Usage(format!("there is no command {name}"));
                let command = find(&program, name).ok_or_else(unknown)?;
                let path = format!("{NAME} {}", name.replace('-', " "));
                page(command, &format!("{NAME}-{name}"), examples(&path), &[])
            }
        };
        let text = text.map_err(Trouble::Output)?;
        io::stdout().lock().write_all(&text).map_err(Trouble::Output)
    }
}
