//! `evener-lab bench`

use clap::{Args, Subcommand};

use crate::trouble::Trouble;

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
    /// Check that cores beside a module that is slow to open, far away or gone are never slower
    Module(evener_lab::module::Command),
    /// Measure a GPU: copies, kernels, the engine by itself and beside the cores
    Gpu(evener_lab::gpu::Command),
    /// Fetch files from nginx: OpenSSL's own ciphers and Evener's provider
    Tls(Box<evener_lab::tls::Command>),
}

impl Bench {
    /// The benchmark's engines that load third-party code into this process.
    pub(crate) fn foreign_engines(&self) -> Vec<String> {
        match &self.benchmark {
            Benchmark::Messages(command) => command.foreign_engines(),
            Benchmark::Policies(command) => command.foreign_engines(),
            Benchmark::Background(command) => command.foreign_engines(),
            Benchmark::Module(command) => command.foreign_engines(),
            Benchmark::Gpu(command) => command.foreign_engines(),
            // Their engines run in separate processes.
            Benchmark::Processes(_)
            | Benchmark::Tree(_)
            | Benchmark::Threads(_)
            | Benchmark::Tls(_) => Vec::new(),
        }
    }

    pub(crate) fn perform(&self) -> Result<(), Trouble> {
        match &self.benchmark {
            Benchmark::Tree(command) => command.run()?,
            Benchmark::Messages(command) => command.run()?,
            Benchmark::Threads(command) => command.run()?,
            Benchmark::Policies(command) => command.run()?,
            Benchmark::Background(command) => command.run()?,
            Benchmark::Module(command) => command.run()?,
            Benchmark::Gpu(command) => command.run()?,
            Benchmark::Tls(command) => command.run()?,
            // It forks, which is sound because the program still has only this thread.
            Benchmark::Processes(command) => command.run()?,
        }
        Ok(())
    }
}
