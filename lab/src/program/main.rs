//! The program `evener-lab`: benchmarks of Evener and other programs, and the simulator.

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod examples;
mod help;
mod man;
mod trouble;

use std::process::ExitCode;

use evener_cli::messages::complain;
use evener_cli::{completions, witness};

use arguments::{Command, program};
use trouble::Trouble;

fn main() -> ! {
    evener_cli::run("evener-lab", || match perform(arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => trouble.tell(),
    })
}

fn perform(command: Command) -> Result<(), Trouble> {
    // If a benchmark loads third-party code, a witness watches it.
    witness::begin(&command.foreign_engines(), |sentence| complain(&sentence))
        .map_err(Trouble::Process)?;
    match command {
        Command::Bench(bench) => bench.perform()?,
        Command::Speed(command) => command.run()?,
        Command::Simulate(command) => command.run()?,
        Command::Chart(command) => command.run()?,
        Command::Completions { shell } => {
            completions::print(shell, &mut program()).map_err(Trouble::Output)?;
        }
        Command::Man(man) => man.perform(program())?,
    }
    Ok(())
}
