//! The benchmark's options.

use std::thread;

use clap::Args;
use evener_core::Cipher;
use evener_pipeline::PolicyName;

use super::Setting;
use crate::values;

/// The benchmark's options.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundOptions {
    /// Engine that Evener uses, as in `evener encrypt`; repeatable [default: cpu]
    #[arg(long = "engine", value_name = "NAME", value_parser = values::engine(),
          hide_possible_values = true)]
    pub engines: Vec<String>,
    /// Module that Evener also uses
    #[arg(long, value_name = "ENGINE", value_parser = values::engine(),
          hide_possible_values = true)]
    pub module: Option<String>,
    /// Evener's policy [default: adaptive with a module, pull without]
    #[arg(long, value_name = "POLICY", value_parser = values::policy(),
          hide_possible_values = true)]
    pub policy: Option<PolicyName>,
    /// Evener's cipher
    #[arg(long, value_name = "NAME", default_value = "aes-256-gcm",
          value_parser = values::cipher(), ignore_case = true, hide_possible_values = true)]
    pub cipher: Cipher,
    /// Length of the messages that Evener encrypts
    #[arg(long, value_name = "BYTES", default_value_t = 16_384,
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub length: u32,
    /// CPU limits to measure, as for `--max-cpu`
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "25",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    pub max_cpu: Vec<u8>,
    /// Also measure `--background` without reading the pressure, with only the scheduling class of
    /// Evener's threads
    #[arg(long)]
    pub class_only: bool,
    /// Number of threads of the foreground program [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub foreground_threads: Option<u16>,
    /// Memory that each of these threads uses, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub working_set: u32,
    /// Run the foreground program in this session; otherwise it gets another one, like programs of
    /// other terminals and services, and group schedulers divide the cores between sessions first
    #[arg(long)]
    pub same_session: bool,
    /// Duration of a turn
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub seconds: f64,
    /// Number of rounds; each setting runs once in a round
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Use only these cores, numbered from 0
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub pin: Vec<usize>,
}

impl BackgroundOptions {
    /// The settings to measure.
    pub fn settings(&self) -> Vec<Setting> {
        let bounded = self.max_cpu.iter().copied().map(Setting::MaxCpu);
        let class_only = self.class_only.then_some(Setting::ClassOnly);
        let usual = [Setting::Normal, Setting::Background];
        usual.into_iter().chain(class_only).chain(bounded).collect()
    }

    /// The number of threads of the foreground program.
    pub fn threads(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        self.foreground_threads.map_or_else(cores, usize::from)
    }
}

pub(super) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.01 to 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: BackgroundOptions,
    }

    fn parse(arguments: &[&str]) -> Result<BackgroundOptions, clap::Error> {
        Line::try_parse_from([&["background"], arguments].concat()).map(|line| line.options)
    }

    #[test]
    fn there_are_three_settings_by_default() {
        let settings = parse(&[]).unwrap().settings();
        assert_eq!(settings, [Setting::Normal, Setting::Background, Setting::MaxCpu(25)]);
        let settings = parse(&["--max-cpu", "10,50", "--max-cpu", "90"]).unwrap().settings();
        assert_eq!(parse(&["--class-only"]).unwrap().settings()[2], Setting::ClassOnly);
        assert_eq!(settings[2..], [10, 50, 90].map(Setting::MaxCpu));
    }

    #[test]
    fn nonsense_is_refused() {
        for (option, value) in [
            ("--max-cpu", "0"),
            ("--max-cpu", "101"),
            ("--seconds", "0"),
            ("--seconds", "nan"),
            ("--foreground-threads", "0"),
            ("--rounds", "0"),
            ("--policy", "fifo"),
        ] {
            assert!(parse(&[option, value]).is_err(), "{option} {value}");
        }
    }
}
