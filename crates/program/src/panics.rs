//! Handling of panics.

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use crate::messages::complain;

/// Runs the program. A panic is reported in one line, without a backtrace, and gives the status of
/// failed work.
pub(crate) fn caught(program: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::set_hook(Box::new(|panic| {
        if panic.location().is_some_and(|place| place.file().ends_with(THREAD_START)) {
            complain(&"there is no memory for another thread");
            return;
        }
        let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
        complain(&format_args!("internal error{place}; this is a bug, please report it"));
    }));
    panic::catch_unwind(AssertUnwindSafe(program)).unwrap_or_else(|_| ExitCode::from(1))
}

/// The place where the standard library panics if a new thread gets no stack for signals.
const THREAD_START: &str = "/sys/pal/unix/stack_overflow.rs";
