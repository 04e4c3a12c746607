//! Access to a file beyond its owner's, on file systems that choose modes and owners themselves:
//! FAT, exFAT, NTFS and many in user space take no mode, and the options of the mount decide.

use std::os::fd::AsFd;

use evener_keys::mounts::{device, is_private_mount};
use rustix::fs::{Mode, Stat, fstat};
use rustix::process::geteuid;

use crate::FileError;
use crate::identity::permissions;

pub(crate) use evener_keys::mounts::{has_mode_of_mount, lies_without_modes};

/// Refuses an open, new file for plaintext whose mode or owner gives other users more access to it
/// than the mode `wanted` does.
///
/// # Errors
/// [`FileError::Exposed`], and the system's error if the file has no status.
pub(crate) fn refuse_exposed(file: impl AsFd, wanted: Mode) -> Result<(), FileError> {
    let there = fstat(file).map_err(FileError::system("read its output's status"))?;
    if !exposes(&there, wanted) || is_private_mount(device(&there)) {
        return Ok(());
    }
    Err(FileError::Exposed { mode: permissions(&there).bits(), owner: there.st_uid })
}

/// Returns whether anyone but this process's user, root, and those to whom the mode `wanted` gives
/// that access can read or change a regular file.
pub(crate) fn exposes(there: &Stat, wanted: Mode) -> bool {
    let is_of_others = ![0, geteuid().as_raw()].contains(&there.st_uid);
    is_of_others || gives_more(permissions(there), wanted)
}

/// Returns whether a regular file's mode gives its group or others read or write access that the
/// mode `wanted` does not.
pub(crate) fn gives_more(there: Mode, wanted: Mode) -> bool {
    let access = Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    there.intersects(access & !wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reading_and_writing_by_others_is_more() {
        let mode = Mode::from_raw_mode;
        for (there, wanted, is_more) in [
            (0o600, 0o600, false),
            (0o700, 0o600, false),
            (0o755, 0o644, false),
            (0o755, 0o600, true),
            (0o640, 0o604, true),
            (0o666, 0o644, true),
            (0o400, 0o666, false),
        ] {
            assert_eq!(gives_more(mode(there), mode(wanted)), is_more, "{there:o} for {wanted:o}");
        }
    }
}
