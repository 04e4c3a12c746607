//! The engine that recomputes results where the caller names none.

#[cfg(not(feature = "openssl"))]
pub(super) use crate::lanes::engine;
#[cfg(feature = "openssl")]
pub(super) use crate::openssl::reference as engine;
