//! Asking before outputs are deleted.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use crate::progress;
use crate::summary::count;
use crate::trouble::{complain, shown};

/// Whether there is somebody to ask.
pub(crate) fn can_be_asked() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on the terminal whether these outputs are to be deleted. Anything but `y` or `yes` is no.
pub(crate) fn is_wanted(outputs: &[PathBuf]) -> bool {
    progress::clear_bar();
    for output in outputs.iter().take(SHOWN) {
        complain(&format_args!("{}: its source has gone", shown(output)));
    }
    if outputs.len() > SHOWN {
        complain(&format_args!("and {} more (--dry-run names all)", outputs.len() - SHOWN));
    }
    let number = count(outputs.len() as u64, "output");
    let _ = write!(io::stderr().lock(), "evener: delete {number}? [y/N] ");
    let mut answer = String::new();
    // Where nothing can be read, nobody has agreed.
    io::stdin().read_line(&mut answer).is_ok() && is_yes(&answer)
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// How many names a question shows.
const SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        assert!(is_yes("y\n") && is_yes("Yes") && is_yes(" Y \n"));
        for answer in ["", "\n", "n", "no", "yes please", "yn"] {
            assert!(!is_yes(answer), "{answer}");
        }
    }
}
