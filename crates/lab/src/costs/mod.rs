//! The costs of a machine's engines, drawn.

mod chart;
mod command;

pub use command::Command;
