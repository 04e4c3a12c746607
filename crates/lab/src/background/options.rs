//! What the benchmark is to run.

use std::thread;

use clap::Args;
use evener_core::Cipher;
use evener_pipeline::PolicyName;

use super::Setting;

/// What the benchmark is to run.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct BackgroundOptions {
    /// An engine that Evener uses, as in `evener encrypt`; may be given several times [default:
    /// `cpu`, the processor's cores]
    #[arg(long = "engine", value_name = "NAME")]
    pub engines: Vec<String>,
    /// A module that Evener uses beside them
    #[arg(long, value_name = "ENGINE")]
    pub module: Option<String>,
    /// How Evener's workers come by their work [default: adaptive beside a module, pull otherwise]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<PolicyName>,
    /// What Evener encrypts with
    #[arg(long, value_name = "NAME", default_value = "aes-256-gcm")]
    pub cipher: Cipher,
    /// The length of the messages that Evener encrypts
    #[arg(long, value_name = "BYTES", default_value_t = 16_384,
          value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub length: u32,
    /// The percentages that Evener is bounded to with `--max-cpu`
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "25",
          value_parser = clap::value_parser!(u8).range(1..=100))]
    pub max_cpu: Vec<u8>,
    /// Let Evener work as with `--background`, but without looking at pressure, too: only the
    /// scheduling class of its threads then makes way
    #[arg(long)]
    pub class_only: bool,
    /// How many threads the foreground program has [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub foreground_threads: Option<u16>,
    /// How much memory each of these threads works on, in KiB
    #[arg(long, value_name = "KIB", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub working_set: u32,
    /// Leave the foreground program in this session; otherwise it has one of its own, as programs
    /// of other terminals and services have, and schedulers that know groups divide the cores
    /// between sessions first
    #[arg(long)]
    pub same_session: bool,
    /// How long a turn is measured
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub seconds: f64,
    /// How often each setting takes its turn
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Keep everything on these cores, numbered from 0
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub pin: Vec<usize>,
}

impl BackgroundOptions {
    /// How Evener is to share the cores.
    pub fn settings(&self) -> Vec<Setting> {
        let bounded = self.max_cpu.iter().copied().map(Setting::MaxCpu);
        let class_only = self.class_only.then_some(Setting::ClassOnly);
        let usual = [Setting::Normal, Setting::Background];
        usual.into_iter().chain(class_only).chain(bounded).collect()
    }

    /// How many threads the foreground program has.
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
