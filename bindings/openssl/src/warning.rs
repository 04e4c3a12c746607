//! Warnings in the log of the program that loads the provider.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a message on standard error, where a program's log begins. Prints nothing at the end of
/// the process, since failures then come from that end.
pub(crate) fn warn(text: &dyn Display) {
    if evener_engines::process_ends() {
        return;
    }
    let _ = writeln!(io::stderr(), "evener: provider: {text}");
}
