//! Ends the process with the program's own status, without running foreign code.

#[allow(unsafe_code)]
mod sys;

use std::io::{self, IoSlice, Write};
use std::process::ExitCode;

use rustix::stdio::stderr;
use signal_hook::low_level;

use crate::messages;

/// Makes any call of C's `exit` end the program with the status of failed work: a module's code
/// must not end it with a success. The program itself ends only by [`now`].
///
/// What libraries have registered later is called before. A program that has modules defines C's
/// `exit` itself, as [`by_others`]; this is for calls that do not come there, as those of `err`.
pub fn refuse_foreign() {
    sys::at_exit(ended_at_exit);
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

/// Ends the program where the code of an engine does, at once: other threads are still inside of
/// libraries, whose destructors must not run.
pub fn by_others() -> ! {
    // The thread may hold any lock, so Rust's standard error can't be used.
    let line = [messages::name().as_bytes(), ENDED_BY_OTHERS].map(IoSlice::new);
    let _ = rustix::io::writev(stderr(), &line);
    low_level::exit(NOT_DONE.into())
}

extern "C" fn ended_at_exit() {
    by_others()
}

/// The status of failed work.
const NOT_DONE: u8 = 1;

const ENDED_BY_OTHERS: &[u8] =
    b": the code of an engine ended the program; not all of the work was done\n";
