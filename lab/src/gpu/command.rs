//! The command that runs the benchmark.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evener_core::Cipher;
use evener_engines::loads_foreign_code;

use super::run;
use crate::{LabError, values};

/// `evener-lab bench gpu`.
#[derive(Args, Clone, Debug)]
pub struct Command {
    #[command(flatten)]
    options: GpuOptions,
}

/// The benchmark's options.
#[derive(Args, Clone, Debug)]
#[non_exhaustive]
pub struct GpuOptions {
    /// GPU to measure, as an engine: `gpu:BACKEND:DEVICE`. Name a device that computes on the processor's
    /// cores explicitly; the report then says so
    #[arg(long, value_name = "ENGINE", default_value = "gpu")]
    pub device: String,
    /// Ciphers to measure [default: all; sessions and runs with the most informative ones]
    #[arg(long = "cipher", value_name = "LIST", value_delimiter = ',',
          value_parser = values::cipher(), ignore_case = true, hide_possible_values = true)]
    pub ciphers: Vec<Cipher>,
    /// Approximate time for each figure
    #[arg(long, value_name = "SECONDS", default_value_t = 0.5, value_parser = seconds)]
    pub seconds: f64,
    /// Number of measurements of a kernel; the figure is their median
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,
    /// Bytes of input for a kernel, more than a cache holds
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20,
          value_parser = clap::value_parser!(u64).range(1 << 16..=1 << 32))]
    pub bytes: u64,
    /// Bytes of the longest copy and of the largest batch
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20,
          value_parser = clap::value_parser!(u64).range(1 << 16..=1 << 30))]
    pub copy: u64,
    /// Workers of the engine's sessions [default: as many as the engine recommends]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: Option<u16>,
    /// Rival program to run, such as another AES for GPUs; repeatable. It gets the number of bytes as its
    /// argument and prints a line for each cipher, such as `aes-128-ctr 184.2`: the cipher's name and GB/s
    /// on the device (10^9 bytes). Other lines are ignored
    #[arg(long = "peer", value_name = "PROGRAM")]
    pub peers: Vec<PathBuf>,
    /// Time limit for the whole benchmark; figures that do not start in time are listed as missing
    #[arg(long, value_name = "SECONDS", default_value_t = 400,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub limit: u64,
}

impl GpuOptions {
    /// Returns whether the figures of a cipher are wanted.
    pub(super) fn wants(&self, cipher: Cipher) -> bool {
        self.ciphers.is_empty() || self.ciphers.contains(&cipher)
    }

    pub(super) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

impl Command {
    /// The engines that load third-party code.
    pub fn foreign_engines(&self) -> Vec<String> {
        let device = Some(&self.options.device);
        device.into_iter().filter(|engine| loads_foreign_code(engine)).cloned().collect()
    }

    /// Runs the benchmark; prints the report to standard output and the progress to standard error.
    ///
    /// # Errors
    /// Those of [`run`], and when the report can't be written.
    pub fn run(&self) -> Result<(), LabError> {
        let report = run(&self.options, &mut |what| eprintln!("{what}"))?;
        let mut output = io::stdout().lock();
        serde_json::to_writer_pretty(&mut output, &report)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(output))
            .map_err(LabError::file("write", "standard output"))
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.001 to 60".to_owned()),
    }
}
