//! `evener speed`

use clap::Args;
use evener_lab::speed::{Command, SpeedError};

use crate::trouble::{Ending, Trouble};

/// Measure the speed of all engines, as `openssl speed` does
///
/// Each engine encrypts and decrypts, on one core and on all cores. The table shows thousands of
/// bytes per second; an asterisk marks the fastest engine of a column. The engine `openssl` is
/// measured as `openssl speed -evp` measures it, and AES a second time without the CPU's AES
/// instructions. Other engines get as many messages at once as they ask for.
#[derive(Args)]
pub(crate) struct Speed {
    #[command(flatten)]
    command: Command,
}

impl Speed {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        match self.command.run() {
            Ok(()) => Ok(Ending::Done),
            Err(SpeedError::Output(cause)) => Err(Trouble::Output(cause)),
            Err(error) => Err(error.into()),
        }
    }
}
