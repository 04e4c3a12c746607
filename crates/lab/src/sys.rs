//! Waits for a child and reads its resource usage, which `std` does not offer.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

/// Waits for `child` and returns its exit status and peak resident set in KiB: that of the
/// child, or of the largest of the processes that it started and waited for.
///
/// The kernel counts what the child was between fork and exec too, so that the figure is at
/// least the resident set of the calling process.
///
/// # Errors
/// Those of `wait4`.
pub(crate) fn wait_with_peak(child: Child) -> io::Result<(ExitStatus, u64)> {
    // A process id is positive and fits; `Child` keeps it as `u32` only for Windows' sake.
    let id = child.id() as libc::pid_t;
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: `status` and `usage` are writable and outlive the call, which keeps neither
        // pointer. `id` is a child of ours that nobody has waited for: `child` is owned here,
        // and `std` reaps a child only through a method of its `Child`.
        let waited = unsafe { libc::wait4(id, &raw mut status, 0, usage.as_mut_ptr()) };
        if waited == id {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: all zeros is a valid `rusage`, a struct of integers, so it was initialised even
    // before `wait4` wrote to it.
    let usage = unsafe { usage.assume_init() };
    Ok((ExitStatus::from_raw(status), u64::try_from(usage.ru_maxrss).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn status_and_peak_are_the_childs() {
        let child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        let (status, peak) = wait_with_peak(child).unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(peak > 0);
    }
}
