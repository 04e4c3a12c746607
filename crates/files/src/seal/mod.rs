//! One object at a time: encryption, decryption and verification of what a place holds.
//!
//! [`Sealer`] performs the tasks of a run: objects that fit a worker's buffers, several in one
//! batch, and longer ones in segments that idle workers share. It opens, names
//! and counts nothing: that is up to its [objects](Objects).

mod compare;
mod large;
mod ledger;
mod objects;
mod openings;
mod prepare;
mod processor;
mod segment;
mod small;
mod trail;
mod work;
mod workspace;
mod writing;

pub(crate) use compare::compare;
pub(crate) use objects::{
    Blob, Done, Draft, Objects, Opened, ReadAt, ReadBack, Room, block_before,
};
pub(crate) use prepare::{
    Prepared, bytes_to_know, bytes_to_prepare, check_key, geometry_of, geometry_of_age, opens,
    opens_header, prepare_plain, prepare_sealed,
};
pub(crate) use processor::Alone;
pub(crate) use segment::{
    SegmentError, Segments, chunks_in, collect, explain, iv_after, last_block, parts,
    process_segment, push_jobs,
};
pub(crate) use work::{Feed, Order, Request, Sealer};
pub(crate) use workspace::{Workspace, affordable_workers, bytes_at_once, zeros};
