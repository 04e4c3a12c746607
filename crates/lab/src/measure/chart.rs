//! The costs of a job by its size, wall time and CPU time beside each other, as SVG.
//!
//! Both axes are logarithmic. A line is an engine with one worker, and a dashed one the same
//! with as many as it takes, each of whose jobs then counts with its share of the time.

use std::fmt::{self, Write};

use evener_core::{Point, Profile};

use super::table::lines;
use crate::chart::text;

/// The profile as an SVG document.
pub(super) fn svg(profile: &Profile) -> String {
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = draw(&mut svg, profile);
    svg
}

fn draw(svg: &mut String, profile: &Profile) -> fmt::Result {
    let axes = Axes::of(profile);
    let height = PLOT_BOTTOM + 44.0 + LEGEND * profile.engines.len() as f64;
    let width = 2.0 * PANEL;
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    )?;
    let title = format!("What a job costs: {} {}", profile.direction, profile.cipher);
    text(svg, 16.0, 26.0, "font-size=\"16\" font-weight=\"bold\"", &title)?;
    text(svg, 16.0, 46.0, "font-size=\"11\" fill=\"#555\"", &profile.machine)?;
    for (title, left) in [("wall time, µs", 0.0), ("CPU time, µs", PANEL)] {
        axes.draw(svg, left, title)?;
        for (index, engine) in profile.engines.iter().enumerate() {
            for (workers, points) in lines(engine) {
                let place = |point: &Point| {
                    // CPU time is spent by each job, however many workers there are.
                    let us =
                        if left == 0.0 { point.wall_us / workers as f64 } else { point.cpu_us };
                    format!("{:.1},{:.1}", axes.x(left, point.bytes), axes.y(us))
                };
                let places = points.iter().map(place);
                let places = places.collect::<Vec<_>>().join(" ");
                let dashes = if workers > 1 { " stroke-dasharray=\"5 4\"" } else { "" };
                let colour = colour(index);
                writeln!(
                    svg,
                    "<polyline points=\"{places}\" fill=\"none\" stroke=\"{colour}\" \
                     stroke-width=\"2\"{dashes}/>"
                )?;
            }
        }
    }
    for (index, engine) in profile.engines.iter().enumerate() {
        let y = PLOT_BOTTOM + 52.0 + LEGEND * index as f64;
        let (x, colour) = (AXIS, colour(index));
        let mark = y - 9.0;
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{mark:.1}\" width=\"10\" height=\"10\" fill=\"{colour}\"/>"
        )?;
        let dashed = match engine.points_at_depth.is_empty() {
            true => String::new(),
            false => format!("; dashed: with {} workers", engine.depth),
        };
        let words = format!("{} ({}){dashed}", engine.name, engine.detail);
        text(svg, x + 16.0, y, "", &words)?;
    }
    svg.push_str("</svg>\n");
    Ok(())
}

/// From bytes and microseconds to places, by powers of ten and of two.
struct Axes {
    bytes: (f64, f64),
    us: (f64, f64),
}

impl Axes {
    fn of(profile: &Profile) -> Axes {
        let mut axes = Axes { bytes: (f64::MAX, 1.0), us: (f64::MAX, 1e-3) };
        for engine in &profile.engines {
            for (workers, points) in lines(engine) {
                for point in points {
                    let bytes = point.bytes.max(1) as f64;
                    axes.bytes = (axes.bytes.0.min(bytes), axes.bytes.1.max(bytes));
                    for us in [point.wall_us, point.wall_us / workers as f64, point.cpu_us] {
                        axes.us = (axes.us.0.min(us.max(1e-3)), axes.us.1.max(us));
                    }
                }
            }
        }
        let whole = |us: f64| us.log10().floor();
        axes.us = (10_f64.powf(whole(axes.us.0)), 10_f64.powf(whole(axes.us.1) + 1.0));
        axes
    }

