//! Bar charts: one for each cipher, direction and number of threads, with a bar for every
//! engine and length.

use std::fmt::{self, Write};

use super::groups::{Group, Line, groups, lengths};
use super::report::SpeedReport;
use crate::page::{Page, escape, text};

impl SpeedReport {
    /// Bar charts, as an SVG document.
    pub fn to_svg(&self) -> String {
        svg(self)
    }

    /// Bar charts and the table, as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

/// All charts as one SVG document, two per row.
fn svg(report: &SpeedReport) -> String {
    let mut svg = String::new();
    // Writing to a string can't fail.
    let _ = draw(&mut svg, report);
    svg
}

/// The charts and the table as a self-contained HTML page.
fn page(report: &SpeedReport) -> String {
    let mut page = Page::new("Speed of engines", &report.machine.to_string());
    page.figure("speed", "", &[svg(report)], TITLE);
    page.section("Table");
    page.preformatted(&report.to_table(false));
    page.to_html()
}

fn draw(svg: &mut String, report: &SpeedReport) -> fmt::Result {
    let lengths = lengths(report);
    let groups = groups(report, &lengths);
    let each = width(&groups);
    let columns = if groups.len() == 1 || each > WIDTH { 1 } else { 2 };
    let heights = groups.chunks(columns).map(|row| {
        let lines = row.iter().map(|group| group.lines.len()).max().unwrap_or(0);
        PLOT + LEGEND * lines as f64
    });
    let heights: Vec<f64> = heights.collect();
    // Each engine has the same colour in all charts.
    let mut engines: Vec<&str> = Vec::new();
    for line in groups.iter().flat_map(|group| &group.lines) {
        if !engines.contains(&&line.label[..]) {
            engines.push(&line.label);
        }
    }
    let (width, height) = (each * columns as f64, TOP + heights.iter().sum::<f64>());
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    )?;
    text(svg, (16.0, 26.0), "font-size=\"16\" font-weight=\"bold\"", TITLE)?;
    text(svg, (16.0, 46.0), "font-size=\"11\" fill=\"#555\"", &report.machine.to_string())?;
    let mut top = TOP;
    for (row, height) in groups.chunks(columns).zip(heights) {
        for (column, group) in row.iter().enumerate() {
            draw_group(svg, group, &engines, (each * column as f64, top), each)?;
        }
        top += height;
    }
    svg.push_str("</svg>\n");
    Ok(())
}

/// The width of each chart: enough for the vertical figures above the bars.
fn width(groups: &[Group<'_>]) -> f64 {
    let bars = groups.iter().map(|group| group.lines.len() * group.lengths.len()).max();
    let needed = bars.unwrap_or(0) as f64 * NARROWEST_BAR / FILLED;
    WIDTH.max((AXIS + needed + RIGHT).ceil())
}

fn draw_group(
    svg: &mut String,
    group: &Group<'_>,
    engines: &[&str],
    (left, top): (f64, f64),
    width: f64,
) -> fmt::Result {
    let colour = |line: &Line| {
        let place = engines.iter().position(|engine| *engine == line.label).unwrap_or(0);
        COLOURS[place % COLOURS.len()]
    };
    let figures = group.lines.iter().flat_map(|line| line.figures.iter().flatten());
    let most = round_up(figures.copied().fold(0.0, f64::max));
    let unit = unit(most);
    let (first, last) = (left + AXIS, left + width - RIGHT);
    let (roof, floor) = (top + 60.0, top + PLOT - 44.0);
    let y = |figure: f64| floor - (floor - roof) * figure / most;
    text(svg, (left + 16.0, top + 18.0), "font-weight=\"bold\"", &group.title())?;
    for tick in 0..=4 {
        let figure = most / 4.0 * f64::from(tick);
        let (y, label) = (y(figure), in_unit(figure, unit));
        writeln!(
            svg,
            "<line x1=\"{first}\" x2=\"{last}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
        )?;
        text(svg, (first - 6.0, y + 4.0), "text-anchor=\"end\" fill=\"#555\"", &label)?;
    }
    let step = (last - first) / group.lengths.len() as f64;
    let bar = (step * FILLED / group.lines.len() as f64).min(40.0);
    for (place, bytes) in group.lengths.iter().enumerate() {
        let start = first + step * place as f64;
        let label = format!("{bytes} bytes");
        text(svg, (start + step / 2.0, floor + 16.0), "text-anchor=\"middle\"", &label)?;
        let mut x = start + (step - bar * group.lines.len() as f64) / 2.0;
        for line in &group.lines {
            if let Some(figure) = line.figures[place] {
                let (y, colour) = (y(figure), colour(line));
                let wins = line.is_own && group.winner(place) == Some(figure);
                writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     fill=\"{colour}\"><title>{}, {bytes} bytes: {figure:.2}k</title></rect>",
                    bar * 0.9,
                    floor - y,
                    escape(&line.label)
                )?;
                let (x, y) = (x + bar * 0.45 + 3.0, y - 4.0);
                let weight = if wins { " font-weight=\"bold\"" } else { "" };
                let style =
                    format!("font-size=\"9\"{weight} transform=\"rotate(-90 {x:.1} {y:.1})\"");
                let star = if wins { "*" } else { "" };
                text(svg, (x, y), &style, &format!("{}{star}", short(figure)))?;
            }
            x += bar;
        }
    }
    for (index, line) in group.lines.iter().enumerate() {
        let y = top + PLOT - 8.0 + LEGEND * index as f64;
        writeln!(
            svg,
            "<rect x=\"{first}\" y=\"{:.1}\" width=\"10\" height=\"10\" fill=\"{}\"/>",
            y - 9.0,
            colour(line)
        )?;
        text(svg, (first + 16.0, y), "", &line.label)?;
    }
    Ok(())
}

