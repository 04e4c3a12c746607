//! Scheduling classes of threads, and CPU clocks that other threads can read; neither `std` nor
//! `rustix` has them.

use std::io;
use std::time::Duration;

/// Makes the calling thread run only when no other thread wants to (`SCHED_IDLE`), or, if that is
/// refused, as batch work (`SCHED_BATCH`).
///
/// # Errors
/// When both are refused.
#[cfg(target_os = "linux")]
pub(crate) fn run_when_idle() -> io::Result<()> {
    let classes = [libc::SCHED_IDLE, libc::SCHED_BATCH];
    let set = |class: &libc::c_int| {
        // SAFETY: `sched_param` is a plain structure of integers, for which zeros are valid, and
        // zero is the only priority that these classes have.
        let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live value of the type that the call reads and does not
        // keep; 0 is the calling thread.
        unsafe { libc::sched_setscheduler(0, *class, &raw const parameters) == 0 }
    };
    if classes.iter().any(set) { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a low-priority thread of this process the main thread's scheduling class.
///
/// # Errors
/// When it is refused: without privileges the resource limit `RLIMIT_NICE` decides.
#[cfg(target_os = "linux")]
pub(crate) fn run_as_usual(thread: i32) -> io::Result<()> {
    let main = std::process::id().cast_signed();
    // SAFETY: the call takes any number, and no pointer.
    let class = |thread| unsafe { libc::sched_getscheduler(thread) };
    let usual = class(main);
    if class(thread) == usual || ![libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&usual) {
        return Ok(());
    }
    // SAFETY: `sched_param` is a plain structure of integers, for which zeros are valid, and zero
    // is the only priority that these classes have.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the type that the call reads and does not keep; a
    // number that no longer belongs to a thread is refused.
    match unsafe { libc::sched_setscheduler(thread, usual, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Elsewhere threads keep their class.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(crate) fn run_when_idle() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A thread's clock of CPU time, for other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread, if the system has one.
    pub(crate) fn of_this_thread() -> Option<ThreadClock> {
        let mut clock = 0;
        // SAFETY: the thread is the calling one, which is alive, and the pointer is to a live value of the
        // type that the call writes.
        let result = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        (result == 0).then_some(ThreadClock(clock))
    }

    /// The CPU time that the thread has used so far; zero if it has ended.
    pub(crate) fn read(self) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a live value of the type that the call writes; a clock that no
        // longer exists is refused, and the time stays zero.
        unsafe { libc::clock_gettime(self.0, &raw mut time) };
        Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), time.tv_nsec as u32)
    }
}
