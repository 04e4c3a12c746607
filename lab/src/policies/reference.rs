//! The published figures, to be shown beside new ones.
//!
//! `reference/README.md` names their sources.

use super::Row;
use super::report::Subject;

/// The figures of a paper.
pub(super) struct Published {
    /// The machine and the paper, for people.
    pub(super) source: &'static str,
    pub(super) rows: Vec<Row>,
}

/// The published figures for a cipher and direction.
pub(super) fn published(subject: &Subject) -> Option<Published> {
    match (subject.cipher.as_str(), subject.direction.as_str()) {
        ("aes-128-cbc", "encrypt") => Some(of_2015()),
        ("aes-256-cbc", "encrypt") => Some(of_2013()),
        _ => None,
    }
}

/// Five policies at eight sizes.
pub(super) fn of_2015() -> Published {
    let row = |fields: &[&str]| match fields {
        [bytes, policy, ms, cpu, module] => Some(row(
            "aes-128-cbc",
            bytes.parse().ok()?,
            policy,
            ms.parse().ok()?,
            (cpu.parse().ok()?, module.parse().ok()?),
        )),
        _ => None,
    };
    Published {
        source: "AM3358, Kaneko, Saito, Kikuchi 2015",
        rows: records(POLICIES_2015).filter_map(|fields| row(&fields)).collect(),
    }
}

/// Each engine alone and both at once, at nine sizes. The number of files per engine was not
/// published.
pub(super) fn of_2013() -> Published {
    let rows = records(AES_256_2013).filter_map(|fields| {
        let bytes = fields.first()?.parse().ok()?;
        let named = ["cpu-only", "module-only", BOTH].into_iter().zip(&fields[1..]);
        let rows: Option<Vec<Row>> = named
            .map(|(policy, ms)| {
                Some(row("aes-256-cbc", bytes, policy, ms.parse().ok()?, (0.0, 0.0)))
            })
            .collect();
        rows
    });
    Published { source: "AM3358, Kaneko 2013", rows: rows.flatten().collect() }
}

/// The name that this benchmark gives the 2013 paper's method.
pub(super) const BOTH: &str = "both at once";

fn row(cipher: &str, bytes: usize, policy: &str, ms: f64, (cpu, module): (f64, f64)) -> Row {
    Row {
        bytes,
        policy: policy.to_owned(),
        cipher: cipher.to_owned(),
        direction: "encrypt".to_owned(),
        files: 4000,
        runs: 1,
        ms_mean: ms,
        ms_median: ms,
        ms_min: ms,
        ms_max: ms,
        files_cpu: cpu,
        files_module: module,
    }
}

/// The lines of a table without its heading, split at commas.
fn records(csv: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    csv.lines().skip(1).map(|line| line.trim().split(',').collect())
}

const POLICIES_2015: &str = include_str!("../../reference/am3358-policies-aes128.csv");
const AES_256_2013: &str = include_str!("../../reference/am3358-2013-aes256.csv");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_tables_are_read_whole() {
        let (of_2015, of_2013) = (of_2015().rows, of_2013().rows);
        assert_eq!((of_2015.len(), of_2013.len()), (5 * 8, 3 * 9));
        assert!(of_2015.iter().all(|row| row.files_cpu + row.files_module == 4000.0));
        assert!(of_2015.iter().chain(&of_2013).all(|row| row.ms_median > 0.0));
    }
}
