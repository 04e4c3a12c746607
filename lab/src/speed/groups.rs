//! Groups figures that appear together: those of one cipher, direction and number of threads.

use evener_core::Kind;

use super::report::SpeedReport;
use super::row::Row;

/// The figures of one cipher, direction and number of threads.
pub(super) struct Group<'a> {
    pub(super) cipher: &'a str,
    pub(super) direction: &'a str,
    pub(super) threads: usize,
    /// The message lengths, in the order of measurement.
    pub(super) lengths: &'a [usize],
    /// This run's lines, then the compared ones.
    pub(super) lines: Vec<Line>,
}

/// One engine, of this run or another, over all lengths.
pub(super) struct Line {
    pub(super) label: String,
    /// True if the line was measured in this run.
    pub(super) is_own: bool,
    /// Figures in thousands of bytes a second; `None` if there is none.
    pub(super) figures: Vec<Option<f64>>,
}

/// The measured lengths, in order.
pub(super) fn lengths(report: &SpeedReport) -> Vec<usize> {
    let mut lengths = Vec::new();
    for row in &report.rows {
        if !lengths.contains(&row.bytes) {
            lengths.push(row.bytes);
        }
    }
    lengths
}

/// All groups, in the order of measurement.
pub(super) fn groups<'a>(report: &'a SpeedReport, lengths: &'a [usize]) -> Vec<Group<'a>> {
    let most = most_threads(&report.rows);
    let mut groups: Vec<Group<'a>> = Vec::new();
    for row in &report.rows {
        let known = |group: &Group<'_>| {
            (group.cipher, group.direction, group.threads)
                == (&row.cipher[..], &row.direction[..], row.threads)
        };
        let place = groups.iter().position(known).unwrap_or_else(|| {
            let Row { cipher, direction, threads, .. } = row;
            groups.push(Group { cipher, direction, threads: *threads, lengths, lines: Vec::new() });
            groups.len() - 1
        });
        groups[place].add(label(report, row), true, row);
    }
    for comparison in &report.compared {
        let their_most = most_threads(&comparison.rows);
        for group in &mut groups {
            for row in &comparison.rows {
                let same = (&row.cipher[..], &row.direction[..]) == (group.cipher, group.direction);
                // Another machine may have a different number of cores.
                let all_cores = group.threads == most && row.threads == their_most && most > 1;
                if same && (row.threads == group.threads || all_cores && their_most > 1) {
                    let threads = match row.threads == group.threads {
                        true => String::new(),
                        false => format!(", {} threads", row.threads),
                    };
                    group.add(
                        format!("{}: {}{threads}", comparison.name, label(report, row)),
                        false,
                        row,
                    );
                }
            }
        }
    }
    groups
}

impl Group<'_> {
    /// The group's description.
    pub(super) fn title(&self) -> String {
        let s = if self.threads == 1 { "" } else { "s" };
        format!("{}, {}, {} thread{s}", self.cipher, self.direction, self.threads)
    }

    /// This run's best figure for one of the lengths.
    pub(super) fn winner(&self, place: usize) -> Option<f64> {
        let own = self.lines.iter().filter(|line| line.is_own);
        own.filter_map(|line| line.figures[place]).max_by(f64::total_cmp)
    }

    fn add(&mut self, label: String, is_own: bool, row: &Row) {
        let Some(length) = self.lengths.iter().position(|&bytes| bytes == row.bytes) else {
            return;
        };
        let known = |line: &Line| line.is_own == is_own && line.label == label;
        let place = self.lines.iter().position(known).unwrap_or_else(|| {
            self.lines.push(Line { label, is_own, figures: vec![None; self.lengths.len()] });
            self.lines.len() - 1
        });
        self.lines[place].figures[length] = Some(row.kb_per_s);
    }
}

/// The engine's name, and a note if it computed AES without the CPU's instructions.
fn label(report: &SpeedReport, row: &Row) -> String {
    let without =
        row.cipher.starts_with("aes-") && !row.aes_instructions && !is_device(report, &row.engine);
    format!("{}{}", row.engine, if without { ", no AES instructions" } else { "" })
}

/// Returns whether the engine computes elsewhere than on the CPU. Of other machines' engines only
/// the name is known.
fn is_device(report: &SpeedReport, engine: &str) -> bool {
    let known = report.engines.iter().find(|contestant| contestant.engine == engine);
    let name = engine.split(':').next().unwrap_or(engine);
    known.map_or(MODULES.contains(&name), |contestant| contestant.kind == Kind::Module)
}

/// Engines that are drivers and tokens.
const MODULES: [&str; 4] = ["af_alg", "cryptodev", "gpu", "pkcs11"];

fn most_threads(rows: &[Row]) -> usize {
    rows.iter().map(|row| row.threads).max().unwrap_or(1)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Machine;
    use crate::speed::{Comparison, Contestant};

    pub(in crate::speed) fn row(engine: &str, threads: usize, bytes: usize, kb_per_s: f64) -> Row {
        Row {
            engine: engine.to_owned(),
            cipher: "aes-256-cbc".to_owned(),
            direction: "encrypt".to_owned(),
            aes_instructions: engine != "slow",
            threads,
            bytes,
            kb_per_s,
        }
    }

    pub(in crate::speed) fn report(rows: Vec<Row>, elsewhere: Vec<Row>) -> SpeedReport {
        SpeedReport {
            machine: Machine::look(),
            seconds: 0.5,
            rounds: 5,
            engines: Vec::new(),
            rows,
            left_out: Vec::new(),
            compared: vec![Comparison { name: "there".to_owned(), rows: elsewhere }],
        }
    }

    #[test]
    fn engines_stand_side_by_side_with_those_elsewhere() {
        let here = vec![
            row("openssl", 1, 16, 5.0),
            row("slow", 1, 16, 1.0),
            row("openssl", 2, 16, 9.0),
            row("openssl", 2, 64, 9.5),
        ];
        let there = vec![row("openssl", 1, 16, 50.0), row("openssl", 8, 64, 80.0)];
        let report = report(here, there);
        let lengths = lengths(&report);
        let groups = groups(&report, &lengths);
        let labels: Vec<Vec<_>> = groups
            .iter()
            .map(|group| group.lines.iter().map(|line| &line.label[..]).collect())
            .collect();
        assert_eq!(
            labels,
            [
                vec!["openssl", "slow, no AES instructions", "there: openssl"],
                vec!["openssl", "there: openssl, 8 threads"]
            ]
        );
        let kind = Kind::Module;
        let device = Contestant {
            engine: "slow".to_owned(),
            kind,
            detail: String::new(),
            method: String::new(),
        };
        let slow = row("slow", 1, 16, 1.0);
        let pkcs11 = Row { engine: "pkcs11:token=a".to_owned(), ..slow.clone() };
        assert_eq!(label(&report, &slow), "slow, no AES instructions");
        assert_eq!(label(&report, &pkcs11), "pkcs11:token=a");
        let with_device = SpeedReport { engines: vec![device], ..report.clone() };
        assert_eq!(label(&with_device, &slow), "slow", "a device has no use for them");
        assert_eq!(groups[0].title(), "aes-256-cbc, encrypt, 1 thread");
        assert_eq!(groups[0].winner(0), Some(5.0), "a winner is of this run");
        assert_eq!(groups[0].lines[0].figures, [Some(5.0), None]);
    }
}
