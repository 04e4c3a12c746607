//! `evener completions`

use clap::{Args, Command};
use evener_cli::completions::{self, Shell};

use crate::trouble::{Ending, Trouble};

/// Print a completion script for a shell
#[derive(Args)]
pub(crate) struct Completions {
    /// Shell that reads the script
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(crate) fn perform(self, mut program: Command) -> Result<Ending, Trouble> {
        completions::print(self.shell, &mut program).map_err(Trouble::Output)?;
        Ok(Ending::Done)
    }
}
