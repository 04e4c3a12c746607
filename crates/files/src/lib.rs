//! Evener's formats, key files and trees on disk.
//!
//! [`process`] encrypts, decrypts or verifies a file or a tree with all workers at once, and
//! `evener-format` holds the layouts of the files that it makes.

#![forbid(unsafe_code)]

mod access;
pub mod buffer;
mod contradictions;
mod control;
mod error;
mod exposure;
mod identity;
mod inherited;
pub mod keys;
mod left_out;
mod list;
mod metadata;
mod naming;
mod operation;
mod options;
mod output;
pub mod place;
mod protected;
mod random_access;
mod record;
mod report;
mod ring;
mod seal;
mod seats;
mod selection;
mod source;
mod stream;
mod temporary;
mod tree;
mod unfinished;
mod unkept;
mod wrapped_key;

pub use control::{Control, Progress};
pub use error::{FileError, SystemError};
pub use list::{Listed, Listing, list};
pub use naming::{Naming, refuse_planted};
pub use operation::{Operation, OperationError};
pub use options::{Agree, FileOutcome, Listener, Options};
pub use protected::Protected;
pub use random_access::{RandomAccess, random_access};
pub use report::{Doubt, Effort, Failure, Notice, Report, Retirement, WorkerEffort};
pub use ring::KeyRing;
pub use selection::{MalformedGlob, MalformedPath, Selection};
pub use stream::{Base64, StreamSource, StreamTarget, process_stream, takes_a_stream};
pub use tree::{Total, is_mount_list, measure, process};
pub use wrapped_key::{is_wrapped_key, is_wrapped_key_name, wrapped_key_name};
