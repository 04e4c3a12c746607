//! What each worker and each engine did, as a table that fits the terminal.

use evener::{Effort, Report};

use super::size;

/// The columns' headings, and in which order they are left out where the terminal is narrow: those with
/// the highest number first, those with 0 never.
const COLUMNS: [(&str, usize); 7] = [
    ("engine", 0),
    ("worker", 0),
    ("files", 0),
    ("jobs", 1),
    ("bytes", 0),
    ("busy s", 2),
    ("CPU s", 3),
];

/// The table's lines. On a terminal of so many columns, those that don't fit are left out.
pub(super) fn lines(report: &Report, terminal: Option<usize>) -> Vec<String> {
    let mut rows = vec![COLUMNS.map(|(heading, _)| heading.to_owned())];
    for worker in &report.workers {
        rows.push(row(&worker.engine, worker.worker.to_string(), &worker.effort));
    }
    for (engine, effort) in &report.engines {
        rows.push(row(engine, "all".to_owned(), effort));
    }
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..COLUMNS.len()).map(width).collect();
    let fits = |most: usize| {
        let shown = (0..COLUMNS.len()).filter(|&column| COLUMNS[column].1 <= most);
        let total = shown.map(|column| GAP + widths[column]).sum::<usize>() - GAP;
        terminal.is_none_or(|columns| total <= columns)
    };
    let last = COLUMNS.iter().map(|column| column.1).max().unwrap_or_default();
    let most = (0..=last).rev().find(|&most| fits(most)).unwrap_or_default();
    let line = |row: &[String; COLUMNS.len()]| {
        let mut line = format!("{:1$}", row[0], widths[0]);
        for column in (1..COLUMNS.len()).filter(|&column| COLUMNS[column].1 <= most) {
            line.push_str(&format!("{:1$}", "", GAP));
            line.push_str(&format!("{:>1$}", row[column], widths[column]));
        }
        line
    };
    rows.iter().map(line).collect()
}

fn row(engine: &str, worker: String, effort: &Effort) -> [String; COLUMNS.len()] {
    [
        engine.to_owned(),
        worker,
        effort.files.to_string(),
        effort.jobs.to_string(),
        size(effort.bytes as f64),
        format!("{:.3}", effort.busy_seconds),
        format!("{:.3}", effort.cpu_seconds),
    ]
}

/// Spaces between two columns.
const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let mut report = Report::default();
        let mut effort = Effort::default();
        (effort.files, effort.jobs, effort.bytes) = (1, 4, 60_000);
        report.engines.insert("cpu".to_owned(), effort);
        let table = |columns| lines(&report, columns);
        assert_eq!(
            table(None),
            [
                "engine  worker  files  jobs     bytes  busy s  CPU s",
                "cpu        all      1     4  58.6 KiB   0.000  0.000",
            ]
        );
        assert_eq!(table(Some(52)), table(None));
        assert_eq!(table(Some(51))[1], "cpu        all      1     4  58.6 KiB   0.000");
        assert_eq!(table(Some(40))[1], "cpu        all      1     4  58.6 KiB");
        assert_eq!(table(Some(36))[1], "cpu        all      1  58.6 KiB");
        assert_eq!(table(Some(5))[1], "cpu        all      1  58.6 KiB");
    }
}
