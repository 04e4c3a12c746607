//! What can be typed.

use std::env;
use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use evener::Report;

use crate::commands::{
    Bench, Completions, Decrypt, Encrypt, Engines, Gate, Keygen, List, Man, Simulate, Speed, Tls,
    Verify,
};
use crate::run::print_json;
use crate::trouble::Trouble;

/// Encrypts files, trees and pipes with every crypto engine of the machine at once.
#[derive(Parser)]
#[command(name = "evener", version, after_help = AFTER_HELP, disable_help_subcommand = true)]
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

/// What was typed. Ends the program where help was asked for, and where it can't be understood,
/// which with `--json` is told in a document too.
pub(crate) fn parse() -> Result<Arguments, Trouble> {
    let error = match Arguments::try_parse() {
        Ok(arguments) => return Ok(arguments),
        Err(error) => error,
    };
    let typed: Vec<OsString> = env::args_os().skip(1).collect();
    let options = typed.iter().take_while(|word| *word != "--");
    if error.use_stderr() && options.into_iter().any(|word| word == "--json") {
        let known = Arguments::command();
        let is_command = |word: &&OsString| known.find_subcommand(word).is_some();
        let mut report = Report::default();
        if let Some(command) = typed.first().filter(is_command).and_then(|word| word.to_str()) {
            command.clone_into(&mut report.operation);
        }
        report.failures.push(Trouble::Usage(in_one_line(&error)).as_failure());
        print_json(&report)?;
    }
    error.exit()
}

/// What is wrong, without the hints that come after it.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

impl Command {
    /// Whether the command handles keys of the user's.
    pub(crate) fn holds_keys(&self) -> bool {
        use Command::{Decrypt, Encrypt, Keygen, List, Verify};
        matches!(self, Keygen(_) | Encrypt(_) | Decrypt(_) | Verify(_) | List(_))
    }
}

const AFTER_HELP: &str = "\
Memory: the workers' buffers take 64 MiB by default (--memory), and the whole program stays \
below 256 MiB whatever the size of the files. Making a key that is wrapped with a passphrase takes \
256 MiB on its own for about a second, before the files are begun, and so does opening it. One that \
another program wrapped (age does more work on faster machines) takes up to 1 GiB and four times as \
long. At most 4 wrapped keys are tried with a passphrase.

Exit status: 0 all done; 1 some files could not be done (each is named on standard error, the \
others are done), or none of a tree's files was to be decrypted or verified; 2 wrong usage or key; 130 interrupted.";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_two_options_have_one_name() {
        super::Arguments::command().debug_assert();
    }
}
