//! The requests and bytes that one object takes, from the store that has it to the one that gets it.
//!
//! The numbers are those of `crates/object` and `crates/seal`, and were counted in the log of a
//! server; `crates/cli/tests/job_simulate.rs` compares them with real runs.

use evener_format::{Cobblestone, Layout};

use super::requests::Requests;

/// The way of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) requests: Requests,
    /// The requests that follow one another.
    pub(super) waits: u64,
    /// The bytes that are written.
    pub(super) sealed: u64,
}

/// The passage of an object of so many bytes.
pub(super) fn passage(bytes: u64) -> Passage {
    let padded = bytes.saturating_add(NAME);
    let layout = Layout::for_plaintext(&Cobblestone::GEOMETRY, padded);
    // Longer than any store takes.
    let sealed = layout.map_or(padded, |layout| layout.sealed_length());
    let (mut requests, reading) = reading(bytes);
    let part = part_length(sealed);
    let parts = sealed.div_ceil(part);
    let writing = if sealed <= part {
        requests.put = 1;
        1
    } else {
        (requests.begin, requests.part, requests.complete) = (1, parts, 1);
        // Parts go one after another, because a part is given out when it is full.
        2 + parts
    };
    Passage { requests, waits: reading + writing, sealed }
}

/// The requests that read an object, and how many of them follow one another.
fn reading(bytes: u64) -> (Requests, u64) {
    let (get, head) = match bytes {
        // It has no range, so the store is asked for its length.
        0 => (1, 1),
        1..=ROOM => (1, 0),
        // Its length is asked for first. Up to `LONG`, a worker reads a segment at a time.
        _ if bytes <= LONG => (bytes.div_ceil(SEGMENT), 1),
        // Three parts are read ahead for all objects together. Where there are many, a worker reads
        // the other parts a segment at a time: about a third of the bytes.
        _ => {
            let (segments, parts) = (bytes.div_ceil(SEGMENT), bytes.div_ceil(PART));
            ((segments * READ_DIRECTLY + parts * (100 - READ_DIRECTLY)).div_ceil(100), 1)
        }
    };
    (Requests { get, head, ..Requests::default() }, get + head)
}

/// The requests for an object that an earlier attempt has made: its source is opened, its file
/// found, and its header and its last chunk are read.
pub(super) fn found(bytes: u64) -> Passage {
    let (get, head) = if is_read_at_once(bytes) { (1, 0) } else { (0, 1) };
    let requests = Requests { get: get + 4, head: head + 1, ..Requests::default() };
    Passage { requests, waits: requests.total(), sealed: 0 }
}

/// Returns whether an object is read as it is opened.
pub(super) fn is_read_at_once(bytes: u64) -> bool {
    bytes <= ROOM
}

/// The pieces in which objects are worked at: short ones whole, and long ones a segment at a time.
pub(super) fn pieces(objects: u64, bytes: u64) -> u64 {
    let mean = bytes / objects.max(1);
    match is_read_at_once(mean) {
        true => objects,
        false => objects.saturating_mul(mean.div_ceil(SEGMENT)),
    }
}

/// A store takes at most 10,000 parts, which are longer for long objects.
fn part_length(sealed: u64) -> u64 {
    let part = PART * sealed.div_ceil(PART * 10_000).max(1);
    part.max(PART)
}

/// A worker's buffer: what is read at once.
const ROOM: u64 = 264 << 10;
/// The bytes of a segment.
const SEGMENT: u64 = 256 << 10;
/// Objects with more are read ahead.
const LONG: u64 = 1 << 20;
/// The bytes of a part.
const PART: u64 = 8 << 20;
/// The name of a file, at the end of its plaintext.
const NAME: u64 = 17;
/// The bytes of long objects that are read a segment at a time, in percent, as measured with 8 and
/// with 32 requests at once.
const READ_DIRECTLY: u64 = 35;

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(bytes: u64) -> [u64; 6] {
        let Requests { get, head, put, begin, part, complete, .. } = passage(bytes).requests;
        [get, head, put, begin, part, complete]
    }

    #[test]
    fn objects_take_the_requests_that_a_server_counts() {
        assert_eq!(counts(0), [1, 1, 1, 0, 0, 0]);
        assert_eq!(counts(100_000), [1, 0, 1, 0, 0, 0]);
        assert_eq!(counts(500_000), [2, 1, 1, 0, 0, 0]);
        assert_eq!(counts(10_000_000), [15, 1, 0, 1, 2, 1]);
        assert_eq!(counts(100_000_000), [142, 1, 0, 1, 12, 1]);
        // A part is the last one where it is exactly full.
        let whole = (PART - 56 - 512 * 16) - NAME;
        assert_eq!((passage(whole).sealed, counts(whole)[2]), (PART, 1));
        assert_eq!(counts(whole + 1)[3..], [1, 2, 1]);
    }

    #[test]
    fn parts_grow_with_the_object() {
        let long = passage(5 << 40).requests;
        assert!(long.part <= 10_000 && long.part > 9_900, "{long:?}");
    }

    #[test]
    fn sealed_objects_have_a_header_and_a_tag_a_chunk() {
        assert_eq!(passage(0).sealed, 56 + 17 + 16);
        assert_eq!(passage(16_384).sealed, 56 + 16_384 + 17 + 2 * 16);
    }
}
