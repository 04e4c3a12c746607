//! Tables that fit the terminal.

use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// A column's heading, and the order in which columns are left out on a narrow terminal: those with
/// the highest number first, those with 0 never.
pub(crate) type Column = (&'static str, usize);

/// The width of a terminal, in characters; `None` if it is no terminal, or doesn't report it.
pub(crate) fn width_of(terminal: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|&width| width > 0)
}

/// Returns the table's lines, with its headings; the first column is aligned to the left. On a
/// terminal of this width, columns that don't fit are left out.
pub(crate) fn lines<const N: usize>(
    columns: &[Column; N],
    rows: &[[String; N]],
    terminal: Option<usize>,
) -> Vec<String> {
    let headings = columns.map(|(heading, _)| heading.to_owned());
    let rows = || [&headings].into_iter().chain(rows);
    let width =
        |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let shown = |most: usize| (0..N).filter(move |&column| columns[column].1 <= most);
    let fits = |most: usize| {
        let total = shown(most).map(|column| GAP + widths[column]).sum::<usize>();
        terminal.is_none_or(|columns| total <= columns + GAP)
    };
    let last = columns.iter().map(|column| column.1).max().unwrap_or_default();
    let most = (0..=last).rev().find(|&most| fits(most)).unwrap_or_default();
    let line = |row: &[String; N]| {
        let mut line = String::new();
        for column in shown(most) {
            let (cell, width) = (&row[column], widths[column]);
            match column {
                0 => line.push_str(&format!("{cell:width$}")),
                _ => line.push_str(&format!("{:GAP$}{cell:>width$}", "")),
            }
        }
        line
    };
    rows().map(line).collect()
}

/// Spaces between two columns.
const GAP: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_fewer_columns() {
        let columns = [("engine", 0), ("files", 0), ("jobs", 1), ("busy s", 2), ("CPU s", 3)];
        let row = ["cpu", "1", "4", "0.000", "0.000"].map(str::to_owned);
        let table = |terminal| lines(&columns, std::slice::from_ref(&row), terminal);
        let whole = ["engine  files  jobs  busy s  CPU s", "cpu         1     4   0.000  0.000"];
        assert_eq!(table(None), whole);
        assert_eq!(table(Some(34)), whole);
        assert_eq!(table(Some(33))[1], "cpu         1     4   0.000");
        assert_eq!(table(Some(20))[1], "cpu         1     4");
        assert_eq!(table(Some(18))[1], "cpu         1");
        assert_eq!(table(Some(5))[1], "cpu         1");
    }
}
