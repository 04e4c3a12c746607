//! The report, measured or simulated.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::Row;
use crate::LabError;

/// The report. Its JSON is the document that `--json` prints, its [`Display`] the papers' two
/// tables, and [`PoliciesReport::to_html`] draws their figures.
///
/// [`Display`]: fmt::Display
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PoliciesReport {
    /// The heading.
    pub title: String,
    /// Facts that explain the figures (machine, engines, how they were made), by name.
    pub facts: Vec<(String, String)>,
    /// The figures, one for each policy, size, cipher and direction. All are of runs that did all
    /// files, whether measured now or read from a document.
    #[serde(deserialize_with = "of_whole_runs")]
    pub(super) rows: Vec<Row>,
    /// Contenders that took no part, with the reason.
    pub skipped: Vec<String>,
}

impl PoliciesReport {
    /// A report without rows yet.
    pub fn new(title: &str, facts: Vec<(String, String)>) -> PoliciesReport {
        PoliciesReport { title: title.to_owned(), facts, rows: Vec::new(), skipped: Vec::new() }
    }

    /// The figures.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Adds figures.
    ///
    /// # Errors
    /// [`LabError::Undone`] when a run did not do all of its files; then no figures are added.
    pub fn add_rows(&mut self, rows: Vec<Row>) -> Result<(), LabError> {
        rows.iter().try_for_each(Row::check)?;
        self.rows.extend(rows);
        Ok(())
    }

    /// Adds another report. Its rows replace rows for the same case.
    pub fn add(&mut self, other: PoliciesReport) {
        for fact in other.facts {
            if !self.facts.contains(&fact) {
                self.facts.push(fact);
            }
        }
        let new = &other.rows;
        self.rows.retain(|row| !new.iter().any(|new| is_same_case(row, new)));
        self.rows.extend(other.rows);
        for skipped in other.skipped {
            if !self.skipped.contains(&skipped) {
                self.skipped.push(skipped);
            }
        }
    }

    /// The ciphers and directions, in the order of the rows.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        let mut subjects = Vec::new();
        for row in &self.rows {
            let subject = Subject { cipher: row.cipher.clone(), direction: row.direction.clone() };
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        subjects
    }

    /// The rows of a cipher and direction.
    pub(super) fn of(&self, subject: &Subject) -> Rows<'_> {
        Rows(self.rows.iter().filter(|row| subject.is_of(row)).collect())
    }
}

/// The operation on the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) cipher: String,
    pub(super) direction: String,
}

impl Subject {
    fn is_of(&self, row: &Row) -> bool {
        self.cipher == row.cipher && self.direction == row.direction
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.cipher, self.direction)
    }
}

/// The rows of one cipher and direction.
pub(super) struct Rows<'a>(pub(super) Vec<&'a Row>);

impl<'a> Rows<'a> {
    /// The sizes, in rising order.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<_> = self.0.iter().map(|row| row.bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// The policies, in the order of the rows.
    pub(super) fn policies(&self) -> Vec<&'a str> {
        let mut policies = Vec::new();
        for row in &self.0 {
            if !policies.contains(&row.policy.as_str()) {
                policies.push(&row.policy);
            }
        }
        policies
    }

    pub(super) fn find(&self, policy: &str, bytes: usize) -> Option<&'a Row> {
        self.0.iter().find(|row| row.policy == policy && row.bytes == bytes).copied()
    }

    /// A policy's rows, by rising size.
    pub(super) fn by_size(&self, policy: &str) -> Vec<&'a Row> {
        let mut rows: Vec<_> = self.0.iter().filter(|row| row.policy == policy).copied().collect();
        rows.sort_by_key(|row| row.bytes);
        rows
    }

    /// The shortest time for a size, in ms.
    pub(super) fn best(&self, bytes: usize) -> Option<f64> {
        let rows = self.0.iter().filter(|row| row.bytes == bytes);
        rows.map(|row| row.ms_median).min_by(f64::total_cmp)
    }
}

/// Rejects figures of runs that did not do all files.
fn of_whole_runs<'de, D: Deserializer<'de>>(document: D) -> Result<Vec<Row>, D::Error> {
    let rows = Vec::<Row>::deserialize(document)?;
    if rows.is_empty() {
        return Err(D::Error::custom("it has no figures"));
    }
    rows.iter().try_for_each(Row::check).map_err(D::Error::custom)?;
    let is_twice = |(at, row): (usize, &Row)| rows[..at].iter().any(|it| is_same_case(it, row));
    if rows.iter().enumerate().any(is_twice) {
        return Err(D::Error::custom("it has two rows for one case"));
    }
    Ok(rows)
}

