//! Completion scripts for shells.

use std::io::{self, Write};

use clap::Command;
pub use clap_complete::Shell;

/// Prints the completion script of a program on standard output.
///
/// # Errors
/// When standard output can't be written to.
pub fn print(shell: Shell, program: &mut Command) -> io::Result<()> {
    io::stdout().lock().write_all(script(shell, program).as_bytes())
}

fn script(shell: Shell, program: &mut Command) -> String {
    let name = program.get_name().to_owned();
    // For a program with `-` in its name, the bash generator gives functions two different names.
    let plain = match shell {
        Shell::Bash => name.replace('-', "_"),
        _ => name.clone(),
    };
    // The generator panics if it can't write.
    let mut script = Vec::new();
    clap_complete::generate(shell, program, &plain, &mut script);
    let script = String::from_utf8_lossy(&script);
    script.replace(&format!("default {plain}\n"), &format!("default {name}\n"))
}
