//! What the benchmark is to run.

use clap::Args;
use evener_core::Cipher;

use super::Contender;

/// What the benchmark is to run. The defaults are those of the published figures.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct ThreadsOptions {
    /// Which ciphers
    #[arg(long = "cipher", value_name = "NAME", value_parser = cipher,
          default_values = ["aes-128-ctr", "aes-256-ctr"])]
    pub ciphers: Vec<Cipher>,
    /// How many threads; may be given several times
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "4", "8", "16", "32", "64"],
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Vec<u16>,
    /// Size of the message in MB (1,048,576 bytes)
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub megabytes: u32,
    /// How often each contender takes its turn; three times where a turn takes over half a second
    #[arg(long, value_name = "N", default_value_t = 15,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Which contenders take part [default: all]
    #[arg(long = "contender", value_name = "NAME", value_enum)]
    pub contenders: Vec<Contender>,
}

/// The ciphers that the peers know.
fn cipher(name: &str) -> Result<Cipher, String> {
    let known = [Cipher::Aes128Ctr, Cipher::Aes256Ctr];
    let found = known.into_iter().find(|cipher| cipher.name() == name);
    found.ok_or_else(|| "it is `aes-128-ctr` or `aes-256-ctr`".to_owned())
}
