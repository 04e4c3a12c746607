//! The benchmark's options.

use clap::Args;
use evener_core::{Cipher, Direction};

use super::Sizes;
use crate::{Rival, values};

/// The benchmark's options. The defaults are the 2015 paper's experiment.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct PoliciesOptions {
    /// Bytes of a file, such as 8,16 or 1500-3500:250; 2015 and 2013 stand for the papers' sizes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2015")]
    pub sizes: Vec<Sizes>,
    /// Number of files of each size
    #[arg(long, value_name = "N", default_value_t = 4_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub files: u32,
    /// Number of rounds; each policy runs once in a round
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Policy to measure; repeatable [default: all]
    #[arg(long = "policy", value_name = "NAME", value_delimiter = ',',
          value_parser = values::rival(), hide_possible_values = true)]
    pub policies: Vec<Rival>,
    /// Cipher to measure; repeatable, for example with several key lengths
    #[arg(
        long = "cipher",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "aes-128-cbc",
        value_parser = values::cipher(),
        ignore_case = true,
        hide_possible_values = true
    )]
    pub ciphers: Vec<Cipher>,
    /// `encrypt` or `decrypt` [default: both]
    #[arg(long = "direction", value_name = "DIRECTION", value_parser = values::direction(),
          hide_possible_values = true, value_delimiter = ',')]
    pub directions: Vec<Direction>,
    /// The CPU engine
    #[arg(long, value_name = "ENGINE", default_value = "openssl", value_parser = values::engine(),
          hide_possible_values = true)]
    pub cpu: String,
    /// The module [default: none, so that only the CPU works]
    #[arg(long, value_name = "ENGINE", value_parser = values::engine(),
          hide_possible_values = true)]
    pub module: Option<String>,
    /// Number of workers of the CPU engine [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cpu_workers: Option<u16>,
    /// Number of workers of the module [default: as many as it recommends]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub module_workers: Option<u16>,
    /// Run all workers on these cores, numbered from 0
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub pin: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use evener_pipeline::PolicyName;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: PoliciesOptions,
    }

    #[test]
    fn defaults_are_the_papers() {
        let options = Line::parse_from(["policies"]).options;
        assert_eq!(Sizes::all(&options.sizes), Sizes::OF_2015);
        assert_eq!((options.files, options.runs), (4000, 5));
        assert_eq!(options.ciphers, [Cipher::Aes128Cbc]);
    }

    #[test]
    fn lists_are_read() {
        let options = Line::parse_from([
            "policies",
            "--sizes",
            "8,100-300:100",
            "--policy",
            "pull,cpu-only",
            "--direction",
            "decrypt",
            "--cipher",
            "aes-128-cbc,aes-256-cbc",
            "--pin",
            "0,1",
        ])
        .options;
        assert_eq!(Sizes::all(&options.sizes), [8, 100, 200, 300]);
        assert_eq!(options.policies, [Rival::Own(PolicyName::Pull), Rival::CpuOnly]);
        assert_eq!(options.directions, [Direction::Decrypt]);
        assert_eq!((options.ciphers.len(), options.pin.len()), (2, 2));
    }

    #[test]
    fn nonsense_is_refused() {
        for (option, value) in
            [("--sizes", "0"), ("--policy", "fifo"), ("--direction", "up"), ("--runs", "0")]
        {
            assert!(Line::try_parse_from(["policies", option, value]).is_err(), "{option}");
        }
    }
}
