//! The report as a page with charts.

use super::TlsReport;
use super::display::{EXPLANATION, HEADINGS, RATIOS};
use super::report::Row;
use crate::chart::{Bar, Chart, Panel};
use crate::page::{Cell, Page, Table, escape};
use crate::statistics::Interval;

impl TlsReport {
    /// The report as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        let lead = "nginx with OpenSSL's own ciphers and with Evener's, over loopback, in turns.";
        let mut page = Page::new("TLS", lead);
        page.section("nginx's CPU time");
        let chart =
            self.chart("CPU time of nginx's workers for the same bytes", |row| row.cpu_to_default);
        let caption = "Each bar is a ratio to OpenSSL's own ciphers: to the left is less CPU time. A \
                       label has the body and the number of connections.";
        page.figure("cpu", "", &[chart.to_svg()], caption);
        page.section("Requests a second");
        let chart = self.chart("Requests a second", |row| row.requests_to_default);
        let caption = "To the right is faster. Where each request has a connection of its own, these \
                       are handshakes a second. Where the client needs more CPU time than nginx, it \
                       decides how many there are.";
        page.figure("requests", "", &[chart.to_svg()], caption);
        page.section("Figures");
        for rows in self.rows.chunk_by(|one, other| one.case.subject() == other.case.subject()) {
            page.push(&table(rows).to_html());
        }
        page.text(EXPLANATION);
        for case in &self.left_out {
            page.text(&format!("Left out (--most): {case}"));
        }
        if !self.starts.is_empty() {
            page.section("Start to end of `openssl version`");
            let starts: Vec<_> = self.starts.iter().map(ToString::to_string).collect();
            page.preformatted(&starts.join("\n"));
        }
        page.section("How they came about");
        let facts = self.facts().into_iter().map(|fact| format!("<li>{}</li>\n", escape(fact)));
        page.push(&format!("<ul>\n{}</ul>", facts.collect::<String>()));
        page.to_html()
    }

    /// Draws a panel for each subject, with a bar for each row that has the figure.
    fn chart(&self, title: &str, figure: fn(&Row) -> Option<Interval>) -> Chart {
        let subjects = self.rows.chunk_by(|one, other| one.case.subject() == other.case.subject());
        let panels = subjects.map(|rows| Panel {
            title: rows.first().map(|row| row.case.heading()).unwrap_or_default(),
            bars: rows.iter().filter_map(|row| bar(row, figure(row)?)).collect(),
        });
        Chart {
            title: title.to_owned(),
            subtitle: "ratio to OpenSSL's own ciphers, medians of the rounds".to_owned(),
            reference: "default".to_owned(),
            panels: panels.collect(),
        }
    }
}

fn bar(row: &Row, ratio: Interval) -> Option<Bar> {
    let label = format!("{}, {}", row.contender, row.case.load());
    let emphasised = row.contender == "evener";
    (ratio.median > 0.0).then_some(Bar { label, value: ratio.median, emphasised })
}

fn table(rows: &[Row]) -> Table {
    let caption = rows.first().map(|row| row.case.heading()).unwrap_or_default();
    let head = ["body × connections", "contender"].into_iter().chain(HEADINGS).chain(RATIOS);
    let mut table = Table::new(&caption, "", head.map(str::to_owned).collect());
    for row in rows {
        let cells = [row.contender.clone()].into_iter().chain(row.figures.cells());
        let cells = cells.chain(row.ratios()).map(Cell::from);
        table.row("", &row.case.load(), cells.collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;

    #[test]
    fn the_page_has_charts_and_tables_and_needs_nothing_else() {
        let page = report().to_html();
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert_eq!(page.matches("<table").count(), 2);
        for text in [
            "<figure id=\"cpu\">",
            "<figure id=\"requests\">",
            "evener, 16 KiB × 16",
            "0.50 (0.50 to 1.00)",
            "&lt;OpenSSL&gt;",
            "more than default: 0.50",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("<OpenSSL>"));
    }
}
