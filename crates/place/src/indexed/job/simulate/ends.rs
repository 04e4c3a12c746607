//! The begin and the end of a job: one machine plans it, and one finishes it.

use super::attempt::{MANIFEST_LINE, RECEIPT_FILE, ROW, blocks, pages};
use super::requests::Requests;
use super::scenario::Scenario;
use super::work::Work;

/// The time and the requests of one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct End {
    pub(super) seconds: f64,
    pub(super) requests: Requests,
    pub(super) down: u64,
    pub(super) up: u64,
}

/// Lists the source, several directories at once, and writes the files of the shards, several at once.
pub(super) fn plan(work: &Work, scenario: &Scenario) -> End {
    let (shards, listed) = (work.shards(), pages(work.objects()));
    let requests = Requests {
        list: listed,
        // The job's marker and its manifest, and the tree's marker and the planner's file.
        put: shards + 4,
        ..Requests::default()
    };
    let limits = &scenario.limits;
    let at_once = scenario.machine.requests.clamp(1, MOST_WRITERS) as f64;
    let lists = limits.lists.clamp(1, scenario.machine.requests.max(1)).min(listed);
    let listing = listed as f64 * limits.list_latency / lists as f64;
    let writing = shards as f64 * limits.latency / at_once;
    End {
        seconds: listing + writing + 4.0 * limits.latency,
        requests,
        down: work.objects() * LISTED,
        up: work.objects() * ROW + shards * MANIFEST_LINE,
    }
}

/// Compares the target with the receipts, several directories at once, reads the receipts again,
/// and writes the nodes and the root.
pub(super) fn finish(work: &Work, scenario: &Scenario) -> End {
    let shards = work.shards();
    let directories = shards.clamp(1, 256);
    let files = work.objects() + shards * blocks(work.objects() / shards.max(1));
    // Each directory has a page that is not full.
    let listed = pages(shards) + files / 1000 + directories;
    // A receipt is read in two requests.
    let (get, nodes) = (4 * shards + 4, shards / 1024 + 1);
    let (limits, machine) = (&scenario.limits, &scenario.machine);
    let at_once = |most: u64| machine.requests.clamp(1, most) as f64;
    let compared = at_once(MOST_DIRECTORIES.min(directories));
    let received = work.objects() as f64 * RECEIPT_FILE as f64;
    let reading = |at_once: f64| {
        let waiting = 2.0 * shards as f64 * limits.latency / at_once;
        waiting + received / (at_once * machine.connection).min(machine.down)
    };
    let in_directories = at_once(MOST_DIRECTORIES.min(directories) * MOST_RECEIPTS);
    let seconds = listed as f64 * limits.list_latency / compared
        + reading(in_directories.min(shards.max(1) as f64))
        + reading(at_once(MOST_RECEIPTS).min(shards.max(1) as f64))
        + (4 + nodes + 3) as f64 * limits.latency;
    let receipts = 2 * work.objects() * RECEIPT_FILE;
    let requests = Requests { get, list: listed, put: nodes + 3, ..Requests::default() };
    End {
        seconds,
        requests,
        down: receipts + files * LISTED + shards * MANIFEST_LINE,
        up: shards * BLOCK_LINE,
    }
}

/// The most shards that are written at once.
const MOST_WRITERS: u64 = 16;
/// The most receipts of a directory that are read at once, and the most directories.
const MOST_RECEIPTS: u64 = 16;
const MOST_DIRECTORIES: u64 = 8;
/// The bytes of an object in a listing.
const LISTED: u64 = 300;
/// The bytes of a shard's blocks in nodes.
const BLOCK_LINE: u64 = 3000;
