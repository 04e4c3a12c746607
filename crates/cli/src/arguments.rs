//! The command line, parsed.

use clap::{Command as CommandLine, CommandFactory, Parser, Subcommand};
use evener::Operation;
use evener_cli::arguments::{Typed, end_with, in_one_line};

use crate::commands::{
    Cat, Clean, Completions, Decrypt, Diff, Encrypt, Engines, Gate, Job, Keygen, List, Man, Rekey,
    Rewrap, Signers, Speed, Tls, Verify,
};
use crate::document::print_failure;
use crate::help;
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
    Cat(Box<Cat>),
    List(Box<List>),
    Diff(Diff),
    Clean(Clean),
    Rewrap(Rewrap),
    Rekey(Box<Rekey>),
    Signers(Signers),
    Job(Box<Job>),
    Engines(Engines),
    Speed(Box<Speed>),
    Gate(Gate),
    Tls(Tls),
    Completions(Completions),
    Man(Man),
}

/// The program's command line, with help.
pub(crate) fn program() -> CommandLine {
    help::with_help(Arguments::command())
}

/// Parses the command line. A request for help prints it and ends the program. A usage error is
/// reported, with `--json` also in a document, and ends the program.
pub(crate) fn parse() -> Result<Arguments, Trouble> {
    let typed = Typed::here();
    let mut program = program();
    let error = match typed.read(&mut program) {
        Ok(arguments) => return Ok(arguments),
        Err(error) => error,
    };
    let mut options = typed.words.iter().take_while(|word| *word != "--");
    if error.use_stderr() && options.any(|word| word == "--json") {
        let command = typed.words.first().and_then(|word| program.find_subcommand(word));
        let command = command.map_or("", CommandLine::get_name);
        print_failure(command, &Trouble::Usage(in_one_line(&error)))?;
    }
    end_with(&error)
}

impl Command {
    /// The command's name, if it prints a document that is not a report of files.
    pub(crate) fn own_document(&self) -> Option<&'static str> {
        let (name, json) = match self {
            Command::Engines(options) => ("engines", options.json),
            Command::Speed(options) => ("speed", options.json),
            Command::Gate(options) => ("gate", options.json),
            Command::List(options) => ("list", options.json),
            Command::Diff(options) => ("diff", options.output.json),
            Command::Clean(options) => ("clean", options.output.json),
            Command::Rewrap(options) => ("rewrap", options.output.json),
            Command::Signers(options) => ("signers", options.output.json),
            Command::Job(options) => ("job", options.json()),
            Command::Tls(options) => ("tls", options.json()),
            _ => return None,
        };
        json.then_some(name)
    }

    /// The command's name, if it prints a document.
    pub(crate) fn document(&self) -> Option<&'static str> {
        let (operation, telling) = match self {
            Command::Encrypt(options) => (Operation::Encrypt, &options.telling),
            Command::Rekey(options) => (Operation::Encrypt, &options.telling),
            Command::Decrypt(options) => (Operation::Decrypt, &options.telling),
            Command::Verify(options) => (Operation::Verify, &options.telling),
            _ => return self.own_document(),
        };
        telling.json.then(|| operation.name())
    }

    /// The command's engines that load foreign code.
    pub(crate) fn foreign_engines(&self) -> Vec<String> {
        match self {
            Command::Encrypt(options) => options.engines.foreign(),
            Command::Decrypt(options) => options.engines.foreign(),
            Command::Verify(options) => options.engines.foreign(),
            Command::Rekey(options) => options.engines.foreign(),
            Command::Cat(options) => options.engines.foreign(),
            Command::Job(options) => options.foreign_engines(),
            Command::Engines(options) => options.foreign_engines(),
            Command::Speed(options) => options.foreign_engines(),
            _ => Vec::new(),
        }
    }

    /// Returns whether the program is to end when its parent does.
    pub(crate) fn follows_parent(&self) -> bool {
        matches!(self, Command::Job(options) if options.follows_parent())
    }

    /// Returns whether the command handles the user's keys.
    pub(crate) fn holds_keys(&self) -> bool {
        use Command::{Completions, Engines, Gate, Man, Speed, Tls};
        !matches!(self, Engines(_) | Speed(_) | Gate(_) | Tls(_) | Completions(_) | Man(_))
    }
}

#[cfg(test)]
mod tests {
    use super::program;

    #[test]
    fn no_two_options_have_one_name() {
        program().debug_assert();
    }
}
