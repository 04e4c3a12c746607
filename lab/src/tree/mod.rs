//! Encrypts and decrypts whole trees with Evener and rival programs, compared with `cp -r`.
//!
//! In every round each contender in turn encrypts a tree and decrypts the result, and `cp -r`
//! copies the tree; the next round begins with a different contender. Before every measurement the
//! previous outputs are removed, the input is in the page cache, no data waits to be written to the
//! disk, and memory for the output has been touched. Evener runs as a separate program, so that its
//! start and its memory count. A contender's restored tree is compared with the source, once for
//! each tree.

mod command;
mod contender;
mod memory;
mod options;
mod place;
mod report;
mod rounds;
mod run;
mod walk;
mod workload;

pub use command::Command;
pub use contender::{ContenderFacts, ContenderName};
pub use memory::MemoryRow;
pub use options::TreeOptions;
pub(crate) use place::{Place, remove};
pub use report::{Row, Skipped, TreeReport};
pub use run::run;
pub use workload::{TreeName, Workload};
