//! `openssl speed` for every engine of the machine: the comparison of the AES-NI article.
//!
//! A figure is thousands of bytes a second for one engine, cipher, direction, number of threads
//! and message length. The engines take turns at every figure, so that a change of the machine's
//! speed affects them all alike, and each is used as intended:
//!
//! - `openssl` as `openssl speed -evp` uses it ([`stream`]), so that its figures are the familiar
//!   ones: in place, with the same buffer and key, continuing where the last call ended;
//! - every other engine through its session ([`messages`]), with as many messages at once as it
//!   recommends, each with its own IV. On request, `openssl` is used in this way too;
//! - AES on `openssl` again without the CPU's AES instructions, in a child process that finds them
//!   masked ([`masked`]): libcrypto examines the CPU only when it is loaded.
//!
//! One thread of an engine that computes on the calling core is timed by that thread's CPU clock,
//! as in `openssl speed`; several threads, and modules, are timed by the wall clock.

mod case;
mod chart;
mod command;
mod compare;
mod contender;
mod csv;
mod error;
mod groups;
mod masked;
mod messages;
mod options;
mod report;
mod row;
mod run;
mod stream;
mod sys;
mod table;

pub use command::Command;
pub use compare::Comparison;
pub use error::SpeedError;
pub use options::SpeedOptions;
pub use report::{Contestant, LeftOut, SpeedReport};
pub use row::Row;
pub use run::run;
