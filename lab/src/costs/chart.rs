//! Draws the costs of a job by its size, wall time beside CPU time, as SVG.
//!
//! Both axes are logarithmic. A solid line is an engine with one worker; a dashed line is the same
//! engine with as many workers as it takes, each job then counting with its share of the time.

use evener_core::{EngineProfile, Point, Profile};

use crate::page::{Axis, Line, LineChart, LineStyle, Marker, Scale, Sheet};

/// The profile as an SVG document.
pub(super) fn svg(profile: &Profile) -> String {
    // Each job spends CPU time, whatever the number of workers.
    let wall = |point: &Point, workers| point.wall_us / workers as f64;
    let charts = vec![
        chart(profile, "wall time, µs a job", wall),
        chart(profile, "CPU time, µs a job", |point, _| point.cpu_us),
    ];
    let engines = profile.engines.iter().enumerate();
    Sheet {
        title: format!("What a job costs: {} {}", profile.direction, profile.cipher),
        subtitle: profile.machine.clone(),
        charts,
        legend: engines.map(|(number, engine)| (words(engine), style(number, 1))).collect(),
    }
    .to_svg()
}

fn words(engine: &EngineProfile) -> String {
    let dashed = match engine.points_at_depth.is_empty() {
        true => String::new(),
        false => format!("; dashed: with {} workers", engine.depth),
    };
    format!("{} ({}){dashed}", engine.name, engine.detail)
}

fn chart(profile: &Profile, label: &str, of: fn(&Point, usize) -> f64) -> LineChart {
    let mut drawn = Vec::new();
    for (number, engine) in profile.engines.iter().enumerate() {
        for (workers, points) in engine.by_workers() {
            let points = points.iter().map(|point| (point.bytes as f64, of(point, workers)));
            drawn.push(Line {
                name: engine.name.clone(),
                style: style(number, workers),
                points: points.collect(),
            });
        }
    }
    let axis = |label: &str, ticks| Axis {
        label: label.to_owned(),
        scale: Scale::Logarithmic,
        ticks,
        covers: None,
    };
    LineChart {
        title: format!("{} {}", profile.direction, profile.cipher),
        x: axis("bytes a job", sizes(profile)),
        y: axis(label, Vec::new()),
        lines: drawn,
    }
}

/// The sizes measured, in order.
fn sizes(profile: &Profile) -> Vec<f64> {
    let points =
        profile.engines.iter().flat_map(EngineProfile::by_workers).flat_map(|(_, points)| points);
    let mut sizes: Vec<usize> =
        points.map(|point| point.bytes).filter(|bytes| *bytes > 0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(|bytes| bytes as f64).collect()
}

/// Colours that most people can tell apart (Okabe and Ito); they repeat after the last.
fn style(number: usize, workers: usize) -> LineStyle {
    const STYLES: [(&str, Marker); 6] = [
        ("#0072b2", Marker::Circle),
        ("#d55e00", Marker::Square),
        ("#009e73", Marker::Triangle),
        ("#cc79a7", Marker::Diamond),
        ("#e69f00", Marker::Cross),
        ("#222222", Marker::Star),
    ];
    let (colour, marker) = STYLES[number % STYLES.len()];
    LineStyle { colour, dash: if workers > 1 { "5 4" } else { "" }, width: 2.0, marker }
}

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
    fn every_engine_has_its_lines_in_both_charts() {
        let svg = svg(&PROFILE.parse().unwrap());
        // Three lines in two charts, and two in the legend.
        assert_eq!(svg.matches("<polyline").count(), 2 * 3 + 2);
        assert_eq!(svg.matches("stroke-dasharray").count(), 2);
        assert!(svg.contains("a &lt;board&gt;") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_job_of_several_workers_has_its_share_of_the_time() {
        let chart =
            chart(&PROFILE.parse().unwrap(), "", |point, workers| point.wall_us / workers as f64);
        assert_eq!(chart.lines[2].points, [(8.0, 99.9 / 2.0)]);
        assert_eq!(chart.x.ticks, [8.0, 16384.0]);
    }
}
