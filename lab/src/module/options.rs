//! The benchmark's options.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use evener_core::Cipher;
use evener_pipeline::PolicyName;
use serde::Serialize;

use crate::values;

/// The benchmark's options. Of each list that describes modelled modules the first value is the usual
/// one, and one trouble at a time is not usual.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct ModuleOptions {
    /// Kind of work to measure
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_enum,
          default_values = ["files", "pipe", "messages"])]
    pub kinds: Vec<WorkKind>,
    /// How long the cores alone take for the work, in ms
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values = ["50", "500", "5000"],
          value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub ms: Vec<u64>,
    /// Policy to measure
    #[arg(long = "policy", value_name = "NAME", value_delimiter = ',',
          default_values = ["pull", "adaptive"], value_parser = values::policy(),
          hide_possible_values = true)]
    pub policies: Vec<PolicyName>,
    /// How long a modelled module takes to open, in ms; it sleeps meanwhile, and then computes
    #[arg(long = "opening", value_name = "LIST", value_delimiter = ',',
          default_values = ["0", "10", "300", "3000"],
          value_parser = clap::value_parser!(u64).range(..=60_000))]
    pub openings: Vec<u64>,
    /// The batch at which a modelled module hangs
    #[arg(long = "hang", value_name = "BATCH", value_delimiter = ',', value_enum,
          default_values = ["none", "first", "tenth", "last"])]
    pub hangs: Vec<Hang>,
    /// How many times slower than a core a modelled module is
    #[arg(long = "slower", value_name = "LIST", value_delimiter = ',',
          default_values = ["10", "1", "1000"],
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub slower: Vec<u64>,
    /// Measure every combination of these
    #[arg(long)]
    pub every: bool,
    /// The device to measure by the program `evener`, on files and pipes, with its cache of kernels
    /// warm and cold; `none` for no device
    #[arg(long, value_name = "ENGINE", default_value = "gpu:opencl:pocl")]
    pub device: String,
    /// The `evener` program [default: the one beside this program, otherwise the one on the PATH]
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// The engine of the cores beside a modelled module
    #[arg(long, value_name = "ENGINE", default_value = "cpu", value_parser = values::engine(),
          hide_possible_values = true)]
    pub cpu: String,
    /// The cipher of files and messages; pipes are in the usual format
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
