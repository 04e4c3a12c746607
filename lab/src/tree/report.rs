//! The benchmark's report.

use std::fmt;

use serde::Serialize;

use super::memory::BOUND_MIB;
use super::place::Place;
use super::rounds::Turn;
use super::walk::Listing;
use super::{ContenderFacts, MemoryRow, TreeName, TreeOptions, Workload};
use crate::chart::{Bar, Chart, Panel};
use crate::process::Cost;
use crate::statistics::median;
use crate::{LabError, Machine};

/// The benchmark's report. Its JSON is the document that `--json` prints, its [`Display`] a table.
///
/// [`Display`]: fmt::Display
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TreeReport {
    /// The machine.
    pub machine: Machine,
    /// The intended number of turns of each contender.
    pub rounds: u32,
    /// The seconds after which a contender took part in no further round.
    pub budget_seconds: u64,
    /// The contenders other than `cp -r`.
    pub contenders: Vec<ContenderFacts>,
    /// The file systems of the places.
    pub places: Vec<PlaceFacts>,
    /// The contents of the trees.
    pub trees: Vec<TreeFacts>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Evener's memory on the largest trees.
    pub memory: Vec<MemoryRow>,
    /// Contenders and places that took no part, with the reason.
    pub skipped: Vec<Skipped>,
}

/// A directory where trees were built.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PlaceFacts {
    /// The place's name, as in the rows.
    pub place: &'static str,
    /// The kernel's name of the file system.
    pub file_system: String,
}

/// The content of a tree at a place.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TreeFacts {
    /// The tree's name, as in the rows.
    pub tree: String,
    /// The place's name, as in the rows.
    pub place: &'static str,
    /// Its description.
    pub description: String,
    /// Regular files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// The figures of one contender for one operation on one tree.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The tree's name.
    pub tree: String,
    /// `tmpfs` or `disk`.
    pub place: &'static str,
    /// The contender.
    pub contender: &'static str,
    /// `copy`, `encrypt` or `decrypt`.
    pub operation: &'static str,
    /// Wall time of the program in each round in which it took part, from the first.
    pub seconds: Vec<f64>,
    /// Their median.
    pub seconds_median: f64,
    /// The median of the rounds' ratios to the time of `cp -r` in the same round.
    pub ratio_to_cp: f64,
    /// Peak resident set in any round; of several processes, that of the largest.
    pub peak_rss_mib: f64,
    /// The number of rounds in which the contender took part.
    pub rounds: usize,
    /// The bytes of the tree's plaintext divided by the median time, in MiB a second.
    pub mib_per_second: f64,
}

/// A contender or place that took no part.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Skipped {
    /// Its name.
    pub what: String,
    /// The reason.
    pub reason: String,
}

impl Skipped {
    pub(super) fn new(what: impl fmt::Display, error: &LabError) -> Skipped {
        Skipped { what: what.to_string(), reason: error.to_string() }
    }
}

impl TreeReport {
    pub(super) fn new(options: &TreeOptions) -> TreeReport {
        TreeReport {
            machine: Machine::look(),
            rounds: options.rounds,
            budget_seconds: options.budget,
            contenders: Vec::new(),
            places: Vec::new(),
            trees: Vec::new(),
            rows: Vec::new(),
            memory: Vec::new(),
            skipped: Vec::new(),
        }
    }

    pub(super) fn add_place(&mut self, place: &Place) {
        let file_system = place.file_system.clone();
        self.places.push(PlaceFacts { place: place.name, file_system });
    }

    pub(super) fn add_tree(
        &mut self,
        place: &Place,
        name: TreeName,
        workload: &Workload,
        listing: &Listing,
    ) -> TreeFacts {
        let facts = TreeFacts {
            tree: name.to_string(),
            place: place.name,
            description: workload.to_string(),
            files: listing.files.len(),
            bytes: listing.bytes,
        };
        self.trees.push(facts.clone());
        facts
    }

