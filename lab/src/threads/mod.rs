//! One buffer on many threads: the Xeon Phi paper's experiment, on today's machines.
//!
//! A message of 64 MB is encrypted and decrypted in CTR mode by 1 to 64 threads. The contenders are
//! Evener, a copy of the message by as many threads (the lower bound), and two peers: OpenMP with
//! OpenSSL's EVP, in C, and Java's threads with JCE. Both peers have two versions: in parts of 1
//! MiB, as usual today, and one 16-byte block at a time, as in the paper.
//!
//! The peers are programs (`peers/threads`), built when the benchmark begins. They run during the
//! whole benchmark with buffers that were touched, and process the message once per request, so
//! that contenders can alternate and neither page faults nor program starts count. All contenders
//! have the same message, key and counter, so their results must be equal.

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
