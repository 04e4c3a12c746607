//! Forked processes, their resource usage, and shared words.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Runs `life` in a forked process, which then ends, successfully if `life` returns true. Returns
/// the child's process id.
///
/// The calling process must have one thread.
///
/// # Errors
/// Those of `fork`, such as too many processes.
pub(super) fn fork(life: impl FnOnce() -> bool) -> io::Result<libc::pid_t> {
    // SAFETY: the caller has one thread, so the child is a full copy, in which no missing thread
    // holds a lock, and may run any code.
    let id = unsafe { libc::fork() };
    if id == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(life));
        // SAFETY: `_exit` ends the process at once, without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!outcome.unwrap_or(false))) };
    }
    if id < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

/// Waits for a child until the deadline. Returns whether it succeeded, and its context switches;
/// `None` if it has not ended.
///
/// # Errors
/// Those of `pidfd_open`, `poll` and `wait4`.
pub(super) fn wait_until(id: libc::pid_t, deadline: Instant) -> io::Result<Option<(bool, u64)>> {
    let child = Pid::from_raw(id).ok_or(io::ErrorKind::InvalidInput)?;
    // The child has not been waited for, so no other process has its id.
    let child = pidfd_open(child, PidfdFlags::empty())?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&child, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(None),
            Ok(_) => return wait(id).map(Some),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for a child. Returns whether it succeeded, and its context switches.
///
/// # Errors
/// Those of `wait4`.
pub(super) fn wait(id: libc::pid_t) -> io::Result<(bool, u64)> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both pointers are to writable memory that outlives the call, which retains
        // neither.
        if unsafe { libc::wait4(id, &raw mut status, 0, usage.as_mut_ptr()) } == id {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: all zeros is a valid `rusage`, a struct of integers.
    let usage = unsafe { usage.assume_init() };
    let switches = u64::try_from(usage.ru_nvcsw + usage.ru_nivcsw).unwrap_or(0);
    Ok((libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, switches))
}

/// Kills a child and waits for it.
pub(super) fn kill(id: libc::pid_t) {
    // SAFETY: `kill` takes no pointers. The child has not been waited for, so no other process has
    // its id.
    unsafe { libc::kill(id, libc::SIGKILL) };
    let _ = wait(id);
}

/// Words that this process shares with its forked children.
pub(super) struct SharedWords {
    start: *mut AtomicU64,
    count: usize,
}

impl SharedWords {
    /// Maps `count` words, all 0; `count` is at least one.
    ///
    /// # Errors
    /// Those of `mmap`.
    pub(super) fn new(count: usize) -> io::Result<SharedWords> {
        // SAFETY: a new mapping at an address of the kernel's choice does not touch existing
        // memory.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                count * size_of::<AtomicU64>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )
        }?;
        Ok(SharedWords { start: start.cast(), count })
    }

    pub(super) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `count` words, zeroed at first and aligned to a page, until
        // `self` is dropped. Atomics may change under a shared reference.
        unsafe { std::slice::from_raw_parts(self.start, self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this range, and nothing borrows from it any longer.
        let _ =
            unsafe { rustix::mm::munmap(self.start.cast(), self.count * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;
    use std::time::Duration;

    #[test]
    fn a_child_that_does_not_end_is_not_waited_for() {
        let child = fork(|| {
            std::thread::sleep(Duration::from_secs(60));
            true
        })
        .unwrap();
        assert!(wait_until(child, Instant::now()).unwrap().is_none());
        kill(child);
        let child = fork(|| true).unwrap();
        let ended = wait_until(child, Instant::now() + Duration::from_secs(60)).unwrap();
        assert!(ended.unwrap().0);
    }

    #[test]
    fn a_child_shares_words_and_is_waited_for() {
        let shared = SharedWords::new(1).unwrap();
        let word = &shared.words()[0];
        let child = fork(|| {
            word.store(7, SeqCst);
            true
        });
        assert!(wait(child.unwrap()).unwrap().0);
        assert_eq!(word.load(SeqCst), 7);
        assert!(!wait(fork(|| false).unwrap()).unwrap().0);
    }
}
