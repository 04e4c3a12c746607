//! The table of `openssl speed`, one for each cipher, direction and number of threads.

use std::fmt::{self, Write};

use super::groups::{Group, groups, lengths};
use super::report::SpeedReport;

impl SpeedReport {
    /// The table. If `coloured`, the fastest figures have a colour in addition to their asterisk.
    pub fn to_table(&self, coloured: bool) -> String {
        draw(self, coloured)
    }
}

impl fmt::Display for SpeedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_table(false))
    }
}

/// The report as text. If `coloured`, winners are green and bold.
fn draw(report: &SpeedReport, coloured: bool) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write(&mut text, report, coloured);
    text
}

fn write(text: &mut String, report: &SpeedReport, coloured: bool) -> fmt::Result {
    writeln!(text, "{}", report.machine)?;
    for contestant in &report.engines {
        let (engine, detail, method) = (&contestant.engine, &contestant.detail, &contestant.method);
        writeln!(text, "{engine}: {detail}; {method}")?;
    }
    let (seconds, rounds) = (report.seconds, report.rounds);
    writeln!(
        text,
        "{seconds} s a figure, the median of {rounds} turns; one thread by its CPU clock, several \
         threads and modules by the wall clock"
    )?;
    writeln!(text, "The 'numbers' are in 1000s of bytes per second processed; * is the fastest.")?;
    let lengths = lengths(report);
    let groups = groups(report, &lengths);
    let labels =
        groups.iter().flat_map(|group| &group.lines).map(|line| line.label.chars().count());
    let titles = groups.iter().map(|group| group.title().chars().count());
    let width = labels.chain(titles).max().unwrap_or(0);
    for group in &groups {
        write_group(text, group, width, coloured)?;
    }
    if !report.left_out.is_empty() {
        writeln!(text)?;
    }
    for out in &report.left_out {
        writeln!(text, "left out: {}: {}", out.name, out.reason)?;
    }
    Ok(())
}

fn write_group(text: &mut String, group: &Group<'_>, width: usize, coloured: bool) -> fmt::Result {
    write!(text, "\n{:<width$}", group.title())?;
    for bytes in group.lengths {
        write!(text, "{:>COLUMN$} ", format!("{bytes} bytes"))?;
    }
    trim(text);
    for line in &group.lines {
        write!(text, "\n{:<width$}", line.label)?;
        for (place, figure) in line.figures.iter().enumerate() {
            let Some(figure) = figure else {
                write!(text, "{:>COLUMN$} ", "-")?;
                continue;
            };
            let wins = line.is_own && group.winner(place) == Some(*figure);
            let cell =
                format!("{:>COLUMN$}{}", format!("{figure:.2}k"), if wins { '*' } else { ' ' });
            match wins && coloured {
                true => write!(text, "{GREEN}{cell}{PLAIN}")?,
                false => text.push_str(&cell),
            }
        }
        trim(text);
    }
    writeln!(text)
}

/// Removes trailing blanks.
fn trim(text: &mut String) {
    text.truncate(text.trim_end_matches(' ').len());
}

/// The width of a column, without the asterisk.
const COLUMN: usize = 14;
const GREEN: &str = "\x1b[1;32m";
const PLAIN: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use crate::speed::groups::tests::{report, row};

    #[test]
    fn the_fastest_of_each_column_is_marked() {
        let here = vec![
            row("openssl", 1, 16, 5.0),
            row("lanes", 1, 16, 7.5),
            row("openssl", 1, 64, 9.0),
            row("lanes", 1, 64, 8.0),
        ];
        let report = report(here, vec![row("openssl", 1, 16, 50.0)]);
        let text = report.to_table(false);
        let lines: Vec<_> = text.lines().rev().take(4).collect();
        assert_eq!(
            lines,
            [
                "there: openssl                        50.00k              -",
                "lanes                                  7.50k*         8.00k",
                "openssl                                5.00k          9.00k*",
                "aes-256-cbc, encrypt, 1 thread      16 bytes       64 bytes",
            ]
        );
        assert!(report.to_table(true).contains("\x1b[1;32m         7.50k*\x1b[0m"));
    }
}
