//! A second process of the same program.

use std::io;

use rustix::process::Pid;

/// Forks. Returns the child to the parent, and nothing to the child.
///
/// The calling process must have one thread.
///
/// # Errors
/// Those of `fork`, such as too many processes.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the caller has one thread, so the child is a full copy that may run any code: no lock
    // in it is held by a thread that it lacks.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        process => Ok(Pid::from_raw(process)),
    }
}

/// Returns whether a process is in this one's process group. A group's number is 0 here if its
/// leader is outside this PID namespace, as in a container without an init.
pub(super) fn is_of_this_group(process: Pid) -> bool {
    // SAFETY: the calls only ask the system for numbers.
    unsafe { libc::getpgid(process.as_raw_nonzero().get()) == libc::getpgid(0) }
}
