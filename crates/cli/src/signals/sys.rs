//! Ending the program inside a signal handler.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGABRT;
use signal_hook::low_level;

use super::Farewell;

/// Makes `signal` end the program at once with `farewell`'s report, while `at_once` is true.
pub(super) fn end_by(
    signal: i32,
    at_once: Arc<AtomicBool>,
    farewell: Arc<Farewell>,
) -> io::Result<()> {
    let action = move || {
        if at_once.load(Ordering::SeqCst) {
            farewell.end();
        }
    };
    // SAFETY: a handler may do only what is safe at any instruction of any thread. This one loads
    // and swaps atomics (`OnceLock::get` is a load too), and makes the system calls `write`,
    // `fstat`, `open`, `dup2`, `chdir`, `nanosleep` and `_exit`, which are safe there
    // (signal-safety(7) lists all but `nanosleep`), through rustix, the standard library and
    // signal-hook; it takes no lock, allocates and frees no memory, and can't unwind.
    unsafe { low_level::register(signal, action) }.map(drop)
}

/// Makes SIGABRT end the program with `status`, and with `line` on standard error.
pub(super) fn end_by_abort(status: u8, line: &'static [u8]) -> io::Result<()> {
    let action = move || {
        let _ = rustix::io::write(rustix::stdio::stderr(), line);
        low_level::exit(status.into());
    };
    // SAFETY: as above: this makes the system calls `write` and `_exit`, and nothing else.
    unsafe { low_level::register(SIGABRT, action) }.map(drop)
}
