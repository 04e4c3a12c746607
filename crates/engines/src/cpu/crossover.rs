//! Decides which batches go to `lanes`.

use std::collections::BTreeMap;

use evener_core::{Cipher, Direction, Mode};
use serde::{Deserialize, Serialize};

/// The batches of one cipher and direction for which `lanes` is faster than `openssl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crossover {
    /// Least number of messages in such a batch.
    pub least_messages: usize,
    /// Greatest average length of its messages, in bytes.
    pub most_bytes: usize,
}

impl Crossover {
    /// All batches.
    pub const ALWAYS: Crossover = Crossover { least_messages: 1, most_bytes: usize::MAX };
    /// No batch.
    pub const NEVER: Crossover = Crossover { least_messages: usize::MAX, most_bytes: 0 };

    /// Returns whether a batch with this number of messages and total of bytes goes to `lanes`.
    pub fn prefers_lanes(self, messages: usize, bytes: usize) -> bool {
        messages >= self.least_messages && bytes / messages.max(1) <= self.most_bytes
    }
}

/// The crossovers of a machine, by cipher and direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Crossovers(BTreeMap<String, Crossover>);

impl Crossovers {
    /// The built-in crossovers for a kernel of `lanes`, by its name.
    pub(super) fn built_in(kernel: &str) -> Crossovers {
        let mut crossovers = Crossovers::default();
        for &cipher in Cipher::ALL {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                crossovers.insert(cipher, direction, usual(kernel, cipher.mode(), direction));
            }
        }
        crossovers
    }

    /// The crossover of a cipher and direction; [`Crossover::NEVER`] where there is none.
    pub fn get(&self, cipher: Cipher, direction: Direction) -> Crossover {
        let known = self.0.get(&name(cipher, direction));
        known.copied().unwrap_or(Crossover::NEVER)
    }

    pub(super) fn insert(&mut self, cipher: Cipher, direction: Direction, crossover: Crossover) {
        self.0.insert(name(cipher, direction), crossover);
    }

    /// All of them by cipher and direction, such as `aes-128-cbc encrypt`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Crossover)> {
        self.0.iter().map(|(name, &crossover)| (name.as_str(), crossover))
    }
}

/// The result of `evener engines --calibrate KERNEL` on an AMD EPYC of the fourth generation,
/// against OpenSSL 3.6 with the same instructions (`OPENSSL_ia32cap`). CBC encryption of two
/// messages is equally fast with both; of four, `lanes` is twice as fast. The ARM kernels have only
/// been emulated so far, so they are used only where they must be faster: for CBC encryption of
/// several messages. The ARMv7 kernel takes as long for fewer than eight messages as for eight.
fn usual(kernel: &str, mode: Mode, direction: Direction) -> Crossover {
    let up_to = |most_bytes| Crossover { most_bytes, ..Crossover::ALWAYS };
    match (kernel, mode, direction) {
        ("armv7-neon", Mode::Cbc, Direction::Encrypt) => {
            Crossover { least_messages: 8, ..Crossover::ALWAYS }
        }
        (_, Mode::Cbc, Direction::Encrypt) => Crossover { least_messages: 4, ..Crossover::ALWAYS },
        ("vaes-avx512" | "vaes-avx2", ..) | ("aes-ni", Mode::Gcm, _) => Crossover::ALWAYS,
        ("aes-ni", Mode::Ctr, _) => up_to(4096),
        ("aes-ni", ..) => up_to(16_384),
        _ => Crossover::NEVER,
    }
}

fn name(cipher: Cipher, direction: Direction) -> String {
    format!("{cipher} {direction}")
}

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

    #[test]
    fn kernels_have_their_crossovers() {
        let gcm = (Cipher::Aes256Gcm, Direction::Encrypt);
        let ctr = (Cipher::Aes256Ctr, Direction::Decrypt);
        let cbc = (Cipher::Aes128Cbc, Direction::Encrypt);
        let find =
            |kernel, (cipher, direction)| Crossovers::built_in(kernel).get(cipher, direction);
        assert_eq!(find("vaes-avx2", gcm), Crossover::ALWAYS);
        assert!(!find("aes-ni", ctr).prefers_lanes(1, 8192));
        assert_eq!(find("armv8-aes", ctr), Crossover::NEVER);
        assert_eq!(find("armv7-neon", ctr), Crossover::NEVER);
        assert_eq!(find("armv7-neon", gcm), Crossover::NEVER);
        assert!(find("armv7-neon", cbc).prefers_lanes(8, 8 << 20));
        assert!(!find("armv7-neon", cbc).prefers_lanes(7, 7 << 10));
        for kernel in ["vaes-avx512", "aes-ni", "armv8-aes", "armv8-sha3"] {
            assert!(find(kernel, cbc).prefers_lanes(4, 4 << 20));
            assert!(!find(kernel, cbc).prefers_lanes(3, 48));
        }
    }

    #[test]
    fn what_is_not_known_is_for_openssl() {
        let none = Crossovers::default();
        assert_eq!(none.get(Cipher::Aes128Cbc, Direction::Encrypt), Crossover::NEVER);
    }
}