    fn x(&self, left: f64, bytes: usize) -> f64 {
        let share = share(bytes.max(1) as f64, self.bytes);
        left + AXIS + share * (PANEL - AXIS - RIGHT)
    }

    fn y(&self, us: f64) -> f64 {
        PLOT_BOTTOM - share(us, self.us) * (PLOT_BOTTOM - PLOT_TOP)
    }

    fn draw(&self, svg: &mut String, left: f64, title: &str) -> fmt::Result {
        text(svg, left + AXIS, PLOT_TOP - 12.0, "font-weight=\"bold\"", title)?;
        let (first, last) = (left + AXIS, left + PANEL - RIGHT);
        let mut us = self.us.0;
        while us <= self.us.1 * 1.01 {
            let y = self.y(us);
            writeln!(
                svg,
                "<line x1=\"{first}\" x2=\"{last}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
            )?;
            let label = format!("{}", (us * 1000.0).round() / 1000.0);
            text(svg, first - 6.0, y + 4.0, "text-anchor=\"end\" fill=\"#555\"", &label)?;
            us *= 10.0;
        }
        for power in 0..40 {
            let bytes = 1_usize << power;
            // Every other power of two, as far as the axis goes.
            if power % 2 == 1 && self.bytes.0 <= bytes as f64 && bytes as f64 <= self.bytes.1 {
                let style = "text-anchor=\"middle\" fill=\"#555\"";
                text(svg, self.x(left, bytes), PLOT_BOTTOM + 16.0, style, &short(bytes))?;
            }
        }
        text(svg, last, PLOT_BOTTOM + 32.0, "text-anchor=\"end\" fill=\"#555\"", "bytes a job")
    }
}

fn share(value: f64, (least, most): (f64, f64)) -> f64 {
    let share = (value / least).ln() / (most / least).ln();
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}

/// `512`, `2K`, `1M`.
fn short(bytes: usize) -> String {
    match bytes {
        0..1024 => bytes.to_string(),
        1024..1_048_576 => format!("{}K", bytes / 1024),
        _ => format!("{}M", bytes / 1_048_576),
    }
}

/// Those that many people tell apart (Okabe and Ito), again from the first where they end.
fn colour(index: usize) -> &'static str {
    const COLOURS: [&str; 7] =
        ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#222222"];
    COLOURS[index % COLOURS.len()]
}

const PANEL: f64 = 480.0;
const AXIS: f64 = 70.0;
const RIGHT: f64 = 20.0;
const PLOT_TOP: f64 = 84.0;
const PLOT_BOTTOM: f64 = 400.0;
const LEGEND: f64 = 18.0;

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = r#"{"machine": "a <board>", "cores": 1, "cipher": "aes-128-cbc",
        "engines": [
            {"name": "openssl", "kind": "cpu", "depth": 1, "points": [
                {"bytes": 8, "wall_us": 0.3, "cpu_us": 0.3},
                {"bytes": 16384, "wall_us": 1178.9, "cpu_us": 1178.9}]},
            {"name": "af_alg", "kind": "module", "depth": 2, "points": [
                {"bytes": 8, "wall_us": 86.9, "cpu_us": 0}], "points_at_depth": [
                {"bytes": 8, "wall_us": 99.9, "cpu_us": 70.1}]}]}"#;

    #[test]
    fn every_engine_has_its_lines_in_both_panels() {
        let svg = svg(&PROFILE.parse().unwrap());
        assert_eq!(svg.matches("<polyline").count(), 6);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert!(svg.contains("a &lt;board&gt;") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn costs_grow_upwards_and_sizes_to_the_right() {
        let axes = Axes::of(&PROFILE.parse().unwrap());
        assert_eq!((axes.us.0, axes.us.1), (0.001, 10_000.0));
        assert!(axes.y(1.0) > axes.y(100.0) && axes.x(0.0, 8) < axes.x(0.0, 4096));
        assert_eq!(axes.x(0.0, 8), AXIS);
    }
}
