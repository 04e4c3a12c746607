//! Evener's benchmarks: workloads, the rivals that run beside Evener, and reports.
//!
//! A benchmark names every parameter, runs its rivals in the same run, and records the
//! machine. None of them is a test: nothing here fails on a time.

pub mod background;
mod chart;
mod error;
mod machine;
pub mod measure;
pub mod messages;
mod page;
mod pin;
pub mod policies;
mod process;
pub mod processes;
pub mod simulate;
pub mod speed;
mod statistics;
mod sys;
pub mod threads;
pub mod tree;

pub use error::LabError;
pub use machine::Machine;
