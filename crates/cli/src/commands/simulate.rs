//! `evener simulate`

use clap::Args;

use crate::trouble::{Ending, Trouble};

/// Simulate the policies on a machine that a profile describes
///
/// The policies are the ones that encrypt files. The machine with its cores and engines is
/// simulated. `evener engines --measure` writes profiles.
#[derive(Args)]
pub(crate) struct Simulate {
    #[command(flatten)]
    command: evener_lab::simulate::Command,
}

impl Simulate {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        self.command.run()?;
        Ok(Ending::Done)
    }
}
