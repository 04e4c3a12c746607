//! The text of help, the manual page and completions.

use clap::Command;
use clap::builder::PossibleValuesParser;
use evener_cli::help::{further, in_two_lengths, listed, section};

use crate::examples::{EXAMPLES, examples};

/// The program's command line, with help for people.
pub(crate) fn with_help(program: Command) -> Command {
    let text = format!("{}\n{}", listed(examples(NAME)), further(NAME));
    in_two_lengths(program, NAME, EXAMPLES)
        .mut_subcommand("man", |man| {
            let pages = PossibleValuesParser::new(MANUAL);
            man.mut_arg("command", |arg| arg.value_parser(pages).hide_possible_values(true))
        })
        .after_help(text.clone())
        .after_long_help(format!("{text}\n\n{}", section("Exit status", EXIT_STATUS)))
}

pub(crate) const NAME: &str = "evener-lab";

pub(crate) const EXIT_STATUS: &str = "\
0: everything was measured. 1: a benchmark failed, and printed no report, with --json neither;
or runs of `bench module` were beyond its bound. 2: wrong usage, or no GPU to measure. 130: interrupted.
";

/// The names of the manual pages other than that of the program itself.
const MANUAL: [&str; 15] = [
    "bench",
    "bench-tree",
    "bench-messages",
    "bench-threads",
    "bench-processes",
    "bench-policies",
    "bench-background",
    "bench-module",
    "bench-gpu",
    "bench-tls",
    "speed",
    "simulate",
    "chart",
    "completions",
    "man",
];

#[cfg(test)]
mod tests {
    use evener_cli::help::{checks, pages};

    use super::*;
    use crate::arguments::program;

    #[test]
    fn no_two_options_have_one_name() {
        program().debug_assert();
    }

    #[test]
    fn every_command_has_a_page_in_the_manual() {
        assert_eq!(pages(&program()), MANUAL);
    }

    #[test]
    fn help_is_as_wide_as_a_terminal() {
        checks::width(&program());
    }

    #[test]
    fn every_command_has_examples_that_can_be_typed() {
        checks::examples(&program(), &[EXAMPLES]);
    }
}
