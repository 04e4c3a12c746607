//! Measures a GPU beside the processor: the limits of its bus and kernels, and the engine's share of
//! them.
//!
//! | file | holds |
//! |---|---|
//! | `command.rs` | the command, and its options |
//! | `report.rs` | the report, one JSON document |
//! | `run.rs` | the parts of the benchmark, in order |
//! | `memory.rs` | copies by the processor |
//! | `shared.rs` | look-ups in the device's shared memory |
//! | `resident.rs` | texts that stay in the device's memory |
//! | `peers.rs` | other programs that measure themselves |
//! | `sessions.rs` | the engine by itself: chunks in page-locked memory, with copies interleaved |
//! | `together.rs` | the cores, the GPU and both, in runs under the policy |

mod command;
mod memory;
mod peers;
mod report;
mod resident;
mod run;
mod sessions;
mod shared;
#[cfg(test)]
mod tests;
mod together;

pub use command::{Command, GpuOptions};
pub use report::Report;
pub use run::run;
