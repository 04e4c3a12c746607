//! Draws time and speed-up by number of threads, on a sheet or in a page.

use evener_core::Cipher;

use super::Contender;
use super::report::{CONTENDERS, PAPER, ThreadsReport};
use crate::page::{Axis, Line, LineChart, LineStyle, Marker, Page, Scale, Sheet, legend};

impl ThreadsReport {
    /// Time and speed-up by number of threads, as an SVG document.
    pub fn to_svg(&self) -> String {
        svg(self)
    }

    /// The drawing and the tables, as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

/// The report as a self-contained HTML page.
fn page(report: &ThreadsReport) -> String {
    let mut page = Page::new(&title(report), &report.machine.to_string());
    let lines = styles(report);
    let legend = legend(lines.iter().map(|(name, style)| (name.as_str(), *style)));
    for (number, case) in report.cases().into_iter().enumerate() {
        page.section(&format!("{} {}", case.0, case.1));
        let panels = [times(report, case), speedups(report, case)].map(|chart| chart.to_svg());
        let caption = "Less time and more speed-up are better; all axes are logarithmic.";
        page.figure(&format!("case-{number}"), &legend, &panels, caption);
    }
    page.section("Tables");
    page.preformatted(&report.to_string());
    page.to_html()
}

/// Two charts for every cipher and operation: milliseconds, and speed-up beside the paper's.
fn svg(report: &ThreadsReport) -> String {
    let of_case = |case| [times(report, case), speedups(report, case)];
    Sheet {
        title: title(report),
        subtitle: report.machine.to_string(),
        charts: report.cases().into_iter().flat_map(of_case).collect(),
        legend: styles(report),
    }
    .to_svg()
}

fn title(report: &ThreadsReport) -> String {
    format!("{} MB in CTR mode on many threads", report.bytes >> 20)
}

/// The names of the measurements, each with its style.
fn styles(report: &ThreadsReport) -> Vec<(String, LineStyle)> {
    let took_part =
        |contender: &Contender| report.rows.iter().any(|row| row.contender == *contender);
    let here = CONTENDERS.into_iter().filter(took_part);
    let here = here.map(|contender| (contender.name().to_owned(), style(contender)));
    let paper = PAPER.into_iter().zip(PAPER_STYLES);
    here.chain(paper.map(|((name, _), style)| (name.to_owned(), style))).collect()
}

fn times(report: &ThreadsReport, case: (&str, &str)) -> LineChart {
    let lines = CONTENDERS.into_iter().map(|contender| {
        let line = report.line(contender, case);
        let points = line.iter().map(|row| (f64::from(row.threads), row.ms_median)).collect();
        Line { name: contender.name().to_owned(), style: style(contender), points }
    });
    chart(case, "milliseconds", report.threads(), lines.collect())
}

fn speedups(report: &ThreadsReport, case: (&str, &str)) -> LineChart {
    let here = CONTENDERS.into_iter().map(|contender| {
        let line = report.line(contender, case);
        let points = line.iter().filter_map(|row| Some((f64::from(row.threads), row.speedup?)));
        let points = points.collect();
        Line { name: contender.name().to_owned(), style: style(contender), points }
    });
    // The paper has only AES-128, and one figure for both operations.
    let of_paper = report.paper.iter().filter(|_| case.0 == Cipher::Aes128Ctr.name());
    let paper = PAPER.into_iter().zip(PAPER_STYLES).map(|((name, of), style)| {
        let points = of_paper.clone().map(|row| (f64::from(row.threads), of(row))).collect();
        Line { name: name.to_owned(), style, points }
    });
    let mut threads = report.threads();
    threads.extend(of_paper.clone().map(|row| row.threads));
    threads.sort_unstable();
    threads.dedup();
    chart(case, "speed-up over one thread", threads, here.chain(paper).collect())
}

fn chart(
    (cipher, operation): (&str, &str),
    what: &str,
    threads: Vec<u16>,
    lines: Vec<Line>,
) -> LineChart {
    let axis = |label: &str, ticks| Axis {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
        ticks,
        covers: None,
    };
    LineChart {
        title: format!("{cipher} {operation}"),
        x: axis("threads", threads.into_iter().map(f64::from).collect()),
        y: axis(what, Vec::new()),
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
    }
}

fn style(contender: Contender) -> LineStyle {
    let (colour, dash, marker) = match contender {
        Contender::Evener => ("#c2410c", "", Marker::Circle),
        Contender::Openmp => ("#0369a1", "", Marker::Square),
        Contender::OpenmpBlocks => ("#0369a1", "6 3", Marker::Square),
        Contender::Java => ("#15803d", "", Marker::Triangle),
        Contender::JavaBlocks => ("#15803d", "6 3", Marker::Triangle),
        Contender::Memcpy => ("#334155", "", Marker::Diamond),
    };
    LineStyle { colour, dash, width: 2.0, marker }
}

/// The styles of the paper's columns.
const PAPER_STYLES: [LineStyle; 2] = [
    LineStyle { colour: "#0369a1", dash: "2 3", width: 1.5, marker: Marker::Cross },
    LineStyle { colour: "#15803d", dash: "2 3", width: 1.5, marker: Marker::Star },
];

#[cfg(test)]
mod tests {
    use super::super::paper;
    use super::super::report::Row;
    use super::*;
    use crate::Machine;

    #[test]
    fn every_contender_and_the_paper_have_lines() {
        let row = |contender, threads| Row {
            contender,
            cipher: "aes-128-ctr".to_owned(),
            operation: "encrypt".to_owned(),
            threads,
            ms_median: 10.0,
            speedup: Some(f64::from(threads)),
        };
        let contenders = [Contender::Evener, Contender::Memcpy];
        let report = ThreadsReport {
            machine: Machine::look(),
            bytes: 64 << 20,
            rounds: 1,
            versions: Vec::new(),
            rows: contenders.map(|contender| [row(contender, 1), row(contender, 8)]).concat(),
            skipped: Vec::new(),
            paper: paper::table(),
        };
        // Two contenders in two charts, the paper in one, and four in the legend.
        let svg = report.to_svg();
        assert_eq!(svg.matches("<polyline").count(), 2 * 2 + 2 + 4);
        assert!(svg.contains("paper, Java") && svg.ends_with("</svg>\n"));
        let page = report.to_html();
        assert_eq!(page.matches("<polyline").count(), 2 * 2 + 2 + 4);
        assert!(page.contains("<pre"));
    }
}
