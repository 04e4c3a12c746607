//! The name of each file, with `-v` and in a dry run.

use std::io::{self, Write};
use std::path::Path;

use evener::FileOutcome;

use super::bar;
use crate::options::Telling;
use crate::trouble::shown;

/// Selects the files that are shown, and their wording.
pub(super) struct Shown {
    /// The words for what is done, and for what would be.
    verbs: [&'static str; 2],
    is_dry_run: bool,
    /// True if files that are left unchanged are shown too.
    shows_all: bool,
}

impl Shown {
    /// Returns `None` if no file is to be shown.
    pub(super) fn wanted(
        verbs: [&'static str; 2],
        is_dry_run: bool,
        telling: &Telling,
    ) -> Option<Shown> {
        let is_wanted = telling.verbose || is_dry_run && !telling.json;
        let shows_all = telling.verbose;
        (is_wanted && !telling.quiet).then_some(Shown { verbs, is_dry_run, shows_all })
    }

    /// Shows a file. Calls from several threads print whole lines.
    pub(super) fn tell(&self, path: &Path, outcome: FileOutcome) {
        let Some(words) = self.words(outcome) else { return };
        let mut terminal = io::stderr().lock();
        // The progress line makes room; it is drawn again below.
        let clear = if bar::has_room() { bar::CLEAR } else { "" };
        // Does nothing if standard error is closed.
        let _ = terminal.write_all(format!("{clear}evener: {words} {}\n", shown(path)).as_bytes());
    }

    fn words(&self, outcome: FileOutcome) -> Option<String> {
        let [done, to_do] = self.verbs;
        let either = |done: &str, to_do: &str| match self.is_dry_run {
            true => format!("would {to_do}"),
            false => done.to_owned(),
        };
        match outcome {
            FileOutcome::Done => Some(either(done, to_do)),
            FileOutcome::Updated => Some(either("updated", "update")),
            FileOutcome::Linked => Some(either("linked", "link")),
            FileOutcome::Skipped => self.shows_all.then(|| "complete already:".to_owned()),
            FileOutcome::Unchanged => self.shows_all.then(|| "unchanged:".to_owned()),
            // A dry run says of each file that it would be deleted.
            FileOutcome::Deleted => (!self.is_dry_run).then(|| "deleted".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_tells_what_it_would_do() {
        let shown = |is_dry_run, shows_all| {
            let verbs = ["encrypted", "encrypt"];
            let shown = Shown { verbs, is_dry_run, shows_all };
            use FileOutcome::{Deleted, Done, Unchanged, Updated};
            [Done, Updated, Unchanged, Deleted].map(|outcome| shown.words(outcome))
        };
        let words =
            |words: [&str; 4]| words.map(|word| (!word.is_empty()).then(|| word.to_owned()));
        assert_eq!(shown(true, false), words(["would encrypt", "would update", "", ""]));
        let all = words(["encrypted", "updated", "unchanged:", "deleted"]);
        assert_eq!(shown(false, true), all);
    }
}
