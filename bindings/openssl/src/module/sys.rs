//! Threads that receive no signals.

use std::mem::MaybeUninit;
use std::ptr;

/// Calls `start`. Threads that it starts receive none of the program's signals, whose handlers
/// expect the program's own threads.
pub(super) fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets are filled before they are used. The calls could refuse only an unknown
    // first argument, and `SIG_SETMASK` is known.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = start();
    // SAFETY: as above.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
    }
    started
}
