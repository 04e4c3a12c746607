//! Completion scripts for shells.

use std::io::{self, Write};

use clap::Command;
pub use clap_complete::Shell;

/// Prints the completion script of a program on standard output.
///
/// # Errors
/// When standard output can't be written to.
pub fn print(shell: Shell, program: &mut Command) -> io::Result<()> {
    let name = program.get_name().to_owned();
    // The generator panics where it can't write.
    let mut script = Vec::new();
    clap_complete::generate(shell, program, name, &mut script);
    io::stdout().lock().write_all(&script)
}
