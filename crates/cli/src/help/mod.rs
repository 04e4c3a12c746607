//! The content of help, the manual page and completions: the same command line, arranged.
//!
//! Options are declared beside the code that uses them (`options/`, `commands/`). This module only
//! arranges them: the short help of commands with many options shows those for plain use.

mod examples;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use evener_cli::help::{further, in_two_lengths, listed, section};

pub(crate) use examples::examples;

/// The program's command line with help for people.
pub(crate) fn with_help(program: Command) -> Command {
    let text = format!("{}\n{}", listed(examples("evener")), further("evener"));
    in_two_lengths(program.mut_subcommands(arranged), "evener", examples::ALL)
        .mut_subcommand("man", |man| {
            let pages = PossibleValuesParser::new(MANUAL);
            man.mut_arg("command", |arg| arg.value_parser(pages).hide_possible_values(true))
        })
        .after_help(text.clone())
        .after_long_help(format!(
            "{text}\n\n{}\n{}",
            section("Memory", MEMORY),
            section("Exit status", EXIT_STATUS)
        ))
}

/// A command, and all below it, with the options for plain use first if it has many options.
fn arranged(command: Command) -> Command {
    let command = command.mut_subcommands(arranged);
    if command.get_arguments().count() <= MANY_OPTIONS {
        return command;
    }
    // These options are refused: decryption deletes nothing, encryption makes no holes, and a list
    // has no links.
    let refused: &[&str] = match command.get_name() {
        "decrypt" => &["delete", "delete_unmounted", "yes"],
        "encrypt" => &["sparse"],
        "list" => &["follow_symlinks"],
        _ => &[],
    };
    command.mut_args(|arg| {
        let is_refused = refused.contains(&arg.get_id().as_str());
        placed(arg).hide(is_refused)
    })
}

/// An option with its place in the help.
fn placed(arg: Arg) -> Arg {
    let place = PLAIN.iter().position(|name| arg.get_long() == Some(name));
    match (place, arg.get_help_heading()) {
        (Some(place), Some(_)) => arg.help_heading(None::<&str>).display_order(place),
        (None, Some(_)) => arg.hide_short_help(true),
        (_, None) => arg,
    }
}

/// The options for plain use, in the order of the help.
const PLAIN: [&str; 14] = [
    "key",
    "recipient",
    "identity",
    "passphrase",
    "sealed",
    "update",
    "resume",
    "overwrite",
    "dry-run",
    "exclude",
    "only",
    "engine",
    "quiet",
    "verbose",
];

/// The number of options that short help shows without a choice.
const MANY_OPTIONS: usize = 14;

/// The names of the manual's pages besides that of the program itself.
const MANUAL: [&str; 30] = [
    "keygen",
    "encrypt",
    "decrypt",
    "verify",
    "cat",
    "list",
    "diff",
    "clean",
    "rewrap",
    "rekey",
    "signers",
    "job",
    "job-plan",
    "job-run",
    "job-status",
    "job-finish",
    "job-clean",
    "job-simulate",
    "engines",
    "speed",
    "gate",
    "gate-reset",
    "tls",
    "tls-config",
    "tls-enable",
    "tls-disable",
    "tls-check",
    "tls-status",
    "completions",
    "man",
];

pub(crate) const MEMORY: &str = "\
The workers' buffers take 64 MiB by default (--memory), and the whole program stays below 256 MiB \
whatever the size of the files. Wrapping a key with a passphrase takes 256 MiB for about a second \
before the first file, and so does opening it. A key that another program wrapped takes up to \
1 GiB and four times as long (age does more work on faster machines). At most 4 wrapped keys are \
tried with a passphrase.
";

pub(crate) const EXIT_STATUS: &str = "\
0: everything is done. 1: some files failed (standard error names each, and all others are done), the \
options selected no file of a tree, or a tree was empty (no file, link or directory), for example \
because a disk is not mounted. 2: wrong usage, a wrong key, or Evener could not begin. 130: \
interrupted. `job` also has 3 (another worker has done the shard) and 4 (DST has a file of another \
origin under the name of one of the job's); a `job` that could not reach its places ends with 1, so \
that a scheduler runs it again. `diff` and `tls check` have an exit status of their own.
";

#[cfg(test)]
mod tests {
    use evener_cli::help::{checks, pages};

    use super::*;
    use crate::arguments::program;

    #[test]
    fn short_help_shows_plain_options_and_full_help_all() {
        for name in ["encrypt", "decrypt", "verify", "list"] {
            let mut program = program();
            let command = program.find_subcommand_mut(name).unwrap();
            let (short, full) =
                (command.render_help().to_string(), command.render_long_help().to_string());
            for option in ["--key <", "--exclude <", "--help-all"] {
                assert!(short.contains(option), "{name}: {option}\n{short}");
            }
            for option in ["--include <", "--context <", "--passphrase-file <"] {
                assert!(!short.contains(option), "{name}: {option}\n{short}");
            }
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let shown = arg.get_long().map(|long| format!("--{long}"));
                assert!(shown.is_none_or(|shown| full.contains(&shown)), "{name}: {arg}\n{full}");
            }
        }
    }

    #[test]
    fn plain_options_come_first() {
        let mut program = program();
        let help = program.find_subcommand_mut("encrypt").unwrap().render_long_help().to_string();
        let (_, options) = help.split_once("\nOptions:\n").unwrap();
        let (plain, further) = options.split_once("\n\nKeys:\n").unwrap();
        let shown = PLAIN.iter().filter(|name| **name != "only");
        let places: Vec<_> =
            shown.map(|name| plain.find(&format!("--{name}")).expect(name)).collect();
        assert!(places.is_sorted(), "{plain}");
        assert!(plain.find("--help-all") > places.last().copied(), "{plain}");
        assert!(!further.contains("\n      --resume"), "{further}");
    }

    #[test]
    fn every_command_has_a_page_in_the_manual() {
        assert_eq!(pages(&program()), MANUAL);
    }

    #[test]
    fn help_fits_a_terminal() {
        checks::width(&program());
        checks::height(&program());
    }
}
