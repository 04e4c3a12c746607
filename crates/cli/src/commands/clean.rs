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

/// Remove old generations of a sealed tree, and leftovers of killed runs
///
/// Without --keep and --keep-within, Evener keeps all generations. With both, it keeps a generation
/// that either of them keeps. It never removes a file that a kept generation needs; if it can't
/// read a kept generation whole, it removes nothing. It also keeps files that are younger than a
/// day, or than a run that is still at work: a later `evener clean` removes them.
#[derive(Args)]
pub(crate) struct Clean {
    #[command(flatten)]
    tree: TreeOptions,
    #[command(flatten)]
    signing: Signing,
    /// Keep the newest N generations that differ [default: all; 1 with --keep-within]
    ///
    /// Generations with the same content, such as those that `evener clean` makes, count as one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Keep the generations that are not older than TIME, such as 30d or 12h
    ///
    /// The units are s, m, h and d; a number alone is in seconds
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    keep_within: Option<Duration>,
    /// Treat this run as ended; repeatable
    ///
    /// Each run has a file in TREE/writers while it is at work, and `evener clean` keeps the files
    /// that it may need. A run that was killed on another machine leaves its file behind. `evener
    /// clean` shows the NAME to give
    #[arg(long, value_name = "NAME")]
    abandon: Vec<String>,
    /// Show what Evener would remove, and remove nothing
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
        let cleaned = tree.evener.clean_tree(&tree.place()?, &clean, &tree.sealed)?;
        if self.output.json {
            with_failures(&cleaned, &[])?;
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
        let held = if writers.is_empty() { "" } else { ", or than the oldest run below" };
        line.push_str(&format!("; {spared} kept because they are younger than a day{held}"));
    }
    if let Some(generation) = generation {
        line.push_str(&format!("; recorded in generation {generation}"));
    }
    let writer = |(name, age): &(String, i64)| {
        format!(
            "a run has been at work for {age} s, or was killed; if it was killed, give --abandon \
             {name}"
        )
    };
    [line].into_iter().chain(writers.iter().map(writer)).collect()
}
