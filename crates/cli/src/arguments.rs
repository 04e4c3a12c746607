//! The command line, parsed.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{Command as CommandLine, FromArgMatches, Parser, Subcommand};
use evener::Report;

use crate::commands::{
    Bench, Completions, Decrypt, Encrypt, Engines, Gate, Keygen, List, Man, Simulate, Speed, Tls,
    Verify,
};
use crate::end;
use crate::help::{self, Page};
use crate::run::print_json;
use crate::trouble::{Trouble, complain};

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
    Bench(Bench),
    Simulate(Simulate),
    Completions(Completions),
    Man(Man),
}

/// Parses the command line. Prints help and ends the program where help was asked for. A usage
/// error is reported, with `--json` in a document too, and ends the program.
pub(crate) fn parse() -> Result<Arguments, Trouble> {
    let mut words = env::args_os();
    let name = words.next().unwrap_or_default();
    let typed = asking_for_help(words.collect());
    let mut program = help::program(Page::asked_for(&typed));
    let mut error = match read(&mut program, &name, &typed) {
        Ok(arguments) => return Ok(arguments),
        Err(error) => error,
    };
    // The nearest of a hundred ciphers says more than all of them.
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
        && values.len() > MANY_VALUES
    {
        error.remove(ContextKind::ValidValue);
    }
    let options = typed.iter().take_while(|word| *word != "--");
    if error.use_stderr() && options.into_iter().any(|word| word == "--json") {
        let is_command = |word: &&OsString| program.find_subcommand(word).is_some();
        let mut report = Report::default();
        if let Some(command) = typed.first().filter(is_command).and_then(|word| word.to_str()) {
            command.clone_into(&mut report.operation);
        }
        report.failures.push(Trouble::Usage(in_one_line(&error)).as_failure());
        print_json(&report)?;
    }
    match error.to_string().strip_prefix(PREFIX) {
        Some(text) => {
            complain(&text.trim_end());
            end::now(ExitCode::from(WRONG_USAGE))
        }
        // Help or the version.
        None => {
            let printed = error.print().and_then(|()| io::stdout().flush());
            end::now(match printed {
                Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(WRONG_USAGE)),
                Err(cause) => Trouble::Output(cause).tell(),
            })
        }
    }
}

/// Reads `help COMMAND` as `COMMAND --help`, so that a mistyped command gets a suggestion.
fn asking_for_help(mut typed: Vec<OsString>) -> Vec<OsString> {
    if typed.first().is_some_and(|word| word == "help") {
        typed.remove(0);
        typed.push("--help".into());
    }
    typed
}

fn read(
    program: &mut CommandLine,
    name: &OsString,
    typed: &[OsString],
) -> Result<Arguments, clap::Error> {
    let matches = program.try_get_matches_from_mut(std::iter::once(name).chain(typed))?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(program))
}

/// The error alone, without the hints after it.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_prefix(PREFIX).unwrap_or(&text).to_owned()
}

/// How clap begins its errors.
const PREFIX: &str = "error: ";

const WRONG_USAGE: u8 = 2;

/// More values of an option than an error lists.
const MANY_VALUES: usize = 40;

impl Command {
    /// Whether the command handles keys of the user's.
    pub(crate) fn holds_keys(&self) -> bool {
        use Command::{Decrypt, Encrypt, Keygen, List, Verify};
        matches!(self, Keygen(_) | Encrypt(_) | Decrypt(_) | Verify(_) | List(_))
    }
}

#[cfg(test)]
mod tests {
    use crate::help::{Page, program};

    #[test]
    fn no_two_options_have_one_name() {
        for page in [Page::Usual, Page::Engines, Page::All] {
            program(page).debug_assert();
        }
    }
}
