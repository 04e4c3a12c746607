//! The benchmark's options.

use clap::Args;
use evener_core::Cipher;

use super::Contender;
use crate::values;

/// The benchmark's options. The defaults are those of the published figures.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct ThreadsOptions {
    /// Cipher to measure; repeatable
    #[arg(long = "cipher", value_name = "NAME", value_parser = values::cipher_of(KNOWN),
          hide_possible_values = true,
          default_values = ["aes-128-ctr", "aes-256-ctr"])]
    pub ciphers: Vec<Cipher>,
    /// Number of threads; repeatable
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "4", "8", "16", "32", "64"],
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Size of the message in MB (1,048,576 bytes)
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub megabytes: u32,
    /// Number of rounds; each contender runs once in a round. Three rounds at most for turns over
    /// half a second
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Contender to measure; repeatable [default: all]
    #[arg(long = "contender", value_name = "NAME", value_enum)]
    pub contenders: Vec<Contender>,
}

/// The peers' ciphers.
const KNOWN: &[Cipher] = &[Cipher::Aes128Ctr, Cipher::Aes256Ctr];
