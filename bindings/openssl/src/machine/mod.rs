//! The machine: where its module comes from, and what its processor's work takes.
//!
//! It is this machine. For measurements (feature `model`, which nothing that is installed has) it may be
//! another one, by a profile of its engines.

#[cfg(not(feature = "model"))]
mod here;
#[cfg(feature = "model")]
mod modelled;

#[cfg(not(feature = "model"))]
pub(crate) use here::{check, find, message, part};
#[cfg(feature = "model")]
pub(crate) use modelled::{check, find, message, part};
