//! The report of the conformance suite.

use std::fmt;

use evener_core::{Cipher, Description, Direction};

/// The results of one engine. `Display` prints a table.
#[derive(Clone, Debug)]
pub struct Report {
    /// The engine's name and details.
    pub engine: String,
    /// One row for each cipher and direction that the engine offers.
    pub rows: Vec<Row>,
    /// Failures of the engine as a whole.
    pub failures: Vec<String>,
}

/// The results for one cipher and direction.
#[derive(Clone, Debug)]
pub struct Row {
    /// The cipher.
    pub cipher: Cipher,
    /// The direction.
    pub direction: Direction,
    /// Number of published vectors, each run in a batch with the others and in a session with its
    /// key.
    pub vectors: usize,
    /// Number of forged vectors, which must be rejected.
    pub forged: usize,
    /// Number of checks of the contract.
    pub checks: usize,
    /// The failures.
    pub failures: Vec<String>,
}

impl Report {
    pub(super) fn new(description: &Description) -> Report {
        let engine = format!("{} ({})", description.name, description.detail);
        Report { engine, rows: Vec::new(), failures: Vec::new() }
    }

    /// Returns whether the engine offers something and nothing went wrong. A cipher for which no
    /// vector was run counts as a failure.
    pub fn passed(&self) -> bool {
        !self.rows.is_empty()
            && self.failures.is_empty()
            && self.rows.iter().all(|row| row.failures.is_empty())
    }

    /// Prints the table.
    ///
    /// # Panics
    /// When the engine did not pass; this is for tests.
    pub fn assert_passed(&self) {
        println!("{self}");
        assert!(self.passed(), "{} does not conform:\n{self}", self.engine);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}", self.engine)?;
        writeln!(
            f,
            "{:18} {:9} {:>8} {:>8} {:>8} {:>8}",
            "cipher", "direction", "vectors", "forged", "checks", "failures"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:18} {:9} {:>8} {:>8} {:>8} {:>8}",
                row.cipher,
                row.direction,
                row.vectors,
                row.forged,
                row.checks,
                row.failures.len()
            )?;
        }
        for failure in &self.failures {
            writeln!(f, "failure: {failure}")?;
        }
        for row in &self.rows {
            for failure in &row.failures {
                writeln!(f, "failure: {} {}: {failure}", row.cipher, row.direction)?;
            }
        }
        Ok(())
    }
}
