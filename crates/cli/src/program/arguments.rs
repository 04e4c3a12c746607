//! Reading the command line.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, FromArgMatches};
use evener::program::shown;

use crate::end::{self, output_failed};
use crate::messages::complain;

/// The words of the command line.
pub struct Typed {
    program: OsString,
    /// The words after the program's name. `help COMMAND` is replaced by `COMMAND --help`, so that
    /// a mistyped command gets a suggestion.
    pub words: Vec<OsString>,
}

impl Typed {
    /// The command line of this process.
    pub fn here() -> Typed {
        let mut words = env::args_os();
        let program = words.next().unwrap_or_default();
        let mut words: Vec<_> = words.collect();
        if words.first().is_some_and(|word| word == "help") {
            words.remove(0);
            words.push("--help".into());
        }
        Typed { program, words }
    }

    /// Reads the words as `command` defines them.
    ///
    /// # Errors
    /// For wrong usage, and when help or the version was asked for.
    pub fn read<A: FromArgMatches>(&self, command: &mut Command) -> Result<A, clap::Error> {
        let words = std::iter::once(&self.program).chain(&self.words);
        let read = command.try_get_matches_from_mut(words).and_then(|matches| {
            A::from_arg_matches(&matches).map_err(|error| error.format(command))
        });
        read.map_err(|mut error| {
            // The nearest of a hundred ciphers tells more than the whole list.
            if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue)
                && values.len() > MANY_VALUES
            {
                error.remove(ContextKind::ValidValue);
            }
            if error.kind() == ErrorKind::InvalidUtf8 {
                let is_other = |word: &&OsString| word.to_str().is_none();
                let words = self.words.iter().filter(is_other).map(|word| shown(word).to_string());
                let words = words.collect::<Vec<_>>().join(" or ");
                error.insert(ContextKind::InvalidArg, ContextValue::String(words));
            }
            error
        })
    }
}

/// Prints a usage error, or the help or version that was asked for, and ends the program.
pub fn end_with(error: &clap::Error) -> ! {
    if let Some(sentence) = in_one_sentence(error) {
        complain(&sentence);
        end::now(ExitCode::from(WRONG_USAGE))
    }
    match error.to_string().strip_prefix(PREFIX) {
        Some(text) => {
            complain(&with_plain_range(text.trim_end()));
            end::now(ExitCode::from(WRONG_USAGE))
        }
        // Help or the version.
        None => {
            let printed = error.print().and_then(|()| io::stdout().flush());
            end::now(match printed {
                Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(WRONG_USAGE)),
                Err(cause) => output_failed(&cause),
            })
        }
    }
}

/// Describes clashing options, and empty or missing values, in a sentence that says what to do
/// about them, without usage lines.
fn in_one_sentence(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => Some(texts.join(" and ")),
        _ => None,
    };
    let option = text(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::ArgumentConflict => Some(match text(ContextKind::PriorArg)? {
            other if other == option => format!("{option} is given twice; give it once"),
            other => format!("{option} and {other} exclude each other; leave one of them out"),
        }),
        ErrorKind::InvalidValue
            if text(ContextKind::InvalidValue)?.is_empty()
                && !matches!(error.get(ContextKind::ValidValue),
                    Some(ContextValue::Strings(values)) if !values.is_empty()) =>
        {
            Some(format!("{option} has no value; give it one that is not empty, or leave it out"))
        }
        ErrorKind::InvalidUtf8 => {
            Some(format!("{option} is not UTF-8; only the names of files may be something else"))
        }
        _ => None,
    }
}

/// Returns the error alone, without the hints after it.
pub fn in_one_line(error: &clap::Error) -> String {
    if let Some(sentence) = in_one_sentence(error) {
        return sentence;
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let text = lines.collect::<Vec<_>>().join(" ");
    with_plain_range(text.strip_prefix(PREFIX).unwrap_or(&text))
}

/// Replaces a numeric range, which clap writes in Rust's syntax, by a phrase.
fn with_plain_range(text: &str) -> String {
    let in_words = || {
        let (before, behind) = text.split_once(" is not in ")?;
        let end = behind.find(char::is_whitespace).unwrap_or(behind.len());
        let (range, after) = behind.split_at(end);
        let (from, to) = range.split_once("..")?;
        Some(match to.strip_prefix('=').unwrap_or(to) {
            "" => format!("{before} is less than {from}{after}"),
            to => format!("{before} is not from {from} to {to}{after}"),
        })
    };
    let text = in_words().unwrap_or_else(|| text.to_owned());
    NUMBERS.iter().fold(text, |text, (of_rust, plain)| text.replace(of_rust, plain))
}

/// Errors of numbers as Rust words them, and in plain words.
const NUMBERS: [(&str, &str); 3] = [
    ("invalid digit found in string", "not a whole number"),
    ("number too large to fit in target type", "too large"),
    ("number too small to fit in target type", "too small"),
];

/// The exit status of wrong usage.
pub const WRONG_USAGE: u8 = 2;

/// The prefix of clap's errors.
const PREFIX: &str = "error: ";

/// The largest number of values that an error lists for an option.
const MANY_VALUES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_told_in_words() {
        assert_eq!(with_plain_range("0 is not in 1..=100\n\nTry"), "0 is not from 1 to 100\n\nTry");
        assert_eq!(with_plain_range("x: 0 is not in 1.."), "x: 0 is less than 1");
        let of_rust = "nine".parse::<u8>().unwrap_err();
        assert_eq!(with_plain_range(&format!("x: {of_rust}")), "x: not a whole number");
        for other in ["it is not in the tree", "is not in ", ""] {
            assert_eq!(with_plain_range(other), other);
        }
    }
}
