//! Sharing the CPU: what Evener does to another program that wants the cores, and what is left
//! for Evener.
//!
//! A foreground program, a child process with as many threads as there are cores, does units of
//! work all the time, and short work every 5 ms. It runs alone, and then beside Evener, which
//! encrypts messages in memory without end: as it is by default, with `--background` and with
//! `--max-cpu`. Evener runs alone in each of these settings too. In every round all of them take
//! their turns, another one first, and ratios are made within a round.

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
