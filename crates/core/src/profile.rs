//! Profiles: the costs of a machine's engines.
//!
//! A profile is measured on a machine, or derived from published figures. Policies start from it,
//! and models of the machine take their times from it. The JSON has these fields, with these names.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Kind;

/// The costs of a machine's engines, for one cipher and direction.
///
/// A profile parsed from JSON, with [`str::parse`], has at least one engine, every engine has at
/// least one point, and all figures are finite and not negative.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// A name for the machine.
    pub machine: String,
    /// The number of cores that the measuring program could use.
    pub cores: usize,
    /// The cipher's OpenSSL name.
    pub cipher: String,
    /// `encrypt` or `decrypt`. Published profiles, which lack this field, are of encryption.
    #[serde(default = "encrypt")]
    pub direction: String,
    /// The scope of the measurement.
    #[serde(default, skip_serializing_if = "Includes::is_usual")]
    pub includes: Includes,
    /// The engines that offer the cipher.
    pub engines: Vec<EngineProfile>,
}

/// The scope of a profile's costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Includes {
    /// The engine's own work.
    #[default]
    Engine,
    /// Whole runs, divided by the number of jobs. They include the work of a worker's thread
    /// between two jobs, such as claiming the next task. A model of the engine counts the thread's
    /// CPU time since its previous job as part of the cost.
    Queue,
}

/// The costs of one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineProfile {
    /// The name that selects the engine.
    pub name: String,
    /// Where the engine computes.
    pub kind: Kind,
    /// Version, driver or device, for people.
    #[serde(default)]
    pub detail: String,
    /// The recommended number of workers.
    pub depth: usize,
    /// The recommended number of jobs in a batch.
    #[serde(default = "one")]
    pub batch: usize,
    /// The recommended number of bytes of a batch; 0 where only the number of jobs matters.
    #[serde(default, skip_serializing_if = "is_none")]
    pub bytes: usize,
    /// Wall time of opening a session, including its tests and its first job, in microseconds; 0 if
    /// it was not measured.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_us: f64,
    /// With one worker, by ascending size.
    pub points: Vec<Point>,
    /// With `depth` workers at once; empty if `depth` is 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub points_at_depth: Vec<Point>,
}

/// The cost of a job of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The message's length before padding.
    pub bytes: usize,
    /// Wall time of a job on one worker, in microseconds. Several workers together finish
    /// `workers / wall_us` jobs per microsecond.
    pub wall_us: f64,
    /// CPU time of the worker's thread for a job, in microseconds.
    pub cpu_us: f64,
    /// CPU time for a job that the thread's clock does not show (a driver's thread, an interrupt),
    /// in microseconds; a part of `wall_us`. Measured for modules on Linux; otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden_us: f64,
}

/// Errors of reading a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not JSON, or a field is missing or has the wrong type.
    #[error("malformed profile: {0}")]
    Malformed(String),
    /// A figure makes no sense; the text names it.
    #[error("malformed profile: {0}")]
    Senseless(String),
}

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(json: &str) -> Result<Profile, ProfileError> {
        let mut profile: Profile = serde_json::from_str(json)
            .map_err(|error| ProfileError::Malformed(error.to_string()))?;
        profile.check().map_err(ProfileError::Senseless)?;
        for engine in &mut profile.engines {
            engine.points.sort_by_key(|point| point.bytes);
            engine.points_at_depth.sort_by_key(|point| point.bytes);
        }
        Ok(profile)
    }
}

impl Profile {
    /// The engine of this name.
    pub fn engine(&self, name: &str) -> Option<&EngineProfile> {
        self.engines.iter().find(|engine| engine.name == name)
    }

    /// The profile as JSON, ending in a newline.
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self);
        json.expect("strings, numbers and lists are always JSON") + "\n"
    }

    fn check(&self) -> Result<(), String> {
        if self.cores == 0 || self.engines.is_empty() {
            return Err("it needs a core and an engine".to_owned());
        }
        for engine in &self.engines {
            let name = &engine.name;
            if engine.depth == 0 || engine.batch == 0 || engine.points.is_empty() {
                return Err(format!("engine {name} needs a depth, a batch and points"));
            }
            let fine = |us: f64| us.is_finite() && us >= 0.0;
            if !fine(engine.open_us) {
                return Err(format!("engine {name} opens sessions in no time"));
            }
            for point in engine.points.iter().chain(&engine.points_at_depth) {
                if !fine(point.wall_us) || !fine(point.cpu_us) || !fine(point.hidden_us) {
                    return Err(format!("engine {name} at {} bytes takes no time", point.bytes));
                }
            }
        }
        Ok(())
    }
}

