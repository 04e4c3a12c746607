//! nginx with OpenSSL's own ciphers and with Evener's, in turns.
//!
//! For each contender the bench starts an nginx of its own in a temporary folder, with another
//! configuration of OpenSSL. A client in this process fetches files over loopback, from one
//! contender after the other in every case of every round. Counted are requests, bytes and the CPU
//! time of nginx's workers; the client's is not. A contender's files are compared with what they
//! should be, and what its provider counted with what nginx sent: a contender that leaves the
//! records to OpenSSL's own ciphers is an error. Each round starts the servers anew.
//!
//! The client is this program's own, with the OpenSSL that it was built with: it needs no package,
//! measures the same way on every system, and decrypts as fast as any.

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
