//! Evener's formats, key files and trees on disk.
//!
//! [`process`] encrypts, decrypts or verifies a file or a tree with all workers at once, and
//! [`mod@format`] holds the layouts of the files that it makes.

#![forbid(unsafe_code)]

mod access;
pub mod buffer;
mod contradictions;
mod control;
mod error;
mod exposure;
pub mod format;
mod identity;
mod inherited;
pub mod keys;
mod list;
mod metadata;
mod naming;
mod operation;
mod options;
mod output;
mod prepare;
mod protected;
mod random_access;
mod report;
mod ring;
mod seats;
mod segment;
mod selection;
mod source;
mod stream;
mod trail;
mod tree;
mod unfinished;
mod unkept;
mod workspace;

pub use control::{Control, Progress};
pub use error::{FileError, SystemError};
pub use list::{Listed, Listing, list};
pub use naming::{Naming, refuse_planted};
pub use operation::Operation;
pub use options::{Agree, FileOutcome, Listener, Options};
pub use protected::Protected;
pub use random_access::RandomAccess;
pub use report::{Doubt, Effort, Failure, Notice, Report, Retirement, WorkerEffort};
pub use ring::KeyRing;
pub use selection::{MalformedGlob, MalformedPath, Selection};
pub use stream::{Base64, StreamSource, StreamTarget, process_stream, takes_a_stream};
pub use tree::{Total, measure, process};

/// How the names of a tree's wrapped keys begin: `evener-key.age`, and with a number before
/// the dot for those of later runs.
pub const WRAPPED_KEY_PREFIX: &str = "evener-key";
/// How the names of a tree's wrapped keys end.
pub const WRAPPED_KEY_SUFFIX: &str = ".age";
