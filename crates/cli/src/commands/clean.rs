//! `evener clean`

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evener::sealed_trees::{CleanOptions, Cleaned};

use serde::Serialize;

use crate::document::with_failures;
use crate::metrics::Metrics;
use crate::objects::{Address, Leftovers};
use crate::options::{MetricsOptions, Output, Signing, TreeOptions, values};
use crate::sealed::{Tree, find};
use crate::signals::Signals;
use crate::stores::{Stores, at};
use crate::summary::{count, size};
use crate::trouble::{Ending, Trouble};

/// Remove old generations of a sealed tree, and leftovers of killed runs
///
/// Without --keep and --keep-within, Evener keeps all generations. With both, it keeps a generation
/// that either of them keeps. It never removes a file that a kept generation needs; if it can't
/// read a kept generation whole, it removes nothing. It also keeps files that are younger than a
/// day, or than a run that is still at work: a later `evener clean` removes them.
///
/// In an object store, Evener also aborts uploads of killed runs that received no part for a day.
/// There, TREE may also be a plain tree, which needs no key.
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
    #[command(flatten)]
    metrics: MetricsOptions,
    /// Sealed tree, or a plain tree in an object store
    #[arg(value_name = "TREE")]
    path: PathBuf,
}

impl Clean {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let metrics = Metrics::open(&self.metrics, self.output.quiet)?;
        let stores = Stores::new(&self.tree.stores);
        metrics.watch_stores(&stores);
        let address = Stores::address(self.path.as_os_str())?;
        if let Some(address) = &address
            && !find(&stores, self.path.as_os_str(), &mut self.tree.trust.clone())?
        {
            self.refuse_without_sealed(address)?;
            let leftovers = leftovers(&stores, address, self.dry_run)?;
            let document = Document { cleaned: None, leftovers: Some(&leftovers) };
            return tell(&self.output, &document, &[line(&leftovers, self.dry_run)]);
        }
        let Clean { tree, signing, keep, keep_within, abandon, dry_run, output, path, .. } = self;
        let mut tree = Tree::find(&path, tree, output.quiet, signals)?;
        metrics.watch_stores(tree.stores());
        tree.sealed.signer = signing.signer(signals)?;
        let usual = if keep_within.is_some() { 1 } else { u64::MAX };
        let clean = CleanOptions {
            keep: keep.unwrap_or(usual),
            keep_within: keep_within.map(|time| time.as_secs()),
            abandon,
            dry_run,
        };
        let cleaned = tree.evener.clean_tree(&tree.place()?, &clean, &tree.sealed)?;
        if !clean.dry_run {
            tree.retain(true)?;
        }
        let leftovers = address.map(|it| leftovers(&stores, &it, clean.dry_run)).transpose()?;
        let mut lines = lines(&cleaned, clean.dry_run);
        lines.extend(leftovers.as_ref().map(|it| line(it, clean.dry_run)));
        tell(&output, &Document { cleaned: Some(&cleaned), leftovers: leftovers.as_ref() }, &lines)
    }

    /// Refuses options that apply only to sealed trees.
    fn refuse_without_sealed(&self, address: &Address) -> Result<(), Trouble> {
        let given = [
            (self.keep.is_some(), "--keep"),
            (self.keep_within.is_some(), "--keep-within"),
            (!self.abandon.is_empty(), "--abandon"),
        ];
        match given.iter().find(|(given, _)| *given) {
            Some((_, name)) => Err(Trouble::Usage(format!(
                "{name} is for sealed trees, and {address} is not one; leave it out"
            ))),
            None => Ok(()),
        }
    }
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document<'c> {
    #[serde(flatten)]
    cleaned: Option<&'c Cleaned>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leftovers: Option<&'c Leftovers>,
}

fn tell(output: &Output, document: &Document<'_>, lines: &[String]) -> Result<Ending, Trouble> {
    if output.json {
        with_failures(document, &[])?;
    } else if !output.quiet {
        let print = |out: &mut dyn Write| lines.iter().try_for_each(|it| writeln!(out, "{it}"));
        print(&mut io::stdout().lock()).map_err(Trouble::Output)?;
    }
    Ok(Ending::Done)
}

fn leftovers(stores: &Stores, address: &Address, dry_run: bool) -> Result<Leftovers, Trouble> {
    let cleaned = stores.open(address)?.clean(DAY, dry_run);
    Ok(cleaned.map_err(|fault| at(address, fault))?)
}

/// Summarises the leftovers in an object store.
fn line(leftovers: &Leftovers, is_dry_run: bool) -> String {
    let Leftovers { uploads, probes, younger, .. } = *leftovers;
    let verb = if is_dry_run { "would abort" } else { "aborted" };
    let mut line = format!("{verb} {}", count(uploads, "unfinished upload"));
    if probes > 0 {
        let verb = if is_dry_run { "would remove" } else { "removed" };
        line.push_str(&format!("; {verb} {}", count(probes, "leftover object")));
    }
    if younger > 0 {
        line.push_str(&format!("; {younger} kept because they are younger than a day"));
    }
    line
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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
