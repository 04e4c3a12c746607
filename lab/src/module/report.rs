//! The benchmark's report.

use std::fmt;
use std::time::Duration;

use evener_pipeline::PolicyName;
use serde::Serialize;

use super::ModuleOptions;
use super::options::WorkKind;
use crate::Machine;
use crate::statistics::median;

/// The benchmark's report. Its JSON is the document that `--json` prints, its [`Display`] a table.
///
/// [`Display`]: fmt::Display
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ModuleReport {
    /// The machine.
    pub machine: Machine,
    /// The cipher of files and messages.
    pub cipher: String,
    /// The number of runs of each module.
    pub rounds: u32,
    /// The figures, one block for each piece of work.
    pub blocks: Vec<Block>,
    /// Modules that took no part, with the reason.
    pub skipped: Vec<String>,
}

/// The figures of one piece of work.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Block {
    /// The kind of the work.
    pub kind: WorkKind,
    /// The intended time of the cores alone.
    pub ms: u64,
    /// The amount of work.
    pub bytes: u64,
    /// The engine of the cores.
    pub cores: String,
    /// The cores' time alone: the median of their runs.
    pub cores_ms_median: f64,
    /// Their longest run.
    pub cores_ms_worst: f64,
    /// The time of one task on a core.
    pub task_ms: f64,
    /// The modules.
    pub rows: Vec<Row>,
}

/// The times of cores and one module together.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The module, and its troubles.
    pub module: String,
    /// The policy.
    pub policy: String,
    /// The number of runs.
    pub runs: usize,
    /// The median of their times.
    pub ms_median: f64,
    /// The longest.
    pub ms_worst: f64,
    /// The number of runs that took longer than the bound.
    pub beyond: usize,
    /// The median time of the program before and after the run; `None` for modelled modules, which
    /// are in the measuring program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside_ms: Option<f64>,
}

impl ModuleReport {
    pub(super) fn new(options: &ModuleOptions) -> ModuleReport {
        ModuleReport {
            machine: Machine::look(),
            cipher: options.cipher.to_string(),
            rounds: options.rounds,
            blocks: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// The number of runs that took longer than the bound.
    pub fn beyond(&self) -> usize {
        self.rows().map(|row| row.beyond).sum()
    }

    /// The number of runs beside a module.
    pub fn runs(&self) -> usize {
        self.rows().map(|row| row.runs).sum()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.blocks.iter().flat_map(|block| &block.rows)
    }
}

impl Block {
    pub(super) fn new(
        kind: WorkKind,
        ms: u64,
        bytes: u64,
        cores: &str,
        times: &[Duration],
    ) -> Block {
        let (cores_ms_median, cores_ms_worst) = median_and_worst(times);
        let (cores, rows) = (cores.to_owned(), Vec::new());
        Block { kind, ms, bytes, cores, cores_ms_median, cores_ms_worst, task_ms: 0.0, rows }
    }

    /// The longest permitted time of a run beside a module: the cores' median time, a task on a
    /// core, 20 ms, and the noise, the excess of the cores' worst run over their median one.
    pub fn bound_ms(&self) -> f64 {
        self.cores_ms_worst + self.task_ms + TOLERANCE_MS
    }
}

impl Row {
    pub(super) fn new(
        module: String,
        policy: PolicyName,
        times: &[Duration],
        bound_ms: f64,
    ) -> Row {
        let (ms_median, ms_worst) = median_and_worst(times);
        let beyond = times.iter().filter(|time| milliseconds(**time) > bound_ms).count();
        let (policy, runs) = (policy.to_string(), times.len());
        Row { module, policy, runs, ms_median, ms_worst, beyond, outside_ms: None }
    }
}

impl fmt::Display for ModuleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        writeln!(f, "{} of files and messages, {} rounds", self.cipher, self.rounds)?;
        for block in &self.blocks {
            write!(f, "\n{block}")?;
        }
        writeln!(f)?;
        for reason in &self.skipped {
            writeln!(f, "not measured: {reason}")?;
        }
        writeln!(f, "{} of {} runs were beyond the bound", self.beyond(), self.runs())
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Block { kind, bytes, cores, cores_ms_median, cores_ms_worst, task_ms, rows, .. } = self;
        let outside = rows.iter().any(|row| row.outside_ms.is_some());
        writeln!(
            f,
            "{}, {:.1} MB: {cores} alone {cores_ms_median:.1} ms, worst {cores_ms_worst:.1}; a task {task_ms:.1} ms; bound {:.1} ms",
            kind.name(),
            *bytes as f64 / 1e6,
            self.bound_ms(),
        )?;
        let last = if outside { "outside" } else { "" };
        writeln!(
            f,
            "{:<46} {:<9} {:>9} {:>9} {:>7} {last:>9}",
            "beside", "policy", "ms", "worst", "beyond"
        )?;
        for row in rows {
            let Row { module, policy, ms_median, ms_worst, beyond, outside_ms, .. } = row;
            let mark = if *beyond > 0 { " <" } else { "" };
            let outside = outside_ms.map(|ms| format!("{ms:.1}")).unwrap_or_default();
            writeln!(
                f,
                "{module:<46} {policy:<9} {ms_median:>9.1} {ms_worst:>9.1} {beyond:>7} {outside:>9}{mark}"
            )?;
        }
        Ok(())
    }
}

fn median_and_worst(times: &[Duration]) -> (f64, f64) {
    let times: Vec<_> = times.iter().copied().map(milliseconds).collect();
    (median(&times).unwrap_or_default(), times.iter().copied().fold(0.0, f64::max))
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The most that a run may lose to a module, whatever the module does.
const TOLERANCE_MS: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_beyond_the_bound_are_counted_and_marked() {
        let times = [10, 12, 15].map(Duration::from_millis);
        let mut block = Block::new(WorkKind::Pipe, 10, 1_000_000, "cpu", &times);
        block.task_ms = 1.0;
        assert_eq!((block.cores_ms_median, block.bound_ms()), (12.0, 36.0));
        for worst in [36, 37] {
            let times = [12, 12, worst].map(Duration::from_millis);
            let row = Row::new("gone".to_owned(), PolicyName::Pull, &times, block.bound_ms());
            assert_eq!(row.beyond, usize::from(worst > 36));
            block.rows.push(row);
        }
        let table = block.to_string();
        assert!(table.starts_with("pipe, 1.0 MB: cpu alone 12.0 ms, worst 15.0"), "{table}");
        assert_eq!(table.lines().filter(|line| line.ends_with(" <")).count(), 1, "{table}");
    }
}
