//! Evener's queue and workers.
//!
//! A *feed* on the caller's thread puts tasks into one bounded [`Queue`]; every worker is one
//! thread with one engine and one loop: claim a task, perform it, claim the next. The caller's
//! [`Work`] defines the tasks (some files, a segment of one, a record). This crate assigns them to
//! workers. It uses the engine contract and no concrete engine.
//!
//! ```text
//! feed ──push──▶ Queue ──claim──▶ worker 0: Work::perform ─▶ engine
//!        (waits     ▲   ├──────▶ worker 1: Work::perform ─▶ engine
//!        when full) └───┴─ share: a task that several can do; a task whose engine failed
//! ```

#![deny(unsafe_code)]

mod batch;
mod clock;
pub mod costs;
mod gate;
mod hidden;
mod load;
mod openings;
pub mod parallel;
pub mod policy;
mod pressure;
mod priority;
mod queue;
mod run;
pub mod scheduler;
mod statistics;
#[allow(unsafe_code)]
mod sys;
mod tally;
mod throttle;
mod worker;

pub use batch::run_batch;
pub use evener_core::Recall;
pub use evener_core::emptied;
pub use gate::{HearOfWait, Patience, Turns, gated};
pub use hidden::claim_process;
pub use load::{Load, SizeClass};
pub use parallel::Pool;
pub use policy::{PolicyName, UnknownPolicy};
pub use priority::hurry;
pub use queue::Queue;
pub use run::{Courtesy, Returned, RunOptions, Work, run, run_filled};
pub use scheduler::{Counts, Waiting};
pub use statistics::{RunStatistics, WorkerStatistics};
pub use tally::{EngineWork, Tally, Waits};
pub use worker::Worker;
