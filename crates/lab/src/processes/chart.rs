//! The paper's figure: throughput against processes, a line a discipline, as SVG in a page.

use std::fmt::Write;

use super::ProcessesReport;
use super::report::Row;

/// The report as a page that needs nothing else.
pub(super) fn page(report: &ProcessesReport) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <title>Evener: many processes</title>\n\
         <style>body{font-family:sans-serif;margin:2em}pre{font-size:12px}\
         p{max-width:50em}</style>\n\
         <h1>Many processes that want one engine</h1>\n",
    );
    let mut engines: Vec<&str> = report.rows.iter().map(|row| row.engine.as_str()).collect();
    engines.dedup();
    for engine in engines {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.engine == engine).collect();
        page.push_str(&figure(engine, &rows));
    }
    for verdict in &report.verdicts {
        // Writing to a string does not fail.
        let _ = writeln!(page, "<p>{}</p>", escape(verdict));
    }
    let mut table = String::new();
    let _ = report.table(&mut table);
    let _ = write!(page, "<pre>{}</pre>\n</html>\n", escape(&table));
    page
}

fn figure(engine: &str, rows: &[&Row]) -> String {
    let mut counts: Vec<usize> = rows.iter().map(|row| row.processes).collect();
    counts.sort_unstable();
    counts.dedup();
    let most = rows.iter().map(|row| row.mb_per_s).fold(1.0, f64::max) * 1.1;
    // Process counts stand at even distances, as in the paper.
    let step = (WIDTH - LEFT - RIGHT) / counts.len().max(1) as f64;
    let x = |count: usize| {
        let place = counts.iter().position(|&other| other == count).unwrap_or(0);
        LEFT + step * (place as f64 + 0.5)
    };
    let y = |rate: f64| BOTTOM - (BOTTOM - TOP) * rate / most;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"15\" font-weight=\"bold\">{}: MB/s of all \
         processes together</text>\n",
        escape(engine)
    );
    for tick in 0..=5 {
        let rate = most / 5.0 * f64::from(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{rate:.0}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(rate) + 4.0,
            y = y(rate)
        );
    }
    for &count in &counts {
        let (x, y) = (x(count), BOTTOM + 18.0);
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{count}</text>");
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">processes</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        BOTTOM + 38.0
    );
    for (place, (discipline, colour)) in LINES.iter().enumerate() {
        let line: Vec<&&Row> = rows.iter().filter(|row| row.discipline == *discipline).collect();
        if line.is_empty() {
            continue;
        }
        let points: Vec<String> = line
            .iter()
            .map(|row| format!("{:.1},{:.1}", x(row.processes), y(row.mb_per_s)))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        for row in line {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"><title>{discipline}, \
                 {} processes: {:.1} MB/s</title></circle>",
                x(row.processes),
                y(row.mb_per_s),
                row.processes,
                row.mb_per_s
            );
        }
        let at = TOP + 20.0 * place as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{at}\" fill=\"{colour}\" font-weight=\"bold\">{discipline}</text>",
            WIDTH - RIGHT + 12.0
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

const LINES: [(&str, &str); 3] = [("none", "#64748b"), ("lists", "#0369a1"), ("fifo", "#c2410c")];
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 80.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 320.0;

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn rows() -> Vec<Row> {
        let row = |discipline, processes| Row {
            engine: "<engine>".into(),
            discipline,
            processes,
            mb_per_s: 100.0,
            context_switches: 3.0,
            wait_ms_p50: 0.0,
            wait_ms_p99: 0.0,
            jain: 1.0,
            deviation: 0.0,
        };
        ["none", "fifo"].map(|name| [row(name, 1), row(name, 8)]).concat()
    }

    #[test]
    fn the_page_is_whole_and_has_figures_and_words() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: crate::processes::ProcessesOptions,
        }
        let mut report = ProcessesReport::new(&Line::parse_from(["processes"]).options);
        let permits = crate::processes::Permits { engine: "<engine>".into(), permits: 2 };
        report.add(permits, rows());
        let page = page(&report);
        for tag in ["html", "title", "style", "h1", "svg", "text", "p", "pre", "title"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
            assert!(opened > 0, "{tag}");
        }
        assert!(page.contains("<p>&lt;engine&gt;: fifo makes no difference at 1 and 8"), "{page}");
        // It loads nothing.
        assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="));
    }

    #[test]
    fn every_discipline_has_its_line() {
        let rows = rows();
        let rows: Vec<&Row> = rows.iter().collect();
        let svg = figure("<engine>", &rows);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 4);
        assert!(svg.contains("&lt;engine&gt;"));
    }
}
