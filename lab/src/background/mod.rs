//! Sharing the CPU: how much Evener slows down another program, and how much throughput it keeps.
//!
//! A foreground program, a child process with as many threads as there are cores, does units of
//! work continuously, and a short task every 5 ms. It runs alone, and then beside Evener, which
//! encrypts messages in memory continuously: by default, with `--background` and with `--max-cpu`.
//! Evener also runs alone in each of these settings. Every round runs all cases, starting with a
//! different one, and ratios are computed within a round.

mod command;
mod foreground;
mod messages;
mod options;
mod page;
mod program;
mod report;
mod run;
mod setting;
mod team;

pub use command::Command;
pub use options::BackgroundOptions;
pub use program::Program;
pub use report::{BackgroundReport, Row};
pub use run::run;
pub use setting::Setting;
