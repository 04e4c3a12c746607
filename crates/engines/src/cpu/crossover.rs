//! Which batches go to `lanes`.

use std::collections::BTreeMap;

use evener_core::{Cipher, Direction, Engine, Mode};
use serde::{Deserialize, Serialize};

/// For one cipher and direction: the batches that `lanes` does in less time than `openssl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossover {
    /// How many messages such a batch has at least.
    pub least_messages: usize,
    /// How long its messages are at most on average, in bytes.
    pub most_bytes: usize,
}

impl Crossover {
    /// All batches.
    pub const ALWAYS: Crossover = Crossover { least_messages: 1, most_bytes: usize::MAX };
    /// No batch.
    pub const NEVER: Crossover = Crossover { least_messages: usize::MAX, most_bytes: 0 };

    /// Whether a batch of so many messages, of so many bytes together, goes to `lanes`.
    pub fn prefers_lanes(self, messages: usize, bytes: usize) -> bool {
        messages >= self.least_messages && bytes / messages.max(1) <= self.most_bytes
    }
}

/// The crossovers of one processor and one build of Evener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    version: u32,
    /// The processor's model, as the system names it.
    processor: String,
    /// Evener's version, and what it found of `openssl` and `lanes`.
    build: String,
    /// By cipher and direction, such as `aes-128-cbc encrypt`.
    crossovers: BTreeMap<String, Crossover>,
}

impl Calibration {
    /// One without crossovers, for this processor and build.
    pub(super) fn new(openssl: &dyn Engine, lanes: Option<&dyn Engine>) -> Calibration {
        Calibration {
            version: VERSION,
            processor: processor(),
            build: build(openssl, lanes),
            crossovers: BTreeMap::new(),
        }
    }

    /// What was measured on processors that have this kernel of `lanes` (`docs/benchmarks.md`).
    pub(super) fn built_in(openssl: &dyn Engine, lanes: Option<&dyn Engine>) -> Calibration {
        let mut calibration = Calibration::new(openssl, lanes);
        let Some(lanes) = lanes else { return calibration };
        for &cipher in Cipher::ALL {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                if lanes.offer(cipher, direction).is_some() {
                    calibration.insert(cipher, direction, usual(cipher, direction));
                }
            }
        }
        calibration
    }

    pub(super) fn insert(&mut self, cipher: Cipher, direction: Direction, crossover: Crossover) {
        self.crossovers.insert(name(cipher, direction), crossover);
    }

    /// The crossover of a cipher and direction; [`Crossover::NEVER`] where none was measured.
    pub fn crossover(&self, cipher: Cipher, direction: Direction) -> Crossover {
        let known = self.crossovers.get(&name(cipher, direction));
        known.copied().unwrap_or(Crossover::NEVER)
    }

    /// Every crossover by its cipher and direction, such as `aes-128-cbc encrypt`.
    pub fn crossovers(&self) -> impl Iterator<Item = (&str, Crossover)> {
        self.crossovers.iter().map(|(name, &crossover)| (name.as_str(), crossover))
    }

    /// Whether it was measured on this processor with these engines.
    pub(super) fn is_of(&self, openssl: &dyn Engine, lanes: Option<&dyn Engine>) -> bool {
        self.version == VERSION
            && self.processor == processor()
            && self.build == build(openssl, lanes)
    }
}

/// Without a calibration: CBC encryption gains from the second message on, and every other mode
/// from the first.
fn usual(cipher: Cipher, direction: Direction) -> Crossover {
    match (cipher.mode(), direction) {
        (Mode::Cbc, Direction::Encrypt) => Crossover { least_messages: 2, ..Crossover::ALWAYS },
        _ => Crossover::ALWAYS,
    }
}

fn name(cipher: Cipher, direction: Direction) -> String {
    format!("{cipher} {direction}")
}

/// The processor's model, or on ARM the numbers of its designer and part. Empty where the system
/// does not say.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut values = Vec::new();
    for key in ["model name", "CPU implementer", "CPU part"] {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let mut named = lines.filter(|(name, _)| name.trim() == key);
        values.extend(named.next().map(|(_, value)| value.trim().to_owned()));
    }
    values.join(" ")
}

fn build(openssl: &dyn Engine, lanes: Option<&dyn Engine>) -> String {
    let lanes = lanes.map_or("", |lanes| &lanes.description().detail);
    format!("{} / {} / {lanes}", env!("CARGO_PKG_VERSION"), openssl.description().detail)
}

const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_judged_by_its_messages_and_their_mean_length() {
        let some = Crossover { least_messages: 4, most_bytes: 1000 };
        assert!(some.prefers_lanes(4, 4000) && some.prefers_lanes(400, 4));
        assert!(!some.prefers_lanes(3, 30) && !some.prefers_lanes(4, 4004));
        assert!(Crossover::ALWAYS.prefers_lanes(1, usize::MAX));
        assert!(!Crossover::NEVER.prefers_lanes(1_000_000, 0));
        assert!(!some.prefers_lanes(0, 0));
    }
}
