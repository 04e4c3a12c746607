//! Messages on standard error.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::OnceLock;

use evener::program::{shown_error, shown_text};

use crate::sys::stdout_was_closed;

/// Prints a message with the program's name as prefix. Control characters are escaped, because the
/// message may contain text of a device. Does nothing if standard error is closed.
pub fn complain(text: &dyn Display) {
    print_line(&format_args!("{}: {}", name(), shown_text(&text.to_string())));
}

/// Prints a line on standard error with one call, so that the lines of several processes in one log
/// stay whole.
pub fn print_line(text: &dyn Display) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

/// The message for an error of standard output.
pub fn words_of_output(error: &io::Error) -> String {
    let words = if stdout_was_closed() { "it is closed".to_owned() } else { shown_error(error) };
    format!("can't write to standard output: {words}")
}

/// Sets the program's name, once.
pub(crate) fn set_name(name: &'static str) {
    let _ = NAME.set(name);
}

/// The program's name.
pub(crate) fn name() -> &'static str {
    NAME.get().copied().unwrap_or("evener")
}

static NAME: OnceLock<&'static str> = OnceLock::new();
