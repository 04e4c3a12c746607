//! The benchmark's options.

use std::num::ParseIntError;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use evener_core::{Cipher, Direction};
use evener_engines::lanes::Arena;
use serde::{Serialize, Serializer};

use super::Contender;
use crate::values;

/// The benchmark's options. The defaults are those of the published figures.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct MessagesOptions {
    /// Cipher to measure; repeatable
    #[arg(long = "cipher", value_name = "NAME", default_values = [
        "aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "aes-128-ctr", "aes-256-ctr",
        "aes-128-gcm", "aes-256-gcm",
    ], value_parser = values::cipher(), ignore_case = true, hide_possible_values = true)]
    pub ciphers: Vec<Cipher>,
    /// `encrypt` or `decrypt` [default: both]
    #[arg(long = "direction", value_name = "DIRECTION", value_parser = values::direction(),
          hide_possible_values = true)]
    pub directions: Vec<Direction>,
    /// Bytes of a message; `mixed:N` stands for random lengths up to N
    #[arg(long = "bytes", value_name = "N", default_values = [
        "8", "16", "64", "256", "1024", "4096", "8192", "16384", "mixed:512", "mixed:32768",
    ])]
    pub lengths: Vec<Lengths>,
    /// Number of threads that share the messages; repeatable [default: 1 and all cores]
    #[arg(long = "threads", value_name = "N")]
    pub threads: Vec<usize>,
    /// Number of messages
    #[arg(long, value_name = "N", default_value_t = 4_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub messages: u32,
    /// Place messages of one length without gaps, like records; otherwise each begins on a cache
    /// line, and distances are no multiples of a page
    #[arg(long)]
    pub packed: bool,
    /// Number of rounds; each contender runs once in a round
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Contender to measure; repeatable [default: all]
    #[arg(long = "contender", value_name = "NAME", value_enum)]
    pub contenders: Vec<Contender>,
}

impl MessagesOptions {
    /// The contenders to measure.
    pub(super) fn contenders(&self) -> &[Contender] {
        match self.contenders.is_empty() {
            true => Contender::value_variants(),
            false => &self.contenders,
        }
    }
}

/// The distance between messages of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spacing {
    /// The same as between the engine's own buffers.
    Arena,
    /// Without gaps.
    Packed,
}

impl Spacing {
    /// The distance in bytes from one message to the next.
    pub(super) fn stride(self, length: usize) -> usize {
        match self {
            Spacing::Arena => Arena::stride(length),
            Spacing::Packed => length,
        }
    }
}

/// The lengths of messages, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lengths {
    /// One length for all.
    Equal(usize),
    /// Uniformly distributed from 1 to this length.
    Mixed(usize),
}

impl FromStr for Lengths {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Lengths, ParseIntError> {
        match text.strip_prefix("mixed:") {
            Some(most) => most.parse().map(Lengths::Mixed),
            None => text.parse().map(Lengths::Equal),
        }
    }
}

impl Serialize for Lengths {
    /// A number, or `mixed:N`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Lengths::Equal(bytes) => serializer.serialize_u64(bytes as u64),
            Lengths::Mixed(_) => serializer.collect_str(self),
        }
    }
}

impl std::fmt::Display for Lengths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lengths::Equal(bytes) => f.pad(&bytes.to_string()),
            Lengths::Mixed(most) => f.pad(&format!("mixed:{most}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: MessagesOptions,
    }

    #[test]
    fn everything_has_a_default() {
        let options = Line::parse_from(["messages"]).options;
        assert_eq!((options.messages, options.rounds), (4_000, 15));
        assert!(options.lengths.contains(&Lengths::Mixed(512)));
        assert!(options.ciphers.contains(&Cipher::Aes128Cbc));
    }

    #[test]
    fn lengths_and_directions_are_read() {
        let line = ["messages", "--bytes", "mixed:99", "--bytes", "7", "--direction", "decrypt"];
        let options = Line::parse_from(line).options;
        assert_eq!(options.lengths, [Lengths::Mixed(99), Lengths::Equal(7)]);
        assert_eq!(options.directions, [Direction::Decrypt]);
        assert!(Line::try_parse_from(["messages", "--bytes", "many"]).is_err());
        assert!(Line::try_parse_from(["messages", "--direction", "up"]).is_err());
    }
}
