//! Sets another thread's scheduling class, reads its CPU time, and registers exit functions, which
//! neither `std` nor `rustix` supports.

#[cfg(target_os = "linux")]
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::process::Pid;

/// Makes a thread of this process run only when no other wants to, if the system allows that.
#[cfg(target_os = "linux")]
pub(super) fn run_when_idle(thread: Pid) {
    // SAFETY: `sched_param` is a plain structure of integers, for which zeros are valid, and zero is
    // the only priority that this class has.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the type that the call reads and does not keep. The
    // call refuses a number that no longer belongs to a thread.
    unsafe {
        libc::sched_setscheduler(
            thread.as_raw_nonzero().get(),
            libc::SCHED_IDLE,
            &raw const parameters,
        );
    }
}

/// The CPU time that a thread of this process has used so far; zero if it has ended.
#[cfg(target_os = "linux")]
pub(super) fn cpu_time_of(thread: Pid) -> Duration {
    // A thread's clock of its scheduled time, computed from its number as `pthread_getcpuclockid`
    // does.
    let clock = !thread.as_raw_nonzero().get() << 3 | 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live value of the type that the call writes. The call refuses a
    // clock of another process's thread, or of none, and the time stays zero.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), time.tv_nsec as u32)
}

/// Registers a function to be called when the process ends, before those registered until now.
pub(super) fn at_exit(function: extern "C" fn()) {
    // SAFETY: the function has the type that is called, and exists as long as this library.
    unsafe { libc::atexit(function) };
}
