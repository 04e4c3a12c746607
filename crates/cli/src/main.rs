//! The program `evener`.
//!
//! [`arguments`] parses the command line. A command turns it into a [`plan`] (keys, engines,
//! options, paths) before anything runs. [`run`] carries the plan out, shows progress and reports
//! the result.

#![deny(unsafe_code)]

mod arguments;
mod commands;
mod deletion;
mod document;
mod ends;
mod help;
mod hints;
mod keys;
mod metrics;
#[cfg(not(feature = "object-stores"))]
mod objects;
mod options;
mod parent;
mod plain;
mod plan;
mod progress;
mod prometheus;
mod route;
mod run;
mod sealed;
mod signals;
mod stores;
mod summary;
mod table;
mod terminal;
mod trouble;
mod whole_file;

#[cfg(feature = "object-stores")]
use evener::objects;

use arguments::{Command, program};
use evener_cli::witness;
use parent::Parent;
use signals::Signals;
use trouble::{Ending, Trouble};

fn main() -> ! {
    evener_cli::run("evener", || {
        match arguments::parse().and_then(|arguments| perform(arguments.command)) {
            Ok(ending) => ending.into(),
            Err(trouble) => trouble.tell(),
        }
    })
}

fn perform(command: Command) -> Result<Ending, Trouble> {
    let parent = if command.follows_parent() { Parent::find() } else { None };
    see_to_the_end(&command)?;
    let signals = Signals::install()?;
    parent.map(Parent::follow).transpose().map_err(Trouble::Signals)?;
    if command.holds_keys() {
        // The work is possible even if this fails.
        let _ = evener::keys::protect_process();
    }
    let document = command.own_document();
    if let Some(name) = document {
        let line = b"evener: interrupted\n".to_vec();
        signals.tell_before_work(document::interruption(name), line);
    }
    let result = match command {
        Command::Keygen(options) => options.perform(&signals),
        Command::Encrypt(options) => options.perform(&signals),
        Command::Decrypt(options) => options.perform(&signals),
        Command::Verify(options) => options.perform(&signals),
        Command::Cat(options) => options.perform(&signals),
        Command::List(options) => options.perform(&signals),
        Command::Diff(options) => options.perform(&signals),
        Command::Clean(options) => options.perform(&signals),
        Command::Rewrap(options) => options.perform(&signals),
        Command::Rekey(options) => options.perform(&signals),
        Command::Signers(options) => options.perform(&signals),
        Command::Job(options) => options.perform(&signals),
        Command::Engines(options) => options.perform(),
        Command::Speed(options) => options.perform(),
        Command::Gate(options) => options.perform(),
        Command::Tls(options) => options.perform(&signals),
        Command::Completions(options) => options.perform(program()),
        Command::Man(options) => options.perform(program()),
    };
    if let (Some(name), Err(trouble)) = (document, &result)
        && !matches!(trouble, Trouble::Output(_))
    {
        document::print_failure(name, trouble)?;
    }
    result
}

/// Puts the work under a witness if it loads code that is not the program's own.
fn see_to_the_end(command: &Command) -> Result<(), Trouble> {
    let document = command.document();
    let print = |trouble: &Trouble| match document {
        Some(name) => document::print_failure(name, trouble),
        None => Ok(()),
    };
    let lost = |sentence: &str| {
        let trouble = Trouble::usage(sentence);
        let printed = print(&trouble);
        trouble.tell();
        if let Err(trouble) = printed {
            trouble.tell();
        }
    };
    let begun = witness::begin(&command.foreign_engines(), lost).map_err(Trouble::Process);
    begun.or_else(|trouble| print(&trouble).and(Err(trouble)))
}
