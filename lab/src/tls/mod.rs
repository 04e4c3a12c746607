//! Measures nginx with OpenSSL's own ciphers and with Evener's, in turns.
//!
//! For each contender the benchmark starts a separate nginx in a temporary folder, with a different
//! configuration of OpenSSL. A client in this process fetches files over loopback, from one
//! contender after the other in every case of every round. It counts requests, bytes and the CPU
//! time of nginx's workers, but not the client's. A contender's files are compared with the
//! originals, and its provider's count with the bytes that nginx sent: a contender that leaves the
//! records to OpenSSL's own ciphers is an error. Each round restarts the servers.
//!
//! The client is part of this program, with the OpenSSL that it was built with: it needs no
//! package, measures the same way on every system, and decrypts as fast as any.

mod certificate;
mod client;
mod command;
mod contender;
mod display;
mod options;
mod page;
mod report;
mod run;
mod server;
mod site;
mod starts;
mod usage;

pub use command::Command;
pub use options::{Named, Suite, TlsOptions, Version};
pub use report::{Case, Figures, Row, Start, TlsReport, Turn};
pub use run::run;
