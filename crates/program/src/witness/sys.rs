//! A second process of the same program.

use std::io;

use rustix::process::Pid;

/// Forks; returns the other process to the one that was there, and nothing to the other.
///
/// The calling process must have one thread.
///
/// # Errors
/// Those of `fork`, such as too many processes.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the caller has one thread, so the other process is a full copy, in which no lock is held
    // by a thread that is not there, and may run any code.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        process => Ok(Pid::from_raw(process)),
    }
}
