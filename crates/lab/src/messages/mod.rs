//! Many messages in memory, beside the libraries that encrypt many at once.
//!
//! Every thread has some thousand messages in an arena, and every contender encrypts (or
//! decrypts) all of them, in turn, on the same buffers: the engine `lanes` with jobs and, if the
//! messages are of one length, with records; OpenSSL's EVP with
//! one reused context (the engine `openssl`), intel-ipsec-mb through its job and its burst
//! interface if the library is installed, and `memcpy` of the same bytes as the floor. What a
//! contender is handed (jobs, IVs, key schedules) is made before the clock starts; the job
//! interface of ipsec-mb wants its jobs filled in as they are submitted, so that this counts.
//! Each contender's output is compared with OpenSSL's once.

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
