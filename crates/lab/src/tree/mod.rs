//! Whole trees encrypted and decrypted beside `cp -r` and the tools that people use for it.
//!
//! In every round each contender encrypts a tree and decrypts the result, in turn, and
//! `cp -r` copies it; the next round begins with another contender. Before every measurement
//! the outputs of the last one are gone, what it will read is in the page cache, nothing waits
//! to be written to the disk, and memory for the output has been touched. Evener runs as the
//! program, in a process of its own, so that its start and its memory count. What a contender
//! restored is compared with the source, once for each tree.

mod command;
mod contender;
mod memory;
mod options;
mod place;
mod report;
mod rounds;
mod run;
mod walk;
mod watch;
mod workload;

pub use command::Command;
pub use contender::{ContenderFacts, ContenderName};
pub use memory::MemoryRow;
pub use options::TreeOptions;
pub use report::{Row, Skipped, TreeReport};
pub use run::run;
pub use workload::{TreeName, Workload};
