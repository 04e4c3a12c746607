//! The scheduling class of another thread, and the end of the process, which neither `std` nor `rustix` sets.

#[cfg(target_os = "linux")]
use rustix::process::Pid;

/// Has a thread of this process run only where no other wants to, if the system allows that.
#[cfg(target_os = "linux")]
pub(super) fn run_when_idle(thread: Pid) {
    // SAFETY: `sched_param` is a plain structure of integers, for which zeros are valid, and zero is the
    // only priority that this class has.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live value of the type that the call reads and does not keep; a number
    // that is no thread's any more is refused.
    unsafe {
        libc::sched_setscheduler(
            thread.as_raw_nonzero().get(),
            libc::SCHED_IDLE,
            &raw const parameters,
        );
    }
}

/// Has a function called when the process ends, before those that were registered until now.
pub(super) fn at_exit(function: extern "C" fn()) {
    // SAFETY: the function has the type that is called, and stays as long as this library does.
    unsafe { libc::atexit(function) };
}
