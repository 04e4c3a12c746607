//! The benchmark's options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use evener_core::Cipher;
use evener_pipeline::PolicyName;
use serde::Serialize;

use crate::values;

/// The benchmark's options. The first value of each list that describes modelled modules is the
/// usual one, and a run varies one of them at a time.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct ModuleOptions {
    /// Kind of work to measure
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_enum,
          default_values = ["files", "pipe", "messages"])]
    pub kinds: Vec<WorkKind>,
    /// Time that the cores alone take for the work, in ms
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["50", "500", "5000"],
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub ms: Vec<u64>,
    /// Policy to measure
    #[arg(long = "policy", value_name = "NAME", value_delimiter = ',',
          default_values = ["pull", "adaptive"], value_parser = values::policy(),
          hide_possible_values = true)]
    pub policies: Vec<PolicyName>,
    /// Time that a modelled module sleeps while it opens, in ms
    #[arg(long = "opening", value_name = "LIST", value_delimiter = ',',
          default_values = ["0", "10", "300", "3000"],
          value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub openings: Vec<u64>,
    /// Batch at which a modelled module hangs
    #[arg(long = "hang", value_name = "BATCH", value_delimiter = ',', value_enum,
          default_values = ["none", "first", "tenth", "last"])]
    pub hangs: Vec<Hang>,
    /// Ratio of a modelled module's time to a core's
    #[arg(long = "slower", value_name = "LIST", value_delimiter = ',',
          default_values = ["10", "1", "1000"],
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub slower: Vec<u64>,
    /// Measure every combination of these values
    #[arg(long)]
    pub every: bool,
    /// Device to measure with the program `evener`, on files and pipes, with a warm and a cold cache of
    /// kernels; `none` for no device
    #[arg(long, value_name = "ENGINE", default_value = "gpu:opencl:pocl")]
    pub device: String,
    /// The `evener` program [default: the one beside this program, otherwise the one on the PATH]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// CPU engine to use beside a modelled module
    #[arg(long, value_name = "ENGINE", default_value = "cpu", value_parser = values::engine(),
          hide_possible_values = true)]
    pub cpu: String,
    /// Cipher of files and messages; pipes have the default format
    #[arg(long, value_name = "NAME", default_value = "des-ede3-cbc",
          value_parser = values::cipher(), ignore_case = true, hide_possible_values = true)]
    pub cipher: Cipher,
    /// Build the trees below this directory
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub at: PathBuf,
    /// Number of rounds; every module runs once in a round
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
}

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum WorkKind {
    /// A tree of files of 64 KiB
    Files,
    /// A pipe
    Pipe,
    /// Messages of 16 KiB in memory
    Messages,
}

/// When a module hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Hang {
    /// Never
    None,
    /// At its first batch
    First,
    /// At its tenth batch
    Tenth,
    /// At the batch that was its last in the latest run without a hang
    Last,
}

impl WorkKind {
    /// The name, as in the option.
    pub fn name(self) -> &'static str {
        match self {
            WorkKind::Files => "files",
            WorkKind::Pipe => "pipe",
            WorkKind::Messages => "messages",
        }
    }
}
