//! Help with examples.

use clap::builder::Styles;
use clap::{Arg, ArgAction, Command};

/// A shell command line and its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Example {
    /// The purpose of the line.
    pub does: &'static str,
    /// The line.
    pub line: &'static str,
}

/// An example, for a table of them.
pub const fn example(does: &'static str, line: &'static str) -> Example {
    Example { does, line }
}

/// The examples of commands, by their paths, such as `evener gate reset`.
pub type Table = [(&'static str, &'static [Example])];

/// The examples of a command; none for an unknown path.
pub fn find(table: &Table, path: &str) -> &'static [Example] {
    let found = table.iter().find(|(command, _)| *command == path);
    found.map_or(&[], |(_, examples)| examples)
}

/// Gives a command and all below it help of two lengths, with examples: `-h` and `--help` fit on a
/// screen, and `--help-all` shows everything.
pub fn in_two_lengths(command: Command, path: &str, table: &'static Table) -> Command {
    let examples = find(table, path);
    let first = &examples[..examples.len().min(FIRST_EXAMPLES)];
    command
        .disable_help_flag(true)
        .args([short_help(), full_help()])
        .after_help(format!("{}\n{}", listed(first), more(path)))
        .after_long_help(listed(examples))
        .mut_subcommands(|below| {
            let path = format!("{path} {}", below.get_name());
            in_two_lengths(below, &path, table)
        })
}

fn short_help() -> Arg {
    Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::HelpShort)
        .help("Print this help")
        .help_heading(None::<&str>)
        .display_order(LAST)
}

fn full_help() -> Arg {
    Arg::new("help-all")
        .long("help-all")
        .action(ArgAction::HelpLong)
        .help("Print help for all options, in detail")
        .help_heading(None::<&str>)
        .display_order(LAST)
}

fn more(path: &str) -> String {
    let (program, command) = path.split_once(' ').unwrap_or((path, ""));
    let page = command.replace(' ', "-");
    format!("`{path} --help-all` shows every option, `{program} man {page}` the manual page.")
}

/// Examples under their heading, as help shows them.
pub fn listed(examples: &[Example]) -> String {
    let lines = examples.iter().map(|Example { does, line }| format!("  {does}:\n    {line}\n"));
    section("Examples", &lines.collect::<String>())
}

/// Text under a heading, as help shows it.
pub fn section(heading: &str, text: &str) -> String {
    let styles = Styles::styled();
    let style = styles.get_header();
    format!("{style}{heading}:{style:#}\n{text}")
}

/// The last line of a program's help.
pub fn further(program: &str) -> String {
    format!(
        "`{program} COMMAND --help` explains a command, `{program} man` prints the manual page."
    )
}

/// A command and all commands below it, with their paths, such as `evener gate reset`.
pub fn commands(command: &Command, path: &str) -> Vec<(String, Command)> {
    let below = command
        .get_subcommands()
        .flat_map(|below| commands(below, &format!("{path} {}", below.get_name())));
    std::iter::once((path.to_owned(), command.clone())).chain(below).collect()
}

/// The names of a program's manual pages besides its own, such as `gate-reset`.
pub fn pages(program: &Command) -> Vec<String> {
    let name = program.get_name();
    let paths = commands(program, name).into_iter();
    paths
        .filter_map(|(path, _)| Some(path.strip_prefix(name)?.trim().replace(' ', "-")))
        .skip(1)
        .collect()
}

/// The number of examples in short help.
const FIRST_EXAMPLES: usize = 3;

/// The display order of options after all others.
const LAST: usize = 999;

/// Checks of a program's help, for its tests. They panic if it is wrong.
pub mod checks {
    use clap::Command;

    use super::{Example, Table, commands};

    /// Checks that every command has examples, that the program reads them, and that they show the
    /// command.
    pub fn examples(program: &Command, tables: &[&Table]) {
        let name = program.get_name();
        let known = commands(program, name);
        for (path, examples) in tables.iter().copied().flatten() {
            assert!(known.iter().any(|(command, _)| command == path), "{path} is no command");
            assert!(!examples.is_empty(), "{path}");
            for Example { line, .. } in *examples {
                let calls = calls(name, line);
                for call in &calls {
                    let parsed = program.clone().try_get_matches_from(call);
                    assert!(parsed.is_ok(), "{path}: {line}: {}", parsed.unwrap_err());
                }
            }
            let own = examples.iter().any(|example| example.line.contains(path));
            assert!(own, "no example of {path} shows it");
        }
        for (path, _) in known {
            let found = tables.first().is_some_and(|table| !super::find(table, &path).is_empty());
            assert!(found, "{path} has no examples");
        }
    }

    /// Checks that no line is wider than a terminal.
    pub fn width(program: &Command) {
        for (path, command) in commands(program, program.get_name()) {
            let mut command = command.term_width(80);
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                // Some of the words that can't be broken are long.
                let too_wide = |line: &&str| line.chars().count() > 80;
                assert_eq!(help.lines().find(too_wide), None, "{path}");
            }
        }
    }

    /// Checks that the short help of every command fits on a screen.
    pub fn height(program: &Command) {
        for (path, command) in commands(program, program.get_name()) {
            let help = command.term_width(80).render_help().to_string();
            assert!(help.lines().count() <= SCREEN_LINES, "{path}: {help}");
        }
    }

    /// The most lines of short help, at 80 columns.
    const SCREEN_LINES: usize = 45;

    /// The calls of the program in a shell command line, split into words.
    fn calls<'a>(program: &str, line: &'a str) -> Vec<Vec<&'a str>> {
        line.split(['|', '(', ')'])
            .map(|call| {
                let words = call.split_whitespace().filter(|word| *word != "\\");
                words.take_while(|word| !word.starts_with(['<', '>'])).collect::<Vec<_>>()
            })
            .filter(|words| words.first() == Some(&program))
            .collect()
    }
}
