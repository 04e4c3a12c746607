//! `evener man`

use std::io::{self, Write};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::arguments::Arguments;
use crate::trouble::{Ending, Trouble};

/// Print the manual page
///
/// Read it with `evener man | man -l -`.
#[derive(Args)]
pub(crate) struct Man {
    /// A command, for its own page
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl Man {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        let mut program = Arguments::command();
        program.build();
        let page = match &self.command {
            None => Page::new(program),
            Some(name) => Page::new(find(&program, name)?)
                .title(format!("evener-{name}"))
                .source(concat!("evener ", env!("CARGO_PKG_VERSION"))),
        };
        let mut text = Vec::new();
        page.render(&mut text).map_err(Trouble::Output)?;
        io::stdout().lock().write_all(&text).map_err(Trouble::Output)?;
        Ok(Ending::Done)
    }
}

fn find(program: &Command, name: &str) -> Result<Command, Trouble> {
    let command = program.find_subcommand(name).cloned();
    command.ok_or_else(|| Trouble::Usage(format!("there is no command {name}")))
}
