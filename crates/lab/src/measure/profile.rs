//! The profile's shape in JSON.

use serde::{Deserialize, Serialize};

/// What engines cost on a machine, for one cipher and direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// A name for the machine.
    pub machine: String,
    /// How many cores the measuring program could use.
    pub cores: usize,
    /// The cipher's OpenSSL name.
    pub cipher: String,
    /// `encrypt` or `decrypt`. Published profiles, which have no such field, are of encryption.
    #[serde(default = "encrypt")]
    pub direction: String,
    /// The engines that offer it.
    pub engines: Vec<EngineProfile>,
}

/// What an engine costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EngineProfile {
    /// The name by which `--engine` selects it.
    pub name: String,
    /// `cpu` or `module`.
    pub kind: String,
    /// Version, driver or device, for people.
    #[serde(default)]
    pub detail: String,
    /// How many workers it takes at once.
    pub depth: usize,
    /// How many jobs it takes in a batch.
    #[serde(default = "one")]
    pub batch: usize,
    /// With one worker, by growing size.
    pub points: Vec<Point>,
    /// With `depth` workers at once; empty where `depth` is 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points_at_depth: Vec<Point>,
}

/// What a job of one size costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The message's length before padding.
    pub bytes: usize,
    /// How long a worker takes for a job, in microseconds. Of several workers at once, each
    /// takes so long, and together they finish `workers / wall_us` jobs in a microsecond.
    pub wall_us: f64,
    /// How long a worker's thread is on a core for a job, in microseconds.
    pub cpu_us: f64,
}

impl Point {
    /// The medians of several measurements of one size.
    pub(super) fn median(points: &[Point]) -> Point {
        let middle = |figure: fn(&Point) -> f64| {
            let mut figures: Vec<_> = points.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            // Nanoseconds are more than a clock can tell.
            figures.get(figures.len() / 2).map_or(0.0, |us| (us * 1000.0).round() / 1000.0)
        };
        Point {
            bytes: points.first().map_or(0, |point| point.bytes),
            wall_us: middle(|point| point.wall_us),
            cpu_us: middle(|point| point.cpu_us),
        }
    }
}

fn encrypt() -> String {
    "encrypt".to_owned()
}

fn one() -> usize {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_profiles_are_read() {
        let text = r#"{"machine": "am3358", "cores": 1, "cipher": "aes-128-cbc", "engines": [
            {"name": "module", "kind": "module", "depth": 1,
             "points": [{"bytes": 8, "wall_us": 86.9, "cpu_us": 86.85}]}]}"#;
        let profile: Profile = serde_json::from_str(text).unwrap();
        assert_eq!(profile.direction, "encrypt");
        assert_eq!(profile.engines[0].points[0].wall_us, 86.9);
        let again: Profile =
            serde_json::from_str(&serde_json::to_string(&profile).unwrap()).unwrap();
        assert_eq!(again, profile);
    }

    #[test]
    fn medians_are_of_each_figure() {
        let point = |wall_us, cpu_us| Point { bytes: 16, wall_us, cpu_us };
        let points = [point(3.0, 1.0), point(1.0, 2.0), point(2.0, 3.0)];
        assert_eq!(Point::median(&points), point(2.0, 2.0));
    }
}
