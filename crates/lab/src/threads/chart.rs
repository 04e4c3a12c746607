//! Time and speed-up against threads, as SVG, alone or in a page.

use std::fmt::{self, Write};

use evener_core::Cipher;

use super::report::{CONTENDERS, PAPER};
use super::{Contender, ThreadsReport};

/// The report as a page that needs nothing else.
pub(super) fn page(report: &ThreadsReport) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <title>Evener: one buffer on many threads</title>\n\
         <style>body{{font-family:sans-serif;margin:2em}}pre{{font-size:12px}}</style>\n\
         {}<pre>{}</pre>\n</html>\n",
        svg(report),
        escape(&report.to_string())
    )
}

/// Two panels for every cipher and operation: milliseconds, and speed-up beside the paper's.
pub(super) fn svg(report: &ThreadsReport) -> String {
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = draw(&mut svg, report);
    svg
}

fn draw(svg: &mut String, report: &ThreadsReport) -> fmt::Result {
    let cases = report.cases();
    let height = HEAD + ROW * cases.len() as f64;
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    )?;
    let title = format!("{} MB in CTR mode on many threads", report.bytes >> 20);
    text(svg, 16.0, 26.0, "font-size=\"16\" font-weight=\"bold\"", &title)?;
    text(svg, 16.0, 46.0, "font-size=\"11\" fill=\"#555\"", &report.machine.to_string())?;
    for (row, case) in cases.into_iter().enumerate() {
        let top = HEAD + ROW * row as f64;
        let mut times = Vec::new();
        let mut speedups = Vec::new();
        for contender in CONTENDERS {
            let line = report.line(contender, case);
            let (name, colour) = (contender.name(), colour(contender));
            let points = line.iter().map(|row| (row.threads, row.ms_median)).collect();
            times.push(Line { name, colour, dash: "", points });
            let speedup = |row: &&super::Row| Some((row.threads, row.speedup?));
            let points = line.iter().filter_map(speedup).collect();
            speedups.push(Line { name, colour, dash: "", points });
        }
        // The paper had AES-128 only, and one figure for both operations.
        for ((name, of), (colour, dash)) in PAPER.into_iter().zip(PAPER_STYLES) {
            let of_paper = report.paper.iter().filter(|_| case.0 == Cipher::Aes128Ctr.name());
            let points = of_paper.map(|row| (row.threads, of(row))).collect();
            speedups.push(Line { name, colour, dash, points });
        }
        let threads = report.threads();
        let name = format!("{} {}", case.0, case.1);
        panel(svg, (16.0, top), &format!("{name}: milliseconds"), &threads, &times)?;
        panel(svg, (WIDTH / 2.0, top), &format!("{name}: speed-up"), &threads, &speedups)?;
    }
    svg.push_str("</svg>\n");
    Ok(())
}

/// A line of a panel.
struct Line<'a> {
    name: &'a str,
    colour: &'a str,
    /// As in SVG's `stroke-dasharray`; empty for a whole line.
    dash: &'a str,
    points: Vec<(u16, f64)>,
}

/// Lines over threads at even distances, as in the paper, on a logarithmic scale.
fn panel(
    svg: &mut String,
    (left, top): (f64, f64),
    title: &str,
    threads: &[u16],
    lines: &[Line<'_>],
) -> fmt::Result {
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let positive = || values().filter(|value| *value > 0.0);
    let least = positive().fold(1.0, f64::min) * 0.9;
    let most = positive().fold(2.0, f64::max) * 1.1;
    let (from, to) = (left + 46.0, left + WIDTH / 2.0 - 140.0);
    let (high, low) = (top + 24.0, top + ROW - 50.0);
    let step = (to - from) / threads.len().max(1) as f64;
    let x = |count: u16| {
        let place = threads.iter().position(|&other| other == count)?;
        Some(from + step * (place as f64 + 0.5))
    };
    let y = |value: f64| low - (low - high) * (value / least).ln() / (most / least).ln();

    text(svg, left, top + 8.0, "font-weight=\"bold\"", title)?;
    for tick in TICKS.into_iter().filter(|tick| (least..=most).contains(tick)) {
        let y = y(tick);
        writeln!(
            svg,
            "<line x1=\"{from}\" x2=\"{to}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>"
        )?;
        text(svg, from - 6.0, y + 4.0, "text-anchor=\"end\" fill=\"#555\"", &tick.to_string())?;
    }
    for &count in threads {
        let place = x(count).unwrap_or(from);
        text(svg, place, low + 18.0, "text-anchor=\"middle\" fill=\"#555\"", &count.to_string())?;
    }
    let mut label = high + 6.0;
    for Line { name, colour, dash, points } in lines.iter().filter(|line| !line.points.is_empty()) {
        let places: Vec<String> = points
            .iter()
            .filter(|(_, value)| *value > 0.0)
            .filter_map(|&(count, value)| Some(format!("{:.1},{:.1}", x(count)?, y(value))))
            .collect();
        writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{dash}\"/>",
            places.join(" ")
        )?;
        text(svg, to + 10.0, label, &format!("fill=\"{colour}\" font-weight=\"bold\""), name)?;
        label += 17.0;
    }
    Ok(())
}

fn colour(contender: Contender) -> &'static str {
    match contender {
        Contender::Evener => "#c2410c",
        Contender::Openmp => "#0369a1",
        Contender::OpenmpBlocks => "#7dd3fc",
        Contender::Java => "#15803d",
        Contender::JavaBlocks => "#86efac",
        Contender::Memcpy => "#334155",
    }
}

fn text(svg: &mut String, x: f64, y: f64, style: &str, words: &str) -> fmt::Result {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escape(words))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Colours and dashes of the paper's columns.
const PAPER_STYLES: [(&str, &str); 2] = [("#64748b", "8 3"), ("#a8a29e", "3 3")];

/// 1, 2 and 5 in every decade.
const TICKS: [f64; 16] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0,
    10000.0,
];
const WIDTH: f64 = 1100.0;
const HEAD: f64 = 70.0;
const ROW: f64 = 300.0;

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
        let svg = report.to_svg();
        assert_eq!(svg.matches("<polyline").count(), 2 * 2 + 2);
        assert!(svg.contains("paper, Java") && svg.ends_with("</svg>\n"));
        assert!(report.to_html().contains("<pre>"));
    }
}
