//! The command line, parsed.

use clap::{Command as CommandLine, CommandFactory, Parser, Subcommand};
use evener_cli::arguments::{Typed, end_with};
use evener_cli::completions::Shell;
use evener_lab::{costs, simulate, speed};

use crate::bench::Bench;
use crate::help;
use crate::man::Man;

/// Benchmarks of Evener and rival programs, and a simulator of its policies.
#[derive(Parser)]
#[command(name = "evener-lab", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Bench(Bench),
    /// Measure the speed of all engines, as `openssl speed` does
    ///
    /// Each engine encrypts and decrypts, on one core and on all cores. The table shows thousands
    /// of bytes per second; an asterisk marks the fastest engine of a column. The engine `openssl`
    /// is measured as `openssl speed -evp` measures it, and AES a second time without the CPU's AES
    /// instructions. Other engines get as many messages at once as they ask for.
    Speed(Box<speed::Command>),
    /// Simulate the policies on a machine that a profile describes
    ///
    /// The policies are the ones that encrypt files. The machine with its cores and engines is
    /// simulated. `evener engines --measure` writes profiles.
    Simulate(simulate::Command),
    /// Draw the costs of a profile that `evener engines --measure` wrote
    Chart(costs::Command),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    Man(Man),
}

impl Command {
    /// The command's engines that load third-party code.
    pub(crate) fn foreign_engines(&self) -> Vec<String> {
        match self {
            Command::Bench(bench) => bench.foreign_engines(),
            Command::Speed(command) => command.foreign_engines(),
            _ => Vec::new(),
        }
    }
}

/// The program's command line, with help.
pub(crate) fn program() -> CommandLine {
    help::with_help(Arguments::command())
}

/// Parses the command line. For wrong usage or a request for help, prints the message and ends the
/// program.
pub(crate) fn parse() -> Command {
    let read = Typed::here().read(&mut program());
    match read {
        Ok(Arguments { command }) => command,
        Err(error) => end_with(&error),
    }
}
