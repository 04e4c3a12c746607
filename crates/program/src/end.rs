//! Ends the process with the program's own status, without running foreign code.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use evener_core::IgnorePoison;
use signal_hook::low_level;

use crate::messages;
use crate::sys::{self, output, output_file};
use crate::witness::{self, Ending};

/// Ends the program without running destructors of foreign libraries, which may hang.
pub fn now(status: ExitCode) -> ! {
    let status = match io::stdout().flush() {
        // Any other status was reported already, and so was what could not be written.
        Err(cause) if status == ExitCode::SUCCESS => messages::output_failed(&cause),
        _ => status,
    };
    // The standard library does not expose a status' number.
    let number = (0..=u8::MAX).find(|&number| ExitCode::from(number) == status);
    with(number.unwrap_or(NOT_DONE))
}

/// As [`now`], on any thread, without looking at what was printed.
pub fn with(status: u8) -> ! {
    let document = DOCUMENT.lock().ignore_poison();
    announce(Ending::Status(status), &document);
    leave(status)
}

/// As [`with`], in a signal handler: with this document instead of any other, and without a lock or memory.
/// Returns where the program is ending already.
pub fn at_once(status: u8, document: &[u8]) {
    if !witness::is_there() && !document.is_empty() {
        // The program ends all the same.
        let _ = rustix::io::write(output(), document);
    }
    if witness::say(Ending::Status(status), document) {
        leave(status);
    }
}

/// Ends this process. Threads of modules may get no core to end on for a while: as long the readers of its
/// output would wait.
fn leave(status: u8) -> ! {
    if witness::is_there() {
        sys::let_go();
        // Nor is it to keep a file system busy.
        let _ = rustix::process::chdir(c"/");
    }
    low_level::exit(status.into())
}

/// Prints a document on standard output; if the program has a witness, when that knows that the work
/// was done.
///
/// # Errors
/// Those of writing it.
pub fn print_document(text: &str) -> io::Result<()> {
    if witness::is_there() {
        DOCUMENT.lock().ignore_poison().extend(text.as_bytes());
        return Ok(());
    }
    output_file()?.write_all(text.as_bytes())
}

/// Tells the witness, if there is one, how the program ends now. Does not return where another thread
/// ends it.
pub(crate) fn announce(ending: Ending, document: &[u8]) {
    while !witness::say(ending, document) {
        thread::park();
    }
}

/// What the witness is to print.
static DOCUMENT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The status of failed work.
const NOT_DONE: u8 = 1;
