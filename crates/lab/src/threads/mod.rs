//! One buffer on many threads: the Xeon Phi paper's experiment, on today's machines.
//!
//! A message of 64 MB is encrypted and decrypted in CTR mode by 1 to 64 threads. Beside Evener
//! run a copy of the message by as many threads, which is the floor, and two peers: OpenMP with
//! OpenSSL's EVP, in C, and Java's threads with JCE. Both are there in two ways: as one would
//! write them today, and as the paper did it, with every 16-byte block for itself.
//!
//! The peers are programs (`peers/threads`), built when the benchmark begins. They live through
//! it with buffers that have been touched and do one turn when they are told to, so that all
//! contenders take turns and none of them pays for page faults or for its start. Everybody's
//! message, key and counter are the same, and so must be what they make of it.

mod build;
mod chart;
mod command;
mod contender;
mod copy;
mod options;
mod paper;
mod peer;
mod report;
mod run;

pub use command::Command;
pub use contender::Contender;
pub use options::ThreadsOptions;
pub use paper::PaperRow;
pub use report::{Row, Skipped, ThreadsReport, Version};
pub use run::run;