impl Includes {
    /// Returns whether it is the default, which files omit.
    fn is_usual(&self) -> bool {
        *self == Includes::default()
    }
}

impl EngineProfile {
    /// The measurements by number of workers: with one, and with `depth` if that was measured.
    pub fn by_workers(&self) -> impl Iterator<Item = (usize, &[Point])> {
        let both = [(1, &self.points[..]), (self.depth, &self.points_at_depth[..])];
        both.into_iter().filter(|(_, points)| !points.is_empty())
    }

    /// The cost of a job of `bytes` with one worker: interpolated between the neighbouring points,
    /// extrapolated beyond the last two; below the first point, the cost of that point.
    pub fn cost(&self, bytes: usize) -> Point {
        let after = self.points.partition_point(|point| point.bytes < bytes);
        let (one, other) = match (self.points.get(after), after.checked_sub(1)) {
            (Some(&first), None) => (first, first),
            (Some(&next), Some(before)) => (self.points[before], next),
            (None, Some(last)) => (self.points[last.saturating_sub(1)], self.points[last]),
            (None, None) => return Point { bytes, wall_us: 0.0, cpu_us: 0.0, hidden_us: 0.0 },
        };
        let along = match other.bytes - one.bytes {
            0 => 0.0,
            gap => (bytes as f64 - one.bytes as f64) / gap as f64,
        };
        let on_line = |from: f64, to: f64| {
            // Costs that shrink with size are noise; extrapolating them would reach zero.
            if along > 1.0 {
                to + (to - from).max(0.0) * (along - 1.0)
            } else {
                from + (to - from) * along
            }
        };
        Point {
            bytes,
            wall_us: on_line(one.wall_us, other.wall_us),
            cpu_us: on_line(one.cpu_us, other.cpu_us),
            hidden_us: on_line(one.hidden_us, other.hidden_us),
        }
    }
}

fn encrypt() -> String {
    "encrypt".to_owned()
}

fn is_zero(figure: &f64) -> bool {
    *figure == 0.0
}

fn is_none(bytes: &usize) -> bool {
    *bytes == 0
}

fn one() -> usize {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: &str = r#"{"machine": "am3358", "cores": 1, "cipher": "aes-128-cbc",
        "engines": [{"name": "module", "kind": "module", "depth": 1, "points": [
            {"bytes": 16, "wall_us": 100.0, "cpu_us": 80.0},
            {"bytes": 8, "wall_us": 86.9, "cpu_us": 86.85},
            {"bytes": 32, "wall_us": 132.0, "cpu_us": 70.0}]}]}"#;

    #[test]
    fn published_profiles_are_read() {
        let profile: Profile = PUBLISHED.parse().unwrap();
        assert_eq!((profile.direction.as_str(), profile.includes), ("encrypt", Includes::Engine));
        assert_eq!(profile.engine("module").unwrap().points[0].wall_us, 86.9);
        assert_eq!(profile.to_json().parse::<Profile>().unwrap(), profile);
    }

    #[test]
    fn a_profile_of_whole_runs_says_so() {
        let head = r#""cores": 1"#;
        let text = PUBLISHED.replace(head, r#""cores": 1, "includes": "queue""#);
        let profile: Profile = text.parse().unwrap();
        assert_eq!(profile.includes, Includes::Queue);
        assert_eq!(profile.to_json().parse::<Profile>().unwrap(), profile);
        let other = PUBLISHED.replace(head, r#""cores": 1, "includes": "kitchen""#);
        assert!(other.parse::<Profile>().is_err());
    }

    #[test]
    fn costs_lie_on_lines_between_points() {
        let profile: Profile = PUBLISHED.parse().unwrap();
        let cost = |bytes| {
            let point = profile.engines[0].cost(bytes);
            (point.wall_us, point.cpu_us)
        };
        assert_eq!(cost(0), (86.9, 86.85));
        assert_eq!(cost(16), (100.0, 80.0));
        assert_eq!(cost(24), (116.0, 75.0));
        assert_eq!(cost(64), (196.0, 70.0));
    }

    #[test]
    fn senseless_profiles_are_refused() {
        for (from, to) in
            [("86.9", "-1"), ("86.9", "1e999"), ("\"cores\": 1", "\"cores\": 0"), ("depth", "deep")]
        {
            assert!(PUBLISHED.replace(from, to).parse::<Profile>().is_err(), "{to}");
        }
        assert!("".parse::<Profile>().is_err());
    }
}
