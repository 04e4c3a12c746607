//! `evener bench`

use clap::{Args, Subcommand};
use evener_lab::LabError;

use crate::trouble::{Ending, Trouble};

/// Run benchmarks of Evener and rival programs
///
/// Every benchmark measures the rivals in the same run, names its parameters and records the machine.
#[derive(Args)]
pub(crate) struct Bench {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Encrypt whole trees: Evener, cp and other encryption programs
    Tree(evener_lab::tree::Command),
    /// Encrypt messages in memory: Evener, OpenSSL and intel-ipsec-mb
    Messages(evener_lab::messages::Command),
    /// Encrypt one buffer on many threads: Evener, OpenMP, Java and memcpy
    Threads(evener_lab::threads::Command),
    /// Run many processes at one engine, with and without the gate
    Processes(evener_lab::processes::Command),
    /// Compare the adaptive policy and the papers' policies on the CPU and a module
    Policies(evener_lab::policies::Command),
    /// Measure how much Evener slows down a foreground program, with and without --background
    Background(evener_lab::background::Command),
}

impl Bench {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        match self.benchmark {
            Benchmark::Tree(command) => ending(command.run()),
            Benchmark::Messages(command) => ending(command.run()),
            Benchmark::Threads(command) => ending(command.run()),
            Benchmark::Policies(command) => ending(command.run()),
            Benchmark::Background(command) => ending(command.run()),
            // It forks, which is sound because the program has only this thread so far:
            // handling signals starts another only with `stop_gently`.
            Benchmark::Processes(command) => {
                command.run()?;
                Ok(Ending::Done)
            }
        }
    }
}

fn ending(measured: Result<(), LabError>) -> Result<Ending, Trouble> {
    match measured {
        Ok(()) => Ok(Ending::Done),
        Err(LabError::Interrupted) => Ok(Ending::Interrupted),
        Err(error) => Err(error.into()),
    }
}
