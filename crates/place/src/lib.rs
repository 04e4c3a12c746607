//! Evener's operations on files, trees and pipes.
//!
//! [`process`] encrypts, decrypts or verifies a file or a tree with all workers at once, and
//! `evener-format` holds the layouts of the files that it makes.

#![forbid(unsafe_code)]

mod access;
pub mod buffer;
mod contradictions;
mod entries;
mod existing;
mod exposure;
mod identity;
pub mod indexed;
mod inherited;
mod left_out;
mod location;
mod long_read;
mod metadata;
mod naming;
mod operation;
mod options;
mod output;
mod place;
mod protected;
mod random_access;
mod record;
mod rekey;
mod report;
mod sealed_names;
mod seats;
mod selection;
mod source;
mod stream;
mod temporary;
mod tree;
mod unfinished;
mod unkept;

pub use evener_seal::{
    Contradiction, Control, Fault, FileError, KeyRing, MalformedPath, Name, Operation, Progress,
    Refusal, Settled, SystemError,
};

pub use existing::{Agree, Delete, Existing, Update};
pub use naming::refuse_planted;
pub use operation::OperationError;
pub use options::{
    FileOutcome, Listener, RunSettings, StreamOptions, TransferOptions, TreeOptions,
};
#[doc(hidden)]
pub use options::{ForProgram, SharedTarget};
#[doc(hidden)]
pub use place::{
    Abilities, Blob, Content, Draft, Entry, Kind, Local, MOST_LISTED, Memory, Metadata, NewObject,
    Origin, ReadAhead, Stamp, Store, Tree, Version, too_many, transfer,
};
pub use protected::Protected;
pub use random_access::{RandomAccess, random_access};
pub use rekey::{Heads, RekeyOptions, rekey, rekey_objects, replace_head};
pub use report::{Doubt, Effort, Failure, Notice, Report, Retirement, SealedTree, WorkerEffort};
pub use sealed_names::{MalformedSuffix, SealedNames};
pub use selection::{MalformedGlob, Selection};
pub use stream::{
    Base64, StreamSource, StreamTarget, commands_terminals, process_stream, takes_a_stream,
};
pub use tree::{Listed, Listing, Total, has_files, list, list_place, measure, process};
