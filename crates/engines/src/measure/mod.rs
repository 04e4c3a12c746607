//! Measures engines by cipher, direction and size, for a profile.
//!
//! The adaptive policy starts from a [`Profile`], which has the wall time and the CPU time of a job
//! on a worker for every size. For a CPU engine the CPU time is the whole time. For a module it is
//! the time of system calls and copies. The time that the driver's threads and interrupts take in
//! addition is a separate figure.

mod left;
mod point;
mod start;

use std::sync::Arc;
use std::time::Duration;

use evener_core::{
    Cipher, Direction, Engine, EngineError, EngineProfile, Includes, Kind, Mode, Point, Profile,
};

use crate::{Probed, Watch};

use point::Measurement;

/// Finds an engine to measure: a module is tested with known answers, but no job is verified.
///
/// # Errors
/// As [`find`](crate::find).
pub fn find(name: &str) -> Result<Arc<dyn Engine>, EngineError> {
    crate::find_with(name, &|_| None, Watch::of_a_benchmark())
}

/// Probes for all engines to measure.
pub fn probe_all() -> Vec<Probed> {
    let alone = |Probed { name, engine }: Probed| {
        let engine = engine.and_then(|it| crate::watched(&it, Watch::of_a_benchmark()));
        Probed { name, engine }
    };
    crate::probe_all().into_iter().map(alone).collect()
}

/// Returns those of the engines to measure that load foreign code. No selectors stand for all
/// engines.
pub fn foreign(selectors: &[String]) -> Vec<String> {
    let all: Vec<_> = crate::names().map(str::to_owned).collect();
    let chosen = if selectors.is_empty() { &all } else { selectors };
    chosen.iter().filter(|selector| crate::loads_foreign_code(selector)).cloned().collect()
}

/// The measurements to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The cipher.
    pub cipher: Cipher,
    /// Encrypt or decrypt.
    pub direction: Direction,
    /// Message lengths in bytes, before padding.
    pub sizes: Vec<usize>,
    /// The time of a point in one round.
    pub time: Duration,
    /// The number of rounds. A point's figures are the medians over them.
    pub rounds: usize,
}

impl Plan {
    /// The sizes of the AM3358's profile, and larger ones up to a mebibyte.
    pub const SIZES: &'static [usize] =
        &[8, 16, 64, 256, 1024, 4096, 8192, 16_384, 65_536, 262_144, 1_048_576];

    /// A plan with the usual sizes; it takes one to three seconds per size and engine.
    pub fn new(cipher: Cipher, direction: Direction) -> Plan {
        let mut sizes = Plan::SIZES.to_vec();
        if cipher.mode() == Mode::Xts {
            sizes.retain(|&size| size >= 16);
        }
        Plan { cipher, direction, sizes, time: Duration::from_millis(100), rounds: 5 }
    }
}

/// Measures the engines that offer the cipher, with one worker and with `depth` workers. The
/// engines alternate within each round, so that a change of the machine's speed affects all of
/// them.
///
/// # Errors
/// When an engine fails or rejects a job.
pub fn measure(
    machine: &str,
    engines: &[&dyn Engine],
    plan: &Plan,
) -> Result<Profile, EngineError> {
    let mut profiles = Vec::new();
    for engine in engines {
        let Some(offer) = engine.offer(plan.cipher, plan.direction) else { continue };
        let depths = if offer.depth > 1 { vec![1, offer.depth] } else { vec![1] };
        profiles.push((*engine, offer, depths, Duration::MAX, Vec::new()));
    }
    for &bytes in &plan.sizes {
        let mut rounds: Vec<Vec<Vec<Point>>> =
            profiles.iter().map(|(_, _, depths, ..)| vec![Vec::new(); depths.len()]).collect();
        for _ in 0..plan.rounds.max(1) {
            for ((engine, offer, depths, opening, _), rounds) in
                profiles.iter_mut().zip(&mut rounds)
            {
                for (&workers, points) in depths.iter().zip(rounds) {
                    let (engine, offer) = (*engine, *offer);
                    let measurement = Measurement { engine, plan, bytes, workers, offer };
                    let (mut point, took) = measurement.seen()?;
                    *opening = took.min(*opening);
                    if cfg!(target_os = "linux") && engine.description().kind == Kind::Module {
                        let most = (point.wall_us - point.cpu_us).max(0.0);
                        point.hidden_us = measurement.hidden()?.min(most);
                    }
                    points.push(point);
                }
            }
        }
        for ((.., rows), rounds) in profiles.iter_mut().zip(rounds) {
            rows.push(rounds.iter().map(|points| median(points)).collect::<Vec<_>>());
        }
    }
    let engines = profiles.into_iter().map(|(engine, offer, _, opening, rows)| {
        let description = engine.description();
        EngineProfile {
            name: description.name.clone(),
            kind: description.kind,
            detail: description.detail.clone(),
            depth: offer.depth,
            batch: offer.batch,
            bytes: offer.bytes,
            open_us: rounded(if rows.is_empty() { 0.0 } else { opening.as_secs_f64() * 1e6 }),
            points: rows.iter().filter_map(|row| row.first().copied()).collect(),
            points_at_depth: rows.iter().filter_map(|row| row.get(1).copied()).collect(),
        }
    });
    Ok(Profile {
        machine: machine.to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        cipher: plan.cipher.name().to_owned(),
        direction: plan.direction.to_string(),
        includes: Includes::Engine,
        engines: engines.collect(),
    })
}

/// The medians of several measurements of one size. Time that other programs take seems hidden,
/// too, so the hidden time is the minimum.
fn median(points: &[Point]) -> Point {
    let middle = |figure: fn(&Point) -> f64| {
        let mut figures: Vec<_> = points.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().map_or(0.0, rounded)
    };
    let least = points.iter().map(|point| point.hidden_us).reduce(f64::min);
    let least = least.map_or(0.0, rounded);
    Point {
        bytes: points.first().map_or(0, |point| point.bytes),
        wall_us: middle(|point| point.wall_us),
        cpu_us: middle(|point| point.cpu_us),
        hidden_us: least,
    }
}

/// Clocks are not more precise than nanoseconds.
fn rounded(microseconds: f64) -> f64 {
    (microseconds * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_each_figure_but_the_hidden() {
        let point = |wall_us, cpu_us, hidden_us| Point { bytes: 16, wall_us, cpu_us, hidden_us };
        let points = [point(3.0, 1.0, 0.5), point(1.0, 2.0, 0.25), point(2.0, 3.0, 1.5)];
        assert_eq!(median(&points), point(2.0, 2.0, 0.25));
    }
}
