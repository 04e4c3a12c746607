//! The begin and the end of a job: one machine plans it, and one finishes it.

use super::attempt::{MANIFEST_LINE, RECEIPT_FILE, ROW, pages};
use super::requests::Requests;
use super::scenario::Scenario;
use super::work::Work;

/// What one of them takes.
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

/// Reads each receipt twice, lists the target's files and the receipts, and writes the nodes and
/// the root. It makes one request after another.
pub(super) fn finish(work: &Work, scenario: &Scenario) -> End {
    let shards = work.shards();
    let directories = shards.min(256);
    let files = work.objects() + shards * super::attempt::blocks(work.objects() / shards.max(1));
    // Each directory has a page that is not full.
    let listed = pages(shards) + files / 1000 + directories;
    // A receipt is read in two requests.
    let (get, nodes) = (4 * shards + 4, shards / 1024 + 1);
    let limits = &scenario.limits;
    let receipts = 2 * work.objects() * RECEIPT_FILE;
    let seconds = listed as f64 * limits.list_latency
        + (get + nodes + 3) as f64 * limits.latency
        + receipts as f64 / scenario.machine.connection;
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
/// The bytes of an object in a listing.
const LISTED: u64 = 300;
/// The bytes of a shard's blocks in nodes.
const BLOCK_LINE: u64 = 3000;
