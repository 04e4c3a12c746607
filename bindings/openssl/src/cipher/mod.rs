//! The ciphers, in safe code.

mod gcm;

pub(crate) use gcm::{Context, FLAGS, IV_LENGTH, MODE};