fn is_same_case(one: &Row, other: &Row) -> bool {
    let case =
        |row: &Row| (row.bytes, row.policy.clone(), row.cipher.clone(), row.direction.clone());
    case(one) == case(other)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn row(policy: &str, bytes: usize, ms: f64) -> Row {
        Row {
            bytes,
            policy: policy.to_owned(),
            cipher: "aes-128-cbc".to_owned(),
            direction: "encrypt".to_owned(),
            files: 4000,
            runs: 1,
            ms_mean: ms,
            ms_median: ms,
            ms_min: ms,
            ms_max: ms,
            files_cpu: 3000.0,
            files_module: 1000.0,
        }
    }

    #[test]
    fn reports_are_put_together() {
        let mut report = PoliciesReport::new("one", vec![("a".to_owned(), "b".to_owned())]);
        report.rows = vec![row("pull", 8, 1.0), row("pull", 16, 2.0)];
        let json = serde_json::to_string(&report).unwrap();
        let mut other: PoliciesReport = serde_json::from_str(&json).unwrap();
        assert_eq!(other, report);
        other.rows = vec![row("pull", 16, 3.0), row("polling", 16, 4.0)];
        report.add(other);
        let rows = report.of(&report.subjects()[0]);
        assert_eq!((rows.0.len(), report.facts.len()), (3, 1));
        assert_eq!(rows.find("pull", 16).unwrap().ms_median, 3.0);
        assert_eq!((rows.sizes(), rows.policies()), (vec![8, 16], vec!["pull", "polling"]));
        assert_eq!(rows.best(16), Some(3.0));
    }

    /// No report, whether new or read, has a figure of a run that did less than all.
    #[test]
    fn a_run_that_did_not_do_all_files_has_no_figures() {
        type Spoil = fn(&mut Row);
        let broken: [(Spoil, &str); 9] = [
            (|row| row.files_cpu = 2999.0, "3999 of 4000 files were done (31992 of 32000 bytes)"),
            (|row| row.files_module = 1001.0, "4001 of 4000 files"),
            (|row| (row.files_cpu, row.files_module, row.ms_mean) = (0.0, 0.0, 0.0), "0 of 4000"),
            (|row| (row.files, row.files_cpu, row.files_module) = (0, 0.0, 0.0), "0 of 0 files"),
            (|row| row.files_cpu = f64::NAN, "0 of 4000 files"),
            (|row| row.ms_median = 0.0, "0 ms is no time"),
            (|row| row.runs = 0, "were done"),
            (|row| row.ms_min = 2.0 * row.ms_max, "not between the extremes"),
            (|row| row.ms_median = 2.0 * row.ms_max, "not between the extremes"),
        ];
        for (spoil, complaint) in broken {
            let mut report = PoliciesReport::new("one", Vec::new());
            let mut spoilt = row("polling", 8, 1.0);
            spoil(&mut spoilt);
            let error = report.add_rows(vec![row("pull", 8, 1.0), spoilt.clone()]).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with("polling, aes-128-cbc encrypt, 8 bytes: "), "{error}");
            assert!(error.contains(complaint), "{error}");
            assert!(report.rows().is_empty());
            report.rows = vec![spoilt];
            let json = serde_json::to_string(&report).unwrap();
            assert!(serde_json::from_str::<PoliciesReport>(&json).is_err(), "{json}");
        }
        for (policy, is_sound) in [("cpu-only", false), ("module-only", false), ("pull", true)] {
            assert_eq!(row(policy, 8, 1.0).check().is_ok(), is_sound, "{policy}");
        }
        let mut report = PoliciesReport::new("one", Vec::new());
        for rows in [Vec::new(), vec![row("pull", 8, 1.0), row("pull", 8, 2.0)]] {
            report.rows = rows;
            let json = serde_json::to_string(&report).unwrap();
            assert!(serde_json::from_str::<PoliciesReport>(&json).is_err(), "{json}");
        }
        let thirds =
            Row { files_cpu: 8000.0 / 3.0, files_module: 4000.0 / 3.0, ..row("pull", 8, 1.0) };
        thirds.check().unwrap();
    }
}
