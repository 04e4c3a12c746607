//! Code that the programs `evener` and `evener-lab` share.
//!
//! | file | holds |
//! |---|---|
//! | `lib.rs` | start and end of a program |
//! | `arguments.rs` | reading the command line, and usage errors |
//! | `values.rs` | values of options: ciphers, engines, policies |
//! | `help.rs`, `man.rs`, `completions.rs` | help with examples, manual pages, completion scripts |
//! | `messages.rs` | messages on standard error |
//! | `streams` (`sys.rs`) | standard input and output |
//! | `limits.rs` | the limit of open files |
//! | `end.rs` | the exit, without running foreign code |
//! | `witness/` | proof of success from outside the working process |

#![deny(unsafe_code)]

pub mod arguments;
pub mod completions;
pub mod end;
pub mod help;
mod left_behind;
pub mod limits;
pub mod man;
pub mod messages;
mod panics;
#[allow(unsafe_code)]
mod sys;
pub mod values;
pub mod witness;

use std::process::ExitCode;

/// Standard input and output.
pub mod streams {
    pub use crate::sys::{
        input, keep_input, keep_output, output, output_file, stdin_was_closed, stdout_was_closed,
    };
}

/// Runs a program from its start to its exit. `name` is the prefix of its messages.
///
/// A panic is reported in one line and gives the status 1.
pub fn run(name: &'static str, perform: impl FnOnce() -> ExitCode) -> ! {
    messages::set_name(name);
    let status = panics::caught(|| {
        sys::refuse_closed_stdout();
        limits::prepare_open_files();
        evener::gate::explain_bus_errors();
        evener::claim_process();
        let status = perform();
        left_behind::tell();
        status
    });
    end::now(status)
}
