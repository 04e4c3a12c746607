//! The content of help, the manual page and completions: the same command line, arranged in pages.
//!
//! Options are declared beside the code that uses them (`options/`, `commands/`). This module only
//! arranges them: the options for plain use come first, and those of engines, policies and the gate
//! are on a page of their own, which `--help-engines` shows.

mod examples;

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use evener_cli::help::{further, listed, section};

pub(crate) use examples::{engine_examples, examples};

/// The options of a command that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// All but those of engines, policies and the gate: `--help`.
    Usual,
    /// Only those: `--help-engines`.
    Engines,
    /// Everything: the manual page and completions.
    All,
}

impl Page {
    /// The page for the help that these words ask for.
    pub(crate) fn asked_for(typed: &[OsString]) -> Page {
        let mut options = typed.iter().take_while(|word| *word != "--");
        match options.any(|word| word.to_str() == Some("--help-engines")) {
            true => Page::Engines,
            false => Page::Usual,
        }
    }
}

/// The program's command line with help for people.
pub(crate) fn with_help(program: Command, page: Page) -> Command {
    let text = format!("{}\n{}", listed(examples("evener")), further("evener"));
    program
        .mut_subcommands(|command| arranged(command, "evener", page))
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

/// A command and its subcommands, with their options on pages and with examples.
fn arranged(command: Command, parent: &str, page: Page) -> Command {
    let path = format!("{parent} {}", command.get_name());
    let has_engines = command.get_arguments().any(is_of_engines);
    let examples = listed(examples(&path));
    // These options are refused: decryption deletes nothing, encryption makes no holes, and a list
    // has no links.
    let refused: &[&str] = match &*path {
        "evener decrypt" => &["delete", "delete_unmounted", "yes"],
        "evener encrypt" => &["sparse"],
        "evener list" => &["follow_symlinks"],
        _ => &[],
    };
    let is_hidden = |arg: &Arg| refused.contains(&arg.get_id().as_str());
    let placed = |arg: Arg| {
        let is_hidden = is_hidden(&arg);
        let arg = placed(arg, page);
        if is_hidden { arg.hide(true) } else { arg }
    };
    let command = match (has_engines, page) {
        (true, Page::Engines) => only_engines(command, &path),
        (true, _) => command
            .mut_args(placed)
            .arg(help_engines())
            .after_help(format!("{examples}\n{}", more_help(&path))),
        (false, _) => command.mut_args(placed).after_help(examples),
    };
    command.mut_subcommands(|below| arranged(below, &path, page))
}

/// An option with its place in the help.
fn placed(arg: Arg, page: Page) -> Arg {
    if is_of_engines(&arg) {
        return arg.hide(page == Page::Usual);
    }
    let place = PLAIN.iter().position(|name| arg.get_long() == Some(name));
    match (place, arg.get_help_heading()) {
        (Some(place), Some(_)) => arg.help_heading(None::<&str>).display_order(place),
        _ => arg,
    }
}

/// The page of `--help-engines`.
fn only_engines(command: Command, path: &str) -> Command {
    command
        .mut_args(|arg| {
            let is_shown = is_of_engines(&arg) || arg.is_positional();
            arg.hide(!is_shown)
        })
        .arg(help_engines())
        .about(format!("Options of `{path}` for engines, policies and the gate"))
        .long_about(None::<&str>)
        .after_help(listed(engine_examples(path)))
}

fn is_of_engines(arg: &Arg) -> bool {
    arg.get_help_heading().is_some_and(|heading| ENGINE_HEADINGS.contains(&heading))
}

fn help_engines() -> Arg {
    Arg::new("help-engines")
        .long("help-engines")
        .action(ArgAction::HelpLong)
        .help("Print help for the options of engines, policies and the gate")
        .display_order(AFTER_HELP)
}

fn more_help(path: &str) -> String {
    format!("`{path} --help-engines` shows the options of engines, policies and the gate.")
}

/// The options for plain use, in the order of the help.
const PLAIN: [&str; 9] = [
    "key",
    "recipient",
    "identity",
    "passphrase",
    "resume",
    "overwrite",
    "dry-run",
    "exclude",
    "quiet",
];

/// The names of the manual's pages besides that of the program itself.
const MANUAL: [&str; 17] = [
    "keygen",
    "encrypt",
    "decrypt",
    "verify",
    "list",
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

/// The headings whose options have a page of their own.
const ENGINE_HEADINGS: [&str; 3] = ["Engines", "Policies", "Gate"];

/// The display order after `--help`, which has 999.
const AFTER_HELP: usize = 1000;

pub(crate) const MEMORY: &str = "\
The workers' buffers take 64 MiB by default (--memory), and the whole program stays below 256 MiB \
whatever the size of the files. Wrapping a key with a passphrase takes 256 MiB for about a second \
before the first file, and so does opening it. A key that another program wrapped takes up to \
1 GiB and four times as long (age does more work on faster machines). At most 4 wrapped keys are \
tried with a passphrase.
";

pub(crate) const EXIT_STATUS: &str = "\
0: everything is done. 1: some files failed (each is named on standard error, and all others are \
done), the options selected no file of a tree, or a tree held nothing at all (neither a file, a \
link nor a directory), as where a disk is not mounted. 2: wrong usage or wrong key. 130: interrupted.
";

#[cfg(test)]
mod tests {
    use evener_cli::help::{checks, pages};

    use super::*;
    use crate::arguments::program;

    fn help(page: Page, name: &str) -> String {
        let mut program = program(page);
        program.find_subcommand_mut(name).unwrap().render_long_help().to_string()
    }

    #[test]
    fn options_of_engines_are_on_their_own_page() {
        for name in ["encrypt", "decrypt", "verify"] {
            let (usual, engines) = (help(Page::Usual, name), help(Page::Engines, name));
            for option in ["--engine <", "--policy <", "--gate <", "--permits <", "--profile <"] {
                assert!(!usual.contains(option), "{name}: {option}\n{usual}");
                assert!(engines.contains(option), "{name}: {option}\n{engines}");
                assert!(help(Page::All, name).contains(option), "{name}: {option}");
            }
            for option in ["--key <", "--exclude <", "--max-cpu <"] {
                assert!(usual.contains(option), "{name}: {option}\n{usual}");
                assert!(!engines.contains(option), "{name}: {option}\n{engines}");
            }
            assert!(usual.contains("--help-engines"), "{usual}");
        }
    }

    #[test]
    fn plain_options_come_first() {
        let help = help(Page::Usual, "encrypt");
        let (_, options) = help.split_once("\nOptions:\n").unwrap();
        let (plain, further) = options.split_once("\n\nKeys:\n").unwrap();
        let place = |name: &str| plain.find(&format!("--{name}")).expect(name);
        assert!(PLAIN.is_sorted_by_key(|name| place(name)), "{plain}");
        assert!(plain.find("--help-engines") > plain.find("--help "), "{plain}");
        assert!(!further.contains("\n      --resume"), "{further}");
    }

    #[test]
    fn pages_are_chosen_by_words_that_are_options() {
        let page =
            |words: &[&str]| Page::asked_for(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(page(&["encrypt", "--help-engines"]), Page::Engines);
        assert_eq!(page(&["encrypt", "--help"]), Page::Usual);
        assert_eq!(page(&["encrypt", "--", "--help-engines"]), Page::Usual);
    }

    #[test]
    fn every_command_has_a_page_in_the_manual() {
        assert_eq!(pages(&program(Page::All)), MANUAL);
    }

    #[test]
    fn help_is_as_wide_as_a_terminal() {
        for page in [Page::Usual, Page::Engines] {
            checks::width(&program(page));
        }
    }
}
