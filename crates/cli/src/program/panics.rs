//! Handling of panics.

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::messages::complain;

/// Runs the program. A panic on any thread is reported in one line, without a backtrace, and rules
/// out a success status.
pub(crate) fn caught(program: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::set_hook(Box::new(|panic| {
        if panic.location().is_some_and(|place| place.file().ends_with(THREAD_START)) {
            complain(&"there is no memory for another thread");
            return;
        }
        HAS_PANICKED.store(true, Ordering::SeqCst);
        let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
        complain(&format_args!("internal error{place}; this is a bug, please report it"));
    }));
    let failed = ExitCode::from(1);
    let status = panic::catch_unwind(AssertUnwindSafe(program)).unwrap_or(failed);
    let is_success = status == ExitCode::SUCCESS;
    if is_success && HAS_PANICKED.load(Ordering::SeqCst) { failed } else { status }
}

/// Set once an internal error has occurred.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// The file of the standard library that panics if a new thread gets no stack for signals.
const THREAD_START: &str = "/sys/pal/unix/stack_overflow.rs";

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn an_error_of_any_thread_is_no_success() {
        let broken = || {
            assert!(thread::spawn(|| panic!("on purpose")).join().is_err());
            ExitCode::SUCCESS
        };
        assert_eq!(caught(broken), ExitCode::from(1));
        drop(panic::take_hook());
    }
}
