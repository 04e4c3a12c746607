//! `evener speed`

use clap::Args;
use evener_lab::speed::{Command, SpeedError};

use crate::trouble::{Ending, Trouble};

/// Measure how fast the engines are, side by side, as `openssl speed` does
///
/// Every engine of the machine, encrypting and decrypting, on one core and on all, in thousands
/// of bytes a second. The engine `openssl` is measured as `openssl speed -evp` measures it, and
/// AES once more without the CPU's AES instructions; other engines get as many messages at once
/// as they like. An asterisk marks the fastest of each column.
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
