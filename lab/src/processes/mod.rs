//! Runs many processes that use one engine at once, with and without the gate: the experiment of
//! the UltraSPARC paper.
//!
//! N processes are forked; each opens the engine, passes the gate, encrypts its messages and ends.
//! The result is the throughput of all processes from the first fork to the end of the last
//! process. The disciplines run in turns within each round, so that other load affects all of them
//! alike; `none` is the rival.

mod command;
mod crowd;
mod error;
mod figures;
mod options;
mod report;
mod run;
mod sys;
mod verdict;
mod worker;

pub use command::Command;
pub use error::ProcessesError;
pub use options::ProcessesOptions;
pub use report::{Failure, Permits, ProcessesReport, Row, Skipped};
pub use run::run;
