//! Passwords in files, never in arguments.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::LabError;

/// A random password: 128 random bits in hexadecimal.
pub(super) fn password() -> Result<String, LabError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| LabError::Unavailable(format!("no random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Writes a new file that only this user may read.
pub(super) fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let create = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())
    };
    create().map_err(LabError::file("write", path))
}
