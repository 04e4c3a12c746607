//! Compares times with the published ones.

use std::fmt;

use super::reference::published;
use super::report::{PoliciesReport, Rows, Subject};
use super::tables::print_table;
use super::{Row, summary};

/// Prints a report's times as ratios to the published ones.
pub(crate) struct Ratios<'a>(pub(crate) &'a PoliciesReport);

/// The most by which a policy's figures differ from the published ones, at any size.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The policy's name.
    pub policy: String,
    /// The difference in time, as a part of the published one: 0.02 for 2 %. No times of `adaptive`
    /// have been published; its times are compared with those of the fastest policy.
    pub time: f64,
    /// The difference in the number of files that the processor did, as a part of all files; `None`
    /// if it was not published.
    pub files: Option<f64>,
}

impl PoliciesReport {
    /// The differences from any published figures, in the order of the policies.
    pub fn differences(&self) -> Vec<Difference> {
        let mut differences: Vec<Difference> = Vec::new();
        for subject in self.subjects() {
            let ratio = ratio_to_published(&subject);
            let published = published(&subject).map(|published| published.rows).unwrap_or_default();
            for row in self.of(&subject).0 {
                let Some(time) = ratio(row).map(|ratio| (ratio - 1.0).abs()) else { continue };
                let of_row = Rows(published.iter().collect()).find(&row.policy, row.bytes);
                let of_row = of_row.filter(|row| row.files_cpu + row.files_module > 0.0);
                let files =
                    of_row.map(|of| (row.files_cpu - of.files_cpu).abs() / row.files as f64);
                match differences.iter_mut().find(|known| known.policy == row.policy) {
                    Some(known) => {
                        known.time = known.time.max(time);
                        known.files = known.files.zip(files).map(|(one, other)| one.max(other));
                    }
                    None => {
                        let policy = row.policy.clone();
                        differences.push(Difference { policy, time, files });
                    }
                }
            }
        }
        differences
    }
}

impl fmt::Display for Ratios<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for subject in self.0.subjects() {
            let Some(published) = published(&subject) else { continue };
            writeln!(f, "\n{subject}: ratios to the published times ({})", published.source)?;
            let ratio = ratio_to_published(&subject);
            let cell = |row: &Row| ratio(row).map_or("-".to_owned(), |it| format!("{it:.3}"));
            print_table(f, &self.0.of(&subject), cell)?;
        }
        writeln!(f, "\nMost that differs from the published figures at any size:")?;
        for Difference { policy, time, files } in self.0.differences() {
            let files = files.map(|part| format!(", files of the processor {}", percent(part)));
            writeln!(f, "{policy}: time {}{}", percent(time), files.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The ratio of a row's time to the published one for its size and policy.
fn ratio_to_published(subject: &Subject) -> impl Fn(&Row) -> Option<f64> {
    let rows = published(subject).map(|published| published.rows).unwrap_or_default();
    move |row: &Row| {
        let rows = Rows(rows.iter().collect());
        let time = match row.policy == summary::ADAPTIVE {
            true => rows.best(row.bytes),
            false => rows.find(&row.policy, row.bytes).map(|row| row.ms_median),
        };
        time.map(|time| row.ms_median / time)
    }
}

/// Formats a percentage, rounded up so that no difference exceeds it.
fn percent(part: f64) -> String {
    format!("{:.1} %", (part * 1000.0).ceil() / 10.0)
}
