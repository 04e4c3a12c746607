//! The ciphers, in safe code.

pub(crate) mod confidential;
mod gcm;
mod memory;
mod tls_cbc;

pub(crate) use gcm::{Context, FLAGS, IV_LENGTH, MODE};
pub(crate) use memory::Memory;
