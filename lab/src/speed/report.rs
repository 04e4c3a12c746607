//! The report.

use evener_core::Kind;
use serde::Serialize;

use super::compare::Comparison;
use super::row::Row;
use crate::Machine;

/// The report. Its JSON is the document that `--json` prints, its [`Display`](std::fmt::Display)
/// the table.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct SpeedReport {
    /// The machine.
    pub machine: Machine,
    /// The time for each figure, in seconds over all rounds.
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
    /// The place where its work is done.
    pub kind: Kind,
    /// Version, driver or device.
    pub detail: String,
    /// The way in which it was used.
    pub method: String,
}

/// An engine or cipher that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// An engine, or a cipher that no engine offers.
    pub name: String,
    /// The reason, as text.
    pub reason: String,
}

impl SpeedReport {
    /// Adds an engine or cipher that could not be measured, unless it is already listed.
    pub(super) fn leave_out(&mut self, name: &str, reason: String) {
        let left_out = LeftOut { name: name.to_owned(), reason };
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }
}
