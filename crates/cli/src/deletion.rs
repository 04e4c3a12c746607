//! Asking before outputs are deleted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;

use evener::format::Guess;
use evener_cli::streams;

use crate::hints;
use crate::progress;
use crate::summary::count;
use crate::trouble::{complain, shown};

/// Returns whether there is a user to ask.
pub(crate) fn can_be_asked() -> bool {
    streams::input().is_terminal() && io::stderr().is_terminal()
}

/// Asks on the terminal whether to delete these outputs. Anything but `y` or `yes` means no.
pub(crate) fn is_wanted(outputs: &[PathBuf]) -> bool {
    progress::clear_bar();
    for output in outputs.iter().take(SHOWN) {
        complain(&format_args!("{}: its source has gone", shown(output)));
    }
    if outputs.len() > SHOWN {
        complain(&format_args!("and {} more (--dry-run names all)", outputs.len() - SHOWN));
    }
    if outputs.iter().any(|output| hints::guess(output) == Some(Guess::Age)) {
        complain(&"age files do not show who made them, and the identity opens these");
    }
    let number = numbers(outputs);
    let _ = write!(io::stderr().lock(), "evener: delete {number}? [y/N] ");
    let mut answer = String::new();
    // If nothing can be read, nobody has agreed.
    let input = streams::input().try_clone_to_owned().map(File::from).map(BufReader::new);
    input.and_then(|mut input| input.read_line(&mut answer)).is_ok() && is_yes(&answer)
}

/// `3 outputs and 1 directory`: a directory's path ends in a slash.
fn numbers(outputs: &[PathBuf]) -> String {
    let is_directory = |path: &&PathBuf| path.as_os_str().as_encoded_bytes().ends_with(b"/");
    let directories = outputs.iter().filter(is_directory).count();
    let files = count((outputs.len() - directories) as u64, "output");
    match directories {
        0 => files,
        1 => format!("{files} and 1 directory"),
        many => format!("{files} and {many} directories"),
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// The number of names that a question shows.
const SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_and_directories_are_counted_apart() {
        let paths = |names: &[&str]| numbers(&names.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(paths(&["a"]), "1 output");
        assert_eq!(paths(&["a", "d/b", "d/"]), "2 outputs and 1 directory");
        assert_eq!(paths(&["d/", "d/e/"]), "0 outputs and 2 directories");
    }

    #[test]
    fn only_yes_is_yes() {
        assert!(is_yes("y\n") && is_yes("Yes") && is_yes(" Y \n"));
        for answer in ["", "\n", "n", "no", "yes please", "yn"] {
            assert!(!is_yes(answer), "{answer}");
        }
    }
}
