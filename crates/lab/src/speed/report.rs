//! The report.

use std::fmt;

use evener_core::Kind;
use serde::{Deserialize, Serialize};

use super::compare::Comparison;
use super::{chart, csv, table};
use crate::Machine;

/// The report. Its JSON is the document that `--json` prints, its [`Display`](fmt::Display) the
/// table.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SpeedReport {
    /// The machine.
    pub machine: Machine,
    /// Time for each figure, in seconds over all rounds.
    pub seconds: f64,
    /// Number of rounds.
    pub rounds: u32,
    /// The engines that took part.
    pub engines: Vec<Contestant>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Engines and ciphers that could not be measured.
    pub left_out: Vec<LeftOut>,
    /// Results of earlier runs and of other machines.
    pub compared: Vec<Comparison>,
}

/// An engine that took part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Contestant {
    /// The name by which `--engine` selects it.
    pub engine: String,
    /// Where its work is done.
    pub kind: Kind,
    /// Version, driver or device.
    pub detail: String,
    /// How it was used.
    pub method: String,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The engine's name.
    pub engine: String,
    /// The cipher's OpenSSL name. Results from elsewhere may have ciphers that Evener has not.
    pub cipher: String,
    /// `encrypt` or `decrypt`.
    pub direction: String,
    /// Whether the CPU's AES instructions were available and the cipher can use them.
    pub aes_instructions: bool,
    /// How many threads worked side by side.
    pub threads: usize,
    /// The length of a message.
    pub bytes: usize,
    /// All threads together, in thousands of bytes a second: the median of the rounds.
    pub kb_per_s: f64,
}

/// An engine or cipher that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// An engine, or a cipher that no engine offers.
    pub name: String,
    /// In words.
    pub reason: String,
}

impl SpeedReport {
    /// The table. If `coloured`, the fastest figures are coloured besides their asterisk.
    pub fn to_table(&self, coloured: bool) -> String {
        table::draw(self, coloured)
    }

    /// The rows as comma-separated values under the names of their fields.
    pub fn to_csv(&self) -> String {
        csv::write(&self.rows)
    }

    /// Bar charts, as an SVG document.
    pub fn to_svg(&self) -> String {
        chart::svg(self)
    }

    /// Bar charts and the table, as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        chart::page(self)
    }

    /// Adds an engine or cipher that could not be measured, once.
    pub(super) fn leave_out(&mut self, name: &str, reason: String) {
        let left_out = LeftOut { name: name.to_owned(), reason };
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }
}

impl fmt::Display for SpeedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_table(false))
    }
}
