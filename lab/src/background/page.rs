//! The report as a page with charts.

use super::report::{BackgroundReport, HEADINGS, Row};
use crate::chart::{Bar, Chart, Panel};
use crate::page::{Cell, Page, Table, escape};

impl BackgroundReport {
    /// The report as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

/// The report as a self-contained HTML page.
fn page(report: &BackgroundReport) -> String {
    let mut page = Page::new(
        "Sharing the CPU",
        "A foreground program beside Evener, which encrypts messages in memory without end.",
    );
    page.section("Who gets how much");
    let caption = "Each bar is a ratio, on a logarithmic scale. The foreground program's time and \
                   lateness are compared with its own, alone; Evener's throughput with its own, \
                   alone and in its normal setting.";
    page.figure("sharing", "", &[chart(report).to_svg()], caption);
    page.section("Figures");
    page.push(&table(report).to_html());
    page.text(
        "Slowdown: how many times as long as alone the foreground program takes for its work. \
         p50 and p99: how long after it was due its short work, every 5 ms, was done. Medians \
         over the rounds.",
    );
    page.section("How they came about");
    let facts = report.facts.iter();
    let facts =
        facts.map(|(name, fact)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(fact)));
    page.push(&format!("<dl>\n{}</dl>", facts.collect::<String>()));
    page.to_html()
}

fn chart(report: &BackgroundReport) -> Chart {
    let alone = report.rows.iter().find(|row| row.setting.is_none());
    let lateness = |row: &Row| Some(row.late_us_p99? / alone?.late_us_p99?);
    Chart {
        title: "Foreground and Evener, beside each other".to_owned(),
        subtitle: "ratios to each alone".to_owned(),
        reference: "alone".to_owned(),
        panels: vec![
            panel(report, "Foreground's time for its work", |row| row.foreground_slowdown),
            panel(report, "Foreground's lateness, 99th percentile", lateness),
            panel(report, "Evener's throughput", |row| row.throughput_ratio),
        ],
    }
}

/// Draws a bar for each setting in which both programs work.
fn panel(report: &BackgroundReport, title: &str, figure: impl Fn(&Row) -> Option<f64>) -> Panel {
    let both = report.rows.iter().filter(|row| row.has_foreground);
    let bars = both.filter_map(|row| {
        let label = row.setting.clone()?;
        let value = figure(row).filter(|value| value.is_finite() && *value > 0.0)?;
        Some(Bar { emphasised: label == "--background", label, value })
    });
    Panel { title: title.to_owned(), bars: bars.collect() }
}

fn table(report: &BackgroundReport) -> Table {
    let head = std::iter::once("").chain(HEADINGS).map(str::to_owned).collect();
    let mut table = Table::new("Medians over the rounds", "", head);
    for row in &report.rows {
        table.row("", &row.name(), row.cells().map(Cell::from).to_vec());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::report;

    #[test]
    fn the_page_has_a_chart_and_a_table_and_needs_nothing_else() {
        let page = super::page(&report());
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        for text in
            ["<figure id=\"sharing\">", ">2.00<", "beside Evener, normal", "a &lt;board&gt;"]
        {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("src="));
    }
}
