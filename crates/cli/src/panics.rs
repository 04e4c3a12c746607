//! Bugs.

use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use crate::trouble::complain;

/// Runs the program; a bug is reported in a line, without a backtrace, and ends it with the
/// status of work that was not all done.
pub(crate) fn caught(program: impl FnOnce() -> ExitCode) -> ExitCode {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
        complain(&format_args!("internal error{place}; this is a bug, please report it"));
    }));
    panic::catch_unwind(AssertUnwindSafe(program)).unwrap_or_else(|_| ExitCode::from(1))
}
