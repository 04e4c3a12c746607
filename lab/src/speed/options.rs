//! The benchmark's options.

use std::time::Duration;

use clap::Args;
use evener_core::{Cipher, Direction, Mode};

use super::SpeedError;
use crate::values;

/// The benchmark's options. The default ciphers are the article's.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct SpeedOptions {
    /// Ciphers to measure
    #[arg(value_name = "CIPHER", value_parser = values::cipher(), ignore_case = true,
          hide_possible_values = true,
          default_values = ["bf-cbc", "camellia-256-cbc", "des-ede3-cbc", "aes-256-cbc"])]
    pub ciphers: Vec<Cipher>,
    /// Engine to measure; repeatable (`evener engines` lists them; `model` and parameters are
    /// possible too) [default: all on this machine]
    #[arg(long = "engine", value_name = "NAME", value_parser = values::engine(),
          hide_possible_values = true)]
    pub engines: Vec<String>,
    /// Bytes of a message
    #[arg(long = "bytes", value_name = "N", value_delimiter = ',', value_parser = values::message_length,
          default_values = ["16", "64", "256", "1024", "8192", "16384"])]
    pub lengths: Vec<usize>,
    /// `encrypt` or `decrypt` [default: both]
    #[arg(long = "direction", value_name = "DIRECTION", value_delimiter = ',',
          value_parser = values::direction(), hide_possible_values = true)]
    pub directions: Vec<Direction>,
    /// Number of threads; repeatable [default: 1, and one per core]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = values::threads)]
    pub threads: Vec<usize>,
    /// Time for each figure, over all rounds
    #[arg(long, value_name = "SECONDS", default_value = "0.5", value_parser = seconds)]
    pub seconds: Duration,
    /// Number of rounds; a figure is the median over them
    #[arg(long, value_name = "N", default_value = "5",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Do not measure AES without the CPU's AES instructions
    #[arg(long)]
    pub as_is: bool,
    /// Give every message its own IV on `openssl` too, as on other engines and as bulk encryption
    /// needs; `openssl speed -evp` does not
    #[arg(long)]
    pub messages: bool,
}

impl SpeedOptions {
    /// The directions; both by default.
    pub(super) fn directions(&self) -> &[Direction] {
        const BOTH: &[Direction] = &[Direction::Encrypt, Direction::Decrypt];
        if self.directions.is_empty() { BOTH } else { &self.directions }
    }

    /// The numbers of threads; 1 and all cores by default.
    pub(super) fn threads(&self, cores: usize) -> Vec<usize> {
        match (&self.threads[..], cores) {
            ([], 0 | 1) => vec![1],
            ([], _) => vec![1, cores],
            (named, _) => named.to_vec(),
        }
    }

    /// Checks that every cipher accepts messages of every length.
    ///
    /// # Errors
    /// [`SpeedError::Length`].
    pub(super) fn check(&self) -> Result<(), SpeedError> {
        for &cipher in &self.ciphers {
            for &bytes in &self.lengths {
                let reason = match cipher.mode() {
                    Mode::Xts if bytes < 16 => "XTS takes at least 16",
                    _ if !bytes.is_multiple_of(cipher.block_length()) => "it takes whole blocks",
                    _ => continue,
                };
                return Err(SpeedError::Length { cipher, bytes, reason });
            }
        }
        Ok(())
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.001..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "not from 0.001 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: SpeedOptions,
    }

    fn read(line: &[&str]) -> Result<SpeedOptions, String> {
        let line = Line::try_parse_from([&["speed"], line].concat());
        line.map(|line| line.options).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_the_articles() {
        let options = read(&[]).unwrap();
        let names: Vec<_> = options.ciphers.iter().map(|cipher| cipher.name()).collect();
        assert_eq!(names, ["bf-cbc", "camellia-256-cbc", "des-ede3-cbc", "aes-256-cbc"]);
        assert_eq!(options.lengths, [16, 64, 256, 1024, 8192, 16_384]);
        assert_eq!(options.directions(), [Direction::Encrypt, Direction::Decrypt]);
        assert_eq!((options.threads(1), options.threads(8)), (vec![1], vec![1, 8]));
        assert!(options.check().is_ok());
    }

    #[test]
    fn a_mistyped_cipher_is_answered_with_its_like() {
        let error = read(&["aes-256-cb"]).unwrap_err();
        assert!(
            error.contains("a similar value exists") && error.contains("aes-256-cbc"),
            "{error}"
        );
        assert_eq!(read(&["AES-128-GCM"]).unwrap().ciphers, [Cipher::Aes128Gcm]);
    }

    #[test]
    fn nonsense_is_refused() {
        for line in [
            ["--bytes", "0"],
            ["--bytes", "16,x"],
            ["--threads", "0"],
            ["--direction", "up"],
            ["--seconds", "nan"],
            ["--seconds", "-1"],
            ["--rounds", "0"],
        ] {
            assert!(read(&line).is_err(), "{line:?}");
        }
        let check = |line: &[&str]| read(line).unwrap().check();
        assert!(check(&["bf-cbc", "--bytes", "12"]).is_err());
        assert!(check(&["aes-256-xts", "--bytes", "15"]).is_err());
        assert!(check(&["aes-256-ctr", "--bytes", "15"]).is_ok());
    }
}
