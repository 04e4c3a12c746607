//! The engine that recomputes results where the caller names none.

#[cfg(not(feature = "openssl"))]
pub(crate) use crate::lanes::engine;
#[cfg(feature = "openssl")]
pub(crate) use crate::openssl::reference as engine;
