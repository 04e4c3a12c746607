//! The program `evener`.
//!
//! [`arguments`] parses the command line. A command makes a [`plan`] of it (keys, engines, options,
//! paths) before anything runs. [`run`] carries the plan out, shows progress and reports the
//! result.

#![deny(unsafe_code)]

mod arguments;
mod commands;
mod deletion;
mod end;
mod help;
mod hints;
mod keys;
mod left_behind;
mod limits;
mod options;
mod panics;
mod plan;
mod progress;
mod route;
mod run;
mod signals;
mod summary;
#[allow(unsafe_code)]
mod sys;
mod terminal;
mod trouble;

use arguments::Command;
use signals::Signals;
use trouble::{Ending, Trouble};

fn main() -> ! {
    let status = panics::caught(|| {
        sys::refuse_closed_stdout();
        limits::raise_open_files();
        evener::gate::explain_bus_errors();
        let arguments = arguments::parse();
        end::refuse_foreign();
        let status = match arguments.and_then(|arguments| perform(arguments.command)) {
            Ok(ending) => ending.into(),
            Err(trouble) => trouble.tell(),
        };
        left_behind::tell();
        status
    });
    end::now(status)
}

fn perform(command: Command) -> Result<Ending, Trouble> {
    let signals = Signals::install()?;
    if command.holds_keys() {
        // The work is possible without it.
        let _ = evener::keys::protect_process();
    }
    match command {
        Command::Keygen(options) => options.perform(&signals),
        Command::Encrypt(options) => options.perform(&signals),
        Command::Decrypt(options) => options.perform(&signals),
        Command::Verify(options) => options.perform(&signals),
        Command::List(options) => options.perform(&signals),
        Command::Engines(options) => options.perform(),
        Command::Speed(options) => options.perform(),
        Command::Gate(options) => options.perform(),
        Command::Tls(options) => options.perform(),
        Command::Bench(options) => options.perform(),
        Command::Simulate(options) => options.perform(),
        Command::Completions(options) => options.perform(),
        Command::Man(options) => options.perform(),
    }
}
