//! The benchmark's report.

use std::fmt;

use evener_core::{Cipher, Direction};
use serde::{Serialize, Serializer};

use super::{Contender, Lengths};
use crate::Machine;

/// The benchmark's report. Its JSON is the document that `--json` prints, its [`Display`] a table.
///
/// [`Display`]: fmt::Display
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MessagesReport {
    /// The machine.
    pub machine: Machine,
    /// The number of messages, over all threads.
    pub messages: u32,
    /// True if messages of one length had no gaps between them.
    pub packed: bool,
    /// The number of turns of each contender.
    pub rounds: u32,
    /// The engines' descriptions.
    pub engines: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
    /// The contenders that took no part, with the reason.
    pub skipped: Vec<Skipped>,
}

/// The time of one contender for one cipher, direction, length and number of threads.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The cipher.
    #[serde(serialize_with = "display")]
    pub cipher: Cipher,
    /// Encrypt or decrypt.
    #[serde(serialize_with = "display")]
    pub direction: Direction,
    /// Bytes of a message.
    pub bytes: Lengths,
    /// The number of threads that shared the messages.
    pub threads: usize,
    /// The contender.
    pub contender: Contender,
    /// The time of the slowest thread for all messages: the median of the rounds.
    pub ms_median: f64,
    /// The bytes of all messages divided by that time.
    pub gb_per_s: f64,
}

/// A contender that took no part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Skipped {
    /// The cipher.
    #[serde(serialize_with = "display")]
    pub cipher: Cipher,
    /// Encrypt or decrypt.
    #[serde(serialize_with = "display")]
    pub direction: Direction,
    /// The contender.
    pub contender: Contender,
    /// The reason.
    pub reason: String,
}

impl MessagesReport {
    /// Adds a contender that took no part, unless it is already listed.
    pub(super) fn skip(&mut self, skipped: Skipped) {
        if !self.skipped.contains(&skipped) {
            self.skipped.push(skipped);
        }
    }

    /// The time of `contender` in the case of `row`, in ms.
    fn beside(&self, row: &Row, contender: Contender) -> Option<f64> {
        self.time(row, contender, row.threads)
    }

    /// The time of `contender` with this number of threads for the load of `row`, in ms.
    fn time(&self, row: &Row, contender: Contender, threads: usize) -> Option<f64> {
        let load = |row: &Row| (row.cipher, row.direction, row.bytes);
        let mut rows = self.rows.iter().filter(|other| load(other) == load(row));
        rows.find(|other| (other.contender, other.threads) == (contender, threads))
            .map(|other| other.ms_median)
    }
}

impl fmt::Display for MessagesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        for engine in &self.engines {
            writeln!(f, "{engine}")?;
        }
        let packed = if self.packed { " without gaps" } else { "" };
        writeln!(f, "{} messages{packed}, medians of {} rounds", self.messages, self.rounds)?;
        writeln!(
            f,
            "\n{:<12} {:<9} {:>12} {:>7}  {:<15} {:>10} {:>8} {:>10} {:>10} {:>10}",
            "cipher",
            "direction",
            "bytes",
            "threads",
            "contender",
            "ms",
            "GB/s",
            "× openssl",
            "× memcpy",
            "× 1 thread"
        )?;
        for row in &self.rows {
            let faster = self.beside(row, Contender::Openssl).map(|other| other / row.ms_median);
            let alone = self.time(row, row.contender, 1).filter(|_| row.threads > 1);
            let alone = alone.map(|alone| alone / row.ms_median);
            let slower = self.beside(row, Contender::Memcpy).map(|other| row.ms_median / other);
            writeln!(
                f,
                "{:<12} {:<9} {:>12} {:>7}  {:<15} {:>10.4} {:>8.2} {:>10} {:>10} {:>10}",
                row.cipher,
                row.direction,
                row.bytes,
                row.threads,
                row.contender.name(),
                row.ms_median,
                row.gb_per_s,
                ratio(faster),
                ratio(slower),
                ratio(alone)
            )?;
        }
        writeln!(
            f,
            "\n× openssl, × 1 thread: how many times faster; × memcpy: how many times slower. Where \
             memcpy gains\nlittle from more threads, memory is the limit."
        )?;
        for Skipped { cipher, direction, contender, reason } in &self.skipped {
            writeln!(f, "skipped: {} for {direction} {cipher}: {reason}", contender.name())?;
        }
        Ok(())
    }
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn display<T: fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
