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
    /// The parameters that can be read.
    const GETTABLE: &'static [Param];
    /// The parameters that can be set.
    const SETTABLE: &'static [Param];

    /// An independent copy in the same state; `None` if there is no memory for it.
    fn try_clone(&self) -> Option<Self>;

    /// OpenSSL's functions, for reporting errors.
    fn core(&self) -> &Core;

    /// Sets the given key, IV and parameters, for a message in this direction.
    fn init(
        &mut self,
        direction: Direction,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
        params: Params<'_>,
    ) -> Result<(), Reason>;

    /// Fills in the requested parameters.
    fn answer(&mut self, params: Params<'_>) -> Result<(), Reason>;

    /// Sets the given parameters.
    fn set_params(&mut self, params: Params<'_>) -> Result<(), Reason>;
}
