//! `evener simulate`

use clap::Args;

use crate::trouble::{Ending, Trouble};

/// Simulate the experiment with policies on a machine that a profile describes
///
/// The policies are those that encrypt files; what is simulated is the machine, with its cores
/// and engines. `evener engines --measure` writes profiles.
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
