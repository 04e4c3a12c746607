//! The paper's figures.

use serde::Serialize;

/// The speed-up over one thread of the paper's programs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PaperRow {
    /// The number of threads.
    pub threads: u16,
    /// The speed-up of Java's threads.
    pub java_speedup: f64,
    /// The speed-up of OpenMP.
    pub openmp_speedup: f64,
}

/// The paper's table, for AES-128-CTR.
pub(super) fn table() -> Vec<PaperRow> {
    let row = |line: &str| {
        let mut fields = line.split(',');
        Some(PaperRow {
            threads: fields.next()?.parse().ok()?,
            java_speedup: fields.next()?.parse().ok()?,
            openmp_speedup: fields.next()?.parse().ok()?,
        })
    };
    // The heading does not parse as a row.
    TABLE.lines().filter_map(row).collect()
}

const TABLE: &str = include_str!("../../reference/xeonphi-ctr.csv");

/// A description of the table.
pub(super) const SOURCE: &str =
    "Koyanagawa, Yoshida: AES-128-CTR of 64 MB on an Intel Xeon Phi 7250";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let table = table();
        assert_eq!(table.len(), 6);
        let last = PaperRow { threads: 64, java_speedup: 33.6, openmp_speedup: 57.2 };
        assert_eq!(table.last(), Some(&last));
    }
}
