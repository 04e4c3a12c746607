//! The command line, parsed.

use std::ffi::OsString;

use clap::{Command as CommandLine, CommandFactory, Parser, Subcommand};
use evener::Report;
use evener_program::arguments::{Typed, end_with, in_one_line};

use crate::commands::{
    Completions, Decrypt, Encrypt, Engines, Gate, Keygen, List, Man, Speed, Tls, Verify,
};
use crate::help::{self, Page};
use crate::run::print_json;
use crate::trouble::Trouble;

/// Encrypts files, trees and pipes with every crypto engine of the machine at once.
#[derive(Parser)]
#[command(name = "evener", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Each command's own help is with its options.
#[derive(Subcommand)]
pub(crate) enum Command {
    Keygen(Keygen),
    Encrypt(Box<Encrypt>),
    Decrypt(Box<Decrypt>),
    Verify(Box<Verify>),
    List(Box<List>),
    Engines(Engines),
    Speed(Box<Speed>),
    Gate(Gate),
    Tls(Tls),
    Completions(Completions),
    Man(Man),
}

/// The program's command line, with help.
pub(crate) fn program(page: Page) -> CommandLine {
    help::with_help(Arguments::command(), page)
}

/// Parses the command line. Prints help and ends the program where help was asked for. A usage
/// error is reported, with `--json` in a document too, and ends the program.
pub(crate) fn parse() -> Result<Arguments, Trouble> {
    let typed = Typed::here();
    let mut program = program(Page::asked_for(&typed.words));
    let error = match typed.read(&mut program) {
        Ok(arguments) => return Ok(arguments),
        Err(error) => error,
    };
    let mut options = typed.words.iter().take_while(|word| *word != "--");
    if error.use_stderr() && options.any(|word| word == "--json") {
        let is_command = |word: &&OsString| program.find_subcommand(word).is_some();
        let mut report = Report::default();
        let command = typed.words.first().filter(is_command);
        if let Some(command) = command.and_then(|word| word.to_str()) {
            command.clone_into(&mut report.operation);
        }
        let sentence = in_one_line(&error);
        report.failures.push(Trouble::Usage(sentence).as_failure());
        print_json(&report)?;
    }
    end_with(&error)
}

impl Command {
    /// Whether the command handles keys of the user's.
    pub(crate) fn holds_keys(&self) -> bool {
        use Command::{Decrypt, Encrypt, Keygen, List, Verify};
        matches!(self, Keygen(_) | Encrypt(_) | Decrypt(_) | Verify(_) | List(_))
    }
}

#[cfg(test)]
mod tests {
    use super::program;
    use crate::help::Page;

    #[test]
    fn no_two_options_have_one_name() {
        for page in [Page::Usual, Page::Engines, Page::All] {
            program(page).debug_assert();
        }
    }
}
