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

/// Whether a process has this one's process group. A group has no number here, but 0, where its leader is
/// outside of this process namespace, as in a container that has no init.
pub(super) fn is_of_this_group(process: Pid) -> bool {
    // SAFETY: they ask the system for numbers.
    unsafe { libc::getpgid(process.as_raw_nonzero().get()) == libc::getpgid(0) }
}
