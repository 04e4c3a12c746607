//! Ends the process with the program's own status, without running foreign code.

#[allow(unsafe_code)]
mod sys;

use std::io::{self, Write};
use std::process::ExitCode;

use rustix::stdio::stderr;
use signal_hook::low_level;

use crate::messages;

/// Makes any call of C's `exit` end the program with the status of failed work: a module's code
/// must not end it with a success. The program itself ends only by [`now`].
pub fn refuse_foreign() {
    sys::at_exit(ended_by_others);
}

/// Ends the program without running destructors of foreign libraries, which may hang.
pub fn now(status: ExitCode) -> ! {
    let status = match io::stdout().flush() {
        // Any other status was reported already, and so was what could not be written.
        Err(cause) if status == ExitCode::SUCCESS => messages::output_failed(&cause),
        _ => status,
    };
    // The standard library does not expose a status' number.
    let number = (0..=u8::MAX).find(|&number| ExitCode::from(number) == status);
    low_level::exit(number.unwrap_or(NOT_DONE).into())
}

extern "C" fn ended_by_others() {
    // The thread may hold any lock, so Rust's standard error can't be used.
    for part in [messages::name().as_bytes(), ENDED_BY_OTHERS] {
        let _ = rustix::io::write(stderr(), part);
    }
    low_level::exit(NOT_DONE.into())
}

/// The status of failed work.
const NOT_DONE: u8 = 1;

const ENDED_BY_OTHERS: &[u8] =
    b": the code of an engine ended the program; not all of the work was done\n";