/// Formats a figure given in kB/s, with few digits.
fn short(kb_per_s: f64) -> String {
    in_unit(kb_per_s, unit(kb_per_s))
}

fn in_unit(kb_per_s: f64, (name, size): (&str, f64)) -> String {
    let figure = kb_per_s / size;
    let digits = match figure {
        whole if whole.fract() == 0.0 || whole >= 100.0 => 0,
        small if small < 10.0 => 2,
        _ => 1,
    };
    format!("{figure:.digits$} {name}")
}

/// The unit for figures like this one, and its size in kB/s.
fn unit(kb_per_s: f64) -> (&'static str, f64) {
    match kb_per_s {
        large if large >= 1e6 => ("GB/s", 1e6),
        middle if middle >= 1e3 => ("MB/s", 1e3),
        _ => ("kB/s", 1.0),
    }
}

/// Rounds up to 1, 1.5, 2, 3, 4, 6, 8 or 10 times a power of ten.
fn round_up(figure: f64) -> f64 {
    let power = 10_f64.powf(figure.max(1.0).log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];
    let step = steps.into_iter().find(|step| step * power >= figure);
    step.unwrap_or(10.0) * power
}

/// Colours for colour-blind readers (Okabe and Ito), repeated if there are more engines.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#222222"];

const TITLE: &str = "Bytes a second by cipher, engine and message length; * is the fastest";
const TOP: f64 = 60.0;
/// A chart's usual width, and its height without the legend.
const WIDTH: f64 = 620.0;
const PLOT: f64 = 330.0;
/// The height of a line of the legend.
const LEGEND: f64 = 18.0;
/// The space for the axis, and to the right of the bars.
const AXIS: f64 = 90.0;
const RIGHT: f64 = 16.0;
/// The bars' share of the space for a length.
const FILLED: f64 = 0.8;
/// The height of the vertical figure above a bar.
const NARROWEST_BAR: f64 = 12.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::groups::tests::{report, row};

    #[test]
    fn every_figure_has_its_bar() {
        let here = vec![row("openssl", 1, 16, 5.0), row("<lanes>", 1, 16, 7.5)];
        let report = report(here, vec![row("openssl", 1, 16, 50.0)]);
        let svg = report.to_svg();
        assert_eq!(svg.matches("<title>").count(), 3);
        assert!(
            svg.contains("&lt;lanes&gt;, 16 bytes: 7.50k") && svg.contains("7.50 kB/s*"),
            "{svg}"
        );
        let page = report.to_html();
        assert!(page.contains("</svg>") && page.contains("&lt;lanes&gt;   "), "{page}");
        assert!(!page.contains("http-equiv") && page.matches("http").count() == 1, "{page}");
    }

    #[test]
    fn many_bars_make_a_chart_wider() {
        let few = report(vec![row("openssl", 1, 16, 5.0)], Vec::new());
        let lengths = lengths(&few);
        assert_eq!(width(&groups(&few, &lengths)), WIDTH);
        let rows = (0..60).map(|number| row(&format!("engine-{number}"), 1, 16, 5.0));
        let many = report(rows.collect(), Vec::new());
        assert_eq!(width(&groups(&many, &lengths)), 90.0 + 60.0 * 15.0 + 16.0);
        assert!(many.to_svg().contains("viewBox=\"0 0 1006 "));
    }

    #[test]
    fn scales_end_at_round_figures() {
        assert_eq!([0.0, 1.0, 1.1, 799.0, 850.0].map(round_up), [1.0, 1.0, 1.5, 800.0, 1000.0]);
        assert_eq!(
            [900.0, 25_000.0, 2.5e6, 3.2e7].map(short).join(" "),
            "900 kB/s 25 MB/s 2.50 GB/s 32 GB/s"
        );
    }
}
