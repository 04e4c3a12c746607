//! One object at a time: encryption, decryption and verification of what a place holds.
//!
//! [`Sealer`] performs the tasks of a run: objects that fit a worker's buffers, several in one
//! batch, and longer ones in segments that idle workers share. It opens, names
//! and counts nothing: that is up to its [objects](Objects).

#![forbid(unsafe_code)]

mod compare;
mod control;
mod error;
mod fault;
mod large;
mod ledger;
mod name;
mod objects;
mod openings;
mod operation;
mod prepare;
mod processor;
mod refusal;
mod segment;
mod small;
mod trail;
mod work;
mod workspace;
mod writing;

pub use evener_keys::KeyRing;

pub use compare::compare;
pub use control::{Control, Progress, Settled};
pub use error::{FileError, IntoSystemError, SystemError};
pub use fault::Fault;
pub use name::{LEADS_OUT, MalformedPath, NAMES_ROOT, Name, path_below_root};
pub use objects::{Blob, Done, Draft, Objects, Opened, ReadAt, ReadBack, Room, block_before};
pub use operation::Operation;
pub use prepare::{
    Prepared, bytes_to_know, bytes_to_prepare, check_key, geometry_of, geometry_of_age,
    is_authentic, may_be_ours, opens, opens_header, prepare_plain, prepare_sealed,
};
pub use processor::{Alone, Processor};
pub use refusal::{Contradiction, Refusal, in_brackets, without_suffix};
pub use segment::{
    SegmentError, Segments, chunks_in, collect, explain, iv_after, last_block, parts,
    process_segment, push_jobs,
};
pub use work::{Feed, Order, Request, Sealer};
pub use workspace::{Workspace, affordable_workers, bytes_at_once, zeros};
