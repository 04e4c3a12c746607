//! What the benchmark is to run.

use clap::Args;
use evener_core::{Cipher, Direction};

use super::Sizes;
use crate::Rival;

/// What the benchmark is to run. The defaults are the 2015 paper's experiment.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct PoliciesOptions {
    /// Bytes of a file, such as 8,16 or 1500-3500:250; 2015 and 2013 stand for the papers' sizes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2015")]
    pub sizes: Vec<Sizes>,
    /// How many files there are of each size
    #[arg(long, value_name = "N", default_value_t = 4_000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub files: u32,
    /// How often each policy takes its turn
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Which policies [default: all]
    #[arg(long = "policy", value_name = "NAME", value_delimiter = ',')]
    pub policies: Vec<Rival>,
    /// Which ciphers; several key lengths, for example
    #[arg(
        long = "cipher",
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "aes-128-cbc"
    )]
    pub ciphers: Vec<Cipher>,
    /// `encrypt` or `decrypt` [default: both]
    #[arg(long = "direction", value_name = "DIRECTION", value_parser = direction,
          value_delimiter = ',')]
    pub directions: Vec<Direction>,
    /// The engine that computes on the processor's cores
    #[arg(long, value_name = "ENGINE", default_value = "openssl")]
    pub cpu: String,
    /// The engine that is a module [default: none, so that only the processor works]
    #[arg(long, value_name = "ENGINE")]
    pub module: Option<String>,
    /// How many workers the processor's engine has [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cpu_workers: Option<u16>,
    /// How many workers the module has [default: as many as it likes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub module_workers: Option<u16>,
    /// Keep all workers on these cores, numbered from 0
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub pin: Vec<usize>,
}

fn direction(text: &str) -> Result<Direction, String> {
    match text {
        "encrypt" => Ok(Direction::Encrypt),
        "decrypt" => Ok(Direction::Decrypt),
        _ => Err("not encrypt or decrypt".to_owned()),
    }
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
        assert_eq!(options.policies, [PolicyName::Pull, PolicyName::CpuOnly].map(Rival::Own));
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
