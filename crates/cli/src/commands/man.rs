//! `evener man`

use std::io::{self, Write};

use clap::{Args, Command};
use evener_cli::man::{find, page};

use crate::help::{EXIT_STATUS, MEMORY, examples};
use crate::trouble::{Ending, Trouble};

/// Print a page of the manual
///
/// Read it with `evener man | man -l -`.
#[derive(Args)]
pub(crate) struct Man {
    /// Print the page of this command, such as encrypt or gate-reset [default: evener itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Man {
    pub(crate) fn perform(self, mut program: Command) -> Result<Ending, Trouble> {
        program.build();
        let text = match &self.command {
            None => {
                let sections = [("MEMORY", MEMORY), ("EXIT STATUS", EXIT_STATUS)];
                page(program, "evener", examples("evener"), &sections)
            }
            Some(name) => {
                let unknown = || Trouble::Usage(format!("there is no command {name}"));
                let command = find(&program, name).ok_or_else(unknown)?;
                let path = format!("evener {}", name.replace('-', " "));
                page(command, &format!("evener-{name}"), examples(&path), &[])
            }
        };
        io::stdout().lock().write_all(&text.map_err(Trouble::Output)?).map_err(Trouble::Output)?;
        Ok(Ending::Done)
    }
}
