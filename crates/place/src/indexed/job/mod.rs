//! Jobs: several workers make one generation of a sealed tree.
//!
//! A planner cuts the source into shards, which are ranges of the index, and writes a manifest of
//! them. Workers seal shards in any order, and repeatedly if need be; a receipt, which is only ever
//! created, says which attempt counts. `finish` compares the receipts with the manifest and with the
//! target, and writes the generation's root. docs/design/sealed-trees.md has the reasons.

mod clean;
mod compare;
mod finish;
mod manifest;
mod plan;
mod receipt;
mod rows;
mod run;
mod shard_files;
mod shards;
pub mod simulate;
mod sorter;
mod source;
mod status;
mod work;

pub use clean::{CleanedJob, clean_job};
pub use finish::{Finished, finish};
pub use plan::{Ends, PlanOptions, Planned, plan};
pub(super) use receipt::Made;
pub use run::{ShardEnd, ShardOptions, run_shard};
pub(super) use shard_files::ShardFiles;
pub use shards::ShardRule;
pub use status::{JobInfo, JobStatus, job_info, status};
pub use work::{Worked, run_worker};
