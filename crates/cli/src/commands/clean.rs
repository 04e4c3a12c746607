//! `evener clean`

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evener::sealed_trees::{CleanOptions, Cleaned};

use crate::document::with_failures;
use crate::options::{Output, Signing, TreeOptions, values};
use crate::sealed::Tree;
use crate::signals::Signals;
use crate::summary::{count, size};
use crate::trouble::{Ending, Trouble};

/// Remove old generations of a sealed tree, and what killed runs have left
///
/// Without --keep and --keep-within, all generations stay. What a generation that stays needs is
/// never removed; if one can't be read whole, nothing is. Files that are younger than a day, or than
/// a run that is at work, stay too: a later `evener clean` removes them.
#[derive(Args)]
pub(crate) struct Clean {
    #[command(flatten)]
    tree: TreeOptions,
    #[command(flatten)]
    signing: Signing,
    /// Keep so many generations, the newest ones
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Keep the generations of this time before now, such as 30d or 12h
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    keep_within: Option<Duration>,
    /// Take this run for one that is no more; repeatable
    ///
    /// Each run has a file in TREE/writers while it is at work, so that its files are spared.
    /// One that was killed on another machine leaves it there
    #[arg(long, value_name = "NAME")]
    abandon: Vec<String>,
    /// Show what would be removed, and remove nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Sealed tree
    #[arg(value_name = "TREE")]
    path: PathBuf,
}

impl Clean {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let mut tree = Tree::find(&self.path, self.tree, self.output.quiet, signals)?;
        tree.sealed.signer = self.signing.signer(signals)?;
        let usual = if self.keep_within.is_some() { 1 } else { u64::MAX };
        let clean = CleanOptions {
            keep: self.keep.unwrap_or(usual),
            keep_within: self.keep_within.map(|time| time.as_secs()),
            abandon: self.abandon,
            dry_run: self.dry_run,
        };
        let cleaned = tree.evener.clean_tree(&tree.place(), &clean, &tree.sealed)?;
        if self.output.json {
            with_failures(&cleaned)?;
        } else if !self.output.quiet {
            let lines = lines(&cleaned, self.dry_run);
            let print = |out: &mut dyn Write| lines.iter().try_for_each(|it| writeln!(out, "{it}"));
            print(&mut io::stdout().lock()).map_err(Trouble::Output)?;
        }
        Ok(Ending::Done)
    }
}

fn lines(cleaned: &Cleaned, is_dry_run: bool) -> Vec<String> {
    let Cleaned { removed, files, bytes, spared, writers, generation, .. } = cleaned;
    let verb = if is_dry_run { "would remove" } else { "removed" };
    let mut line = format!("{verb} {}", count(removed.len() as u64, "generation"));
    line.push_str(&format!(", {}, {}", count(*files, "file"), size(*bytes as f64)));
    if *spared > 0 {
        line.push_str(&format!("; {spared} spared, which are young"));
    }
    if let Some(generation) = generation {
        line.push_str(&format!("; generation {generation} says so"));
    }
    let writer = |(name, age): &(String, i64)| {
        format!(
            "a run has been at work for {age} s, or was killed: --abandon {name} if it was killed"
        )
    };
    [line].into_iter().chain(writers.iter().map(writer)).collect()
}