    /// A chart of the ratios to `cp -r`, as an SVG document.
    pub fn to_svg(&self) -> String {
        let panels = self.trees.iter().map(|tree| Panel {
            title: format!("{} on {}: {}", tree.tree, tree.place, tree.description),
            bars: self.rows_of(tree).filter(|row| row.operation != "copy").map(Bar::from).collect(),
        });
        Chart {
            title: "Time to encrypt and decrypt a tree, as a multiple of cp -r".to_owned(),
            subtitle: format!("{}; rounds: {}, medians", self.machine, self.rounds),
            reference: "cp -r".to_owned(),
            panels: panels.collect(),
        }
        .to_svg()
    }

    fn rows_of(&self, tree: &TreeFacts) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.tree == tree.tree && row.place == tree.place)
    }
}

impl Row {
    pub(super) fn of_copy(tree: &TreeFacts, copies: &[Cost]) -> Row {
        let turns: Vec<Turn> = copies.iter().map(|&cost| Turn { cost, copy: cost.wall }).collect();
        Row::new(tree, "cp -r", "copy", &turns)
    }

    /// The row of a contender that had at least one turn.
    pub(super) fn of_turns(
        tree: &TreeFacts,
        contender: &ContenderFacts,
        operation: &'static str,
        turns: &[Turn],
    ) -> Option<Row> {
        (!turns.is_empty()).then(|| Row::new(tree, contender.name, operation, turns))
    }

    fn new(
        tree: &TreeFacts,
        contender: &'static str,
        operation: &'static str,
        turns: &[Turn],
    ) -> Row {
        let seconds = |turn: &Turn| turn.cost.wall.as_secs_f64();
        let ratio = |turn: &Turn| seconds(turn) / turn.copy.as_secs_f64();
        let median_of = |value: &dyn Fn(&Turn) -> f64| {
            median(&turns.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        let peak = turns.iter().map(|turn| turn.cost.peak).max().unwrap_or(0);
        let seconds_median = median_of(&seconds);
        Row {
            tree: tree.tree.clone(),
            place: tree.place,
            contender,
            operation,
            seconds: turns.iter().map(seconds).collect(),
            seconds_median,
            ratio_to_cp: median_of(&ratio),
            peak_rss_mib: peak as f64 / 1024.0,
            rounds: turns.len(),
            mib_per_second: tree.bytes as f64 / f64::from(1 << 20) / seconds_median,
        }
    }
}

impl From<&Row> for Bar {
    fn from(row: &Row) -> Bar {
        Bar {
            label: format!("{} {}", row.contender, row.operation),
            value: row.ratio_to_cp,
            emphasised: row.contender == "evener",
        }
    }
}

impl fmt::Display for TreeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        for place in &self.places {
            writeln!(f, "{}: {}", place.place, place.file_system)?;
        }
        for contender in &self.contenders {
            writeln!(f, "{}: {}; {}", contender.name, contender.version, contender.usage)?;
        }
        writeln!(
            f,
            "Rounds: {}, medians below; after {} s on a tree a contender did no further round.",
            self.rounds, self.budget_seconds
        )?;
        for tree in &self.trees {
            writeln!(f, "\n{} on {}: {}", tree.tree, tree.place, tree.description)?;
            writeln!(
                f,
                "  {:<14}{:<9}{:>9}{:>9}{:>12}{:>10}{:>8}",
                "contender", "operation", "seconds", "MiB/s", "ratio to cp", "peak MiB", "rounds"
            )?;
            for row in self.rows_of(tree) {
                writeln!(f, "{row}")?;
            }
        }
        if !self.memory.is_empty() {
            writeln!(f, "\nevener's peak resident set; it is to stay below {BOUND_MIB} MiB")?;
        }
        for MemoryRow { tree, operation, seconds, peak_rss_mib } in &self.memory {
            writeln!(f, "  {tree:<44}{operation:<9}{seconds:>9.3} s{peak_rss_mib:>9.1} MiB")?;
        }
        for Skipped { what, reason } in &self.skipped {
            writeln!(f, "skipped: {what}: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {:<14}{:<9}{:>9.3}{:>9.0}{:>12.2}{:>10.1}{:>8}",
            self.contender,
            self.operation,
            self.seconds_median,
            self.mib_per_second,
            self.ratio_to_cp,
            self.peak_rss_mib,
            self.rounds
        )
    }
}
