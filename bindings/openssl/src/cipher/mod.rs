//! The ciphers, in safe code.

use evener_core::Direction;

pub(crate) mod confidential;
mod gcm;
mod memory;
mod tls_cbc;

pub(crate) use gcm::{Context, FLAGS, IV_LENGTH, MODE};
pub(crate) use memory::Memory;

use crate::params::Params;
use crate::reasons::Reason;
use crate::sys::Param;
use crate::upcalls::Core;

/// A cipher's state between OpenSSL's calls.
pub(crate) trait State: Sized {
    /// What can be asked of it.
    const GETTABLE: &'static [Param];
    /// What can be set.
    const SETTABLE: &'static [Param];

    /// The same once more, which goes on by itself; `None` where there is no memory for it.
    fn try_clone(&self) -> Option<Self>;

    /// What is told of errors.
    fn core(&self) -> &Core;

    /// Sets what is given, for a message in this direction.
    fn init(
        &mut self,
        direction: Direction,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
        params: Params<'_>,
    ) -> Result<(), Reason>;

    /// Tells what is asked.
    fn answer(&mut self, params: Params<'_>) -> Result<(), Reason>;

    /// Sets what is given.
    fn set_params(&mut self, params: Params<'_>) -> Result<(), Reason>;
}
