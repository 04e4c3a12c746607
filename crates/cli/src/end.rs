//! How the process ends: with a status of the program's own, and without foreign code.

#[allow(unsafe_code)]
mod sys;

use std::io::{self, Write};
use std::process::ExitCode;

use rustix::stdio::stderr;
use signal_hook::low_level;

use crate::trouble::Trouble;

/// Has whatever calls C's `exit` from now on end the program with the status of work that was not
/// all done: a module's code must not end it with that of a success. The program itself ends by
/// [`now`] only.
pub(crate) fn refuse_foreign() {
    sys::at_exit(ended_by_others);
}

/// Ends the program. Destructors of foreign libraries, which may hang, do not run.
pub(crate) fn now(status: ExitCode) -> ! {
    let flushed = io::stdout().flush();
    let status = flushed.map_or_else(|cause| Trouble::Output(cause).tell(), |()| status);
    // The standard library does not tell a status's number.
    let number = (0..=u8::MAX).find(|&number| ExitCode::from(number) == status);
    low_level::exit(number.unwrap_or(NOT_DONE).into())
}

extern "C" fn ended_by_others() {
    // The thread may hold any lock, so nothing is asked of Rust's own standard error.
    let _ = rustix::io::write(stderr(), ENDED_BY_OTHERS);
    low_level::exit(NOT_DONE.into())
}

/// The status of work that was not all done.
const NOT_DONE: u8 = 1;

const ENDED_BY_OTHERS: &[u8] =
    b"evener: the code of an engine ended the program; not all of the work was done\n";
