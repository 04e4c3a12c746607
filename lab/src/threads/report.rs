//! The benchmark's report.

use std::fmt;

use serde::Serialize;

use super::Contender;
use super::paper::{PaperRow, SOURCE};
use crate::Machine;

/// The benchmark's report. Its JSON is the document that `--json` prints, its
/// [`Display`](fmt::Display) tables.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ThreadsReport {
    /// The machine.
    pub machine: Machine,
    /// The message's length.
    pub bytes: usize,
    /// Number of rounds; three for a contender with turns over half a second.
    pub rounds: u32,
    /// The contenders' libraries and compilers.
    pub versions: Vec<Version>,
    /// The figures.
    pub rows: Vec<Row>,
    /// The contenders that took no part, with the reason.
    pub skipped: Vec<Skipped>,
    /// The paper's figures, from another machine.
    pub paper: Vec<PaperRow>,
}

/// A contender's time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The contender.
    pub contender: Contender,
    /// The cipher's name; a copy does not use it.
    pub cipher: String,
    /// `encrypt` or `decrypt`.
    pub operation: String,
    /// The number of threads.
    pub threads: u16,
    /// The median over the rounds, in milliseconds.
    pub ms_median: f64,
    /// The contender's time with one thread divided by this time; `None` if one thread was not
    /// measured.
    pub speedup: Option<f64>,
}

/// A contender's library and compiler.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Version {
    /// The contender.
    pub contender: Contender,
    /// Library, compiler, options.
    pub detail: String,
}

/// A contender that took no part.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Skipped {
    /// The contender.
    pub contender: Contender,
    /// The reason.
    pub reason: String,
}

impl ThreadsReport {
    /// The ciphers and operations measured, in order.
    pub(super) fn cases(&self) -> Vec<(&str, &str)> {
        let mut cases = Vec::new();
        for row in &self.rows {
            let case = (row.cipher.as_str(), row.operation.as_str());
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        cases
    }

    /// The numbers of threads measured, in order.
    pub(super) fn threads(&self) -> Vec<u16> {
        let mut threads: Vec<u16> = self.rows.iter().map(|row| row.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// A contender's figures in a case, by number of threads.
    pub(super) fn line(
        &self,
        contender: Contender,
        (cipher, operation): (&str, &str),
    ) -> Vec<&Row> {
        let of_case = |row: &&Row| {
            row.contender == contender && row.cipher == cipher && row.operation == operation
        };
        self.rows.iter().filter(of_case).collect()
    }
}

impl fmt::Display for ThreadsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        let megabytes = self.bytes >> 20;
        writeln!(f, "{megabytes} MB (1,048,576 bytes), median of {} rounds", self.rounds)?;
        for Version { contender, detail } in &self.versions {
            writeln!(f, "{}: {detail}", contender.name())?;
        }
        for case in self.cases() {
            write!(f, "\n{} {}: ms (speed-up over one thread)\n{:14}", case.0, case.1, "threads")?;
            for threads in self.threads() {
                write!(f, "{threads:>16}")?;
            }
            writeln!(f)?;
            for contender in CONTENDERS {
                let line = self.line(contender, case);
                if line.is_empty() {
                    continue;
                }
                write!(f, "{:14}", contender.name())?;
                for row in line {
                    let speedup = row.speedup.map_or(String::new(), |by| format!("({by:.2})"));
                    write!(f, "{:>8.2} {speedup:<7}", row.ms_median)?;
                }
                writeln!(f)?;
            }
        }
        writeln!(f, "\npublished speed-up of {SOURCE}")?;
        for (name, of) in PAPER {
            write!(f, "{name:14}")?;
            for row in &self.paper {
                write!(f, "{:>8} {:<7}", row.threads, format!("({:.1})", of(row)))?;
            }
            writeln!(f)?;
        }
        for Skipped { contender, reason } in &self.skipped {
            writeln!(f, "skipped: {}: {reason}", contender.name())?;
        }
        Ok(())
    }
}

/// The contenders, in display order.
pub(super) const CONTENDERS: [Contender; 6] = [
    Contender::Evener,
    Contender::Openmp,
    Contender::Java,
    Contender::OpenmpBlocks,
    Contender::JavaBlocks,
    Contender::Memcpy,
];

/// One of the paper's columns.
type PaperColumn = (&'static str, fn(&PaperRow) -> f64);

/// The paper's columns.
pub(super) const PAPER: [PaperColumn; 2] =
    [("paper, OpenMP", |row| row.openmp_speedup), ("paper, Java", |row| row.java_speedup)];
