//! `evener completions`

use std::io::{self, Write};

use clap::Args;
use clap_complete::Shell;

use crate::help::{Page, program};
use crate::trouble::{Ending, Trouble};

/// Print a completion script for a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        // The generator panics where it can't write.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program(Page::All), "evener", &mut script);
        io::stdout().lock().write_all(&script).map_err(Trouble::Output)?;
        Ok(Ending::Done)
    }
}
