//! Draws the costs of a machine's engines.

mod chart;
mod command;

pub use command::Command;
