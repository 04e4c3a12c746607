//! The machine: the source of its module, and the time that its processor's work takes.
//!
//! It is this machine. For measurements (feature `model`, which no installed build has) it may be
//! another one, modelled by a profile of its engines.

#[cfg(not(feature = "model"))]
mod here;
#[cfg(feature = "model")]
mod modelled;

#[cfg(not(feature = "model"))]
pub(crate) use here::{check, find, message, part};
#[cfg(feature = "model")]
pub(crate) use modelled::{check, find, message, part};
