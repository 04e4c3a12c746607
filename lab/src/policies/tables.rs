//! The papers' two tables: the time for each policy and size, and the number of files of each
//! engine.

use std::fmt;

use super::Row;
use super::report::{PoliciesReport, Rows};
use super::{reference, summary};
use crate::page::{Cell, Page, Table, grouped};

impl fmt::Display for PoliciesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self, f)
    }
}

/// Prints the report for a terminal.
fn print(report: &PoliciesReport, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "{}", report.title)?;
    for (name, fact) in &report.facts {
        writeln!(f, "{name}: {fact}")?;
    }
    for subject in report.subjects() {
        let rows = report.of(&subject);
        writeln!(f, "\n{subject}: ms for {}", counted(&rows))?;
        print_table(f, &rows, |row| format!("{:.2}", row.ms_median))?;
        writeln!(f, "\n{subject}: files done by the processor + by the module")?;
        print_table(f, &rows, |row| format!("{:.0}+{:.0}", row.files_cpu, row.files_module))?;
        writeln!(f, "\n{}", summary::verdict(&rows))?;
    }
    for skipped in &report.skipped {
        writeln!(f, "skipped: {skipped}")?;
    }
    Ok(())
}

/// Adds both tables of every cipher and direction to a page.
pub(super) fn add_to(page: &mut Page, report: &PoliciesReport) {
    for subject in report.subjects() {
        let rows = report.of(&subject);
        let published = reference::published(&subject);
        let published_rows = published.as_ref().map(|published| {
            let rows = Rows(published.rows.iter().collect());
            (published.source, rows)
        });
        page.subsection(&subject.to_string());
        let time = |row: &Row| Cell {
            text: ms(row.ms_median),
            note: match row.runs {
                1 => String::new(),
                _ => format!("{} – {}", ms(row.ms_min), ms(row.ms_max)),
            },
            class: "",
        };
        let caption =
            format!("Time in ms for {} (below it the shortest and longest)", counted(&rows));
        page.push(&table(&caption, &rows, &published_rows, time));
        let files = |row: &Row| match row.files_cpu + row.files_module {
            0.0 => Cell::from("–".to_owned()),
            _ => Cell::from(format!("{:.0}+{:.0}", row.files_cpu, row.files_module)),
        };
        let caption = "Files done by the processor + by the module, means over the runs";
        page.push(&table(caption, &rows, &published_rows, files));
    }
}

/// Returns `4,000 files, median of 5 runs`, or ranges if rows differ.
pub(super) fn counted(rows: &Rows<'_>) -> String {
    let range = |figure: fn(&Row) -> u64| {
        let figures = rows.0.iter().map(|row| figure(row));
        match (figures.clone().min().unwrap_or(0), figures.max().unwrap_or(0)) {
            (least, most) if least == most => grouped(least),
            (least, most) => format!("{} to {}", grouped(least), grouped(most)),
        }
    };
    let (files, runs) = (range(|row| row.files), range(|row| row.runs));
    if runs == "1" {
        format!("{files} files, one run")
    } else {
        format!("{files} files, median of {runs} runs")
    }
}

fn table(
    caption: &str,
    rows: &Rows<'_>,
    published: &Option<(&str, Rows<'_>)>,
    cell: impl Fn(&Row) -> Cell,
) -> String {
    let sizes = rows.sizes();
    let head = sizes.iter().map(|&bytes| grouped(bytes as u64));
    let head = std::iter::once("bytes".to_owned()).chain(head).collect();
    let source = published.as_ref().map_or("", |(source, _)| *source);
    let caption = match source {
        "" => caption.to_owned(),
        source => format!("{caption}; published: {source}"),
    };
    let mut table = Table::new(&caption, "", head);
    let none = || Cell::from("–".to_owned());
    let cells = |rows: &Rows<'_>, policy: &str| -> Vec<Cell> {
        let found = sizes.iter().map(|&bytes| rows.find(policy, bytes));
        found.map(|row| row.map_or_else(none, &cell)).collect()
    };
    for policy in rows.policies() {
        table.row("", policy, cells(rows, policy));
    }
    // Only sizes that were measured here can be compared.
    if let Some((_, published)) = published {
        for policy in published.policies() {
            if sizes.iter().any(|&bytes| published.find(policy, bytes).is_some()) {
                table.row("published", &format!("{policy}, published"), cells(published, policy));
            }
        }
    }
    table.to_html()
}

pub(super) fn print_table(
    f: &mut fmt::Formatter<'_>,
    rows: &Rows<'_>,
    cell: impl Fn(&Row) -> String,
) -> fmt::Result {
    let policies = rows.policies();
    write!(f, "{:>8}", "bytes")?;
    for policy in &policies {
        write!(f, " {policy:>11}")?;
    }
    writeln!(f)?;
    for bytes in rows.sizes() {
        write!(f, "{:>8}", grouped(bytes as u64))?;
        for policy in &policies {
            let text = rows.find(policy, bytes).map_or_else(|| "-".to_owned(), &cell);
            write!(f, " {text:>11}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

fn ms(ms: f64) -> String {
    match ms {
        large if large >= 1000.0 => grouped(large.round() as u64),
        middle if middle >= 100.0 => format!("{middle:.0}"),
        middle if middle >= 10.0 => format!("{middle:.1}"),
        small => format!("{small:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::row;
    use super::*;

    #[test]
    fn both_tables_are_printed() {
        let mut report = PoliciesReport::new("title", Vec::new());
        report.rows = vec![row("pull", 16_384, 2231.81), row("cpu-only", 16_384, 4715.85)];
        report.skipped = vec!["module-only: none".to_owned()];
        let text = report.to_string();
        for expected in ["16,384", "2231.81", "3000+1000", "skipped: module-only", "one run"] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
}
