//! Ends the process with the program's own status, without running foreign code.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use evener_core::IgnorePoison;
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level;

use crate::messages;
use crate::sys::{self, output, output_file};
use crate::witness::{self, Ending};

/// Ends the program without running destructors of foreign libraries, which may hang.
pub fn now(status: ExitCode) -> ! {
    let status = match io::stdout().flush() {
        // Any other status was reported already, and so was the failed output.
        Err(cause) if status == ExitCode::SUCCESS => output_failed(&cause),
        _ => status,
    };
    // The standard library does not expose a status' number.
    let number = (0..=u8::MAX).find(|&number| ExitCode::from(number) == status);
    with(number.unwrap_or(NOT_DONE))
}

/// Like [`now`], on any thread, without checking the printed output.
pub fn with(status: u8) -> ! {
    let document = DOCUMENT.lock().ignore_poison();
    announce(Ending::Status(status), &document);
    leave(status)
}

/// Like [`with`], for a signal handler: with this document instead of the stored one, and without
/// taking a lock or allocating. Returns if the program is already ending.
pub fn at_once(status: u8, document: &[u8]) {
    if !witness::is_there() && !document.is_empty() {
        // The program ends even if this fails.
        let _ = rustix::io::write(output(), document);
    }
    if witness::say(Ending::Status(status), document) {
        leave(status);
    }
}

/// Ends this process. With a witness, it first releases the standard streams: a module's threads
/// may get no core to end on for a while, and readers of the output would wait that long.
fn leave(status: u8) -> ! {
    if witness::is_there() {
        sys::let_go();
        // Nor should the process keep a file system busy.
        let _ = rustix::process::chdir(c"/");
    }
    low_level::exit(status.into())
}

/// Prints a document on standard output. A witness, if there is one, prints it once it knows that
/// the work was done.
///
/// # Errors
/// When it can't be written.
pub fn print_document(text: &str) -> io::Result<()> {
    if witness::is_there() {
        DOCUMENT.lock().ignore_poison().extend(text.as_bytes());
        return Ok(());
    }
    output_file()?.write_all(text.as_bytes())
}

/// Reports an error of standard output and returns the exit status. If the reader of standard
/// output has gone, the program ends without a message, like other programs.
pub fn output_failed(error: &io::Error) -> ExitCode {
    if error.kind() == io::ErrorKind::BrokenPipe {
        end_by_broken_pipe();
    }
    messages::complain(&messages::words_of_output(error));
    ExitCode::FAILURE
}

/// Ends the program as the signal for writing to a pipe without a reader would.
pub fn end_by_broken_pipe() {
    announce(Ending::Signal(SIGPIPE as u8), &[]);
    // Returns only if the signal can't be raised; then the caller ends the program.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
}

/// Tells the witness, if there is one, how the program ends now. Does not return if another thread
/// ends the program.
fn announce(ending: Ending, document: &[u8]) {
    while !witness::say(ending, document) {
        thread::park();
    }
}

/// The document that the witness is to print.
static DOCUMENT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The status of failed work.
const NOT_DONE: u8 = 1;
