//! Processes many messages in memory, with Evener and with libraries for many messages.
//!
//! Every thread has some thousand messages in an arena, and every contender encrypts (or decrypts)
//! all of them, in turn, on the same buffers: the engine `lanes` with jobs and, if the messages are
//! of one length, with records; OpenSSL's EVP with one reused context (the engine `openssl`),
//! intel-ipsec-mb through its job and its burst interface if the library is installed, and `memcpy`
//! of the same bytes as the lower bound. The inputs of a contender (jobs, IVs, key schedules) are
//! made before the clock starts; only ipsec-mb's job interface fills in jobs when they are
//! submitted, which counts. Each contender's output is compared with OpenSSL's once.

mod command;
mod contender;
mod ipsec;
mod load;
mod options;
mod report;
mod run;

pub use command::Command;
pub use contender::Contender;
use options::Spacing;
pub use options::{Lengths, MessagesOptions};
pub use report::{MessagesReport, Row, Skipped};
pub use run::run;
