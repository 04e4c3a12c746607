//! An attempt at a shard, cut into slices.

use super::object::{found, is_read_at_once, passage, pieces};
use super::requests::{Requests, slice};
use super::scenario::{Limits, Machine, Scenario};
use super::work::ShardSum;

/// An attempt of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    /// The number of the shard.
    pub(super) shard: usize,
    /// When it began, in seconds.
    pub(super) begun: f64,
    /// The slice that is done next.
    pub(super) next: u64,
    /// True if an earlier attempt has begun, so this one looks for each object's file first.
    pub(super) looks: bool,
}

/// The findings of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// None of its files.
    Nothing,
    /// Files that another attempt has made.
    Files,
}

/// The cost of a slice, or of what comes before or after the slices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Effort {
    pub(super) requests: Requests,
    pub(super) objects: u64,
    pub(super) down: u64,
    pub(super) up: u64,
    /// How long it takes for each of the means, in seconds.
    pub(super) times: Times,
    /// The requests in flight.
    pub(super) lanes: f64,
}

/// The time that each of the means needs, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    /// Answers that follow one another, with so many requests in flight.
    pub(super) waiting: f64,
    /// The longest object, whose parts are written one after another.
    pub(super) long: f64,
    pub(super) down: f64,
    pub(super) up: f64,
    pub(super) cores: f64,
}

impl Times {
    pub(super) fn longest(&self) -> f64 {
        self.waiting.max(self.long).max(self.down).max(self.up).max(self.cores)
    }
}

/// The slices of a shard.
pub(super) fn slices(shard: &ShardSum) -> u64 {
    shard.objects.clamp(1, SLICES)
}

impl Attempt {
    /// The next slice.
    pub(super) fn slice(&self, shard: &ShardSum, there: Found, scenario: &Scenario) -> Effort {
        let (number, slices) = (self.next, slices(shard));
        let of = |all: u64| slice(all, number, slices);
        let mean = shard.bytes / shard.objects.max(1);
        let objects = of(shard.objects);
        let looked = found(mean);
        let mut effort = Effort { objects, ..Effort::default() };
        let mut waits = 0;
        if there == Found::Nothing || !self.looks {
            effort.requests = shard.passage.requests.slice(number, slices);
            (effort.down, effort.up) = (of(shard.bytes), of(shard.passage.sealed));
            waits = of(shard.passage.waits);
        }
        match (there, self.looks) {
            (Found::Nothing, false) => {}
            // The file is not there.
            (Found::Nothing, true) => {
                effort.requests.head += objects;
                waits += objects;
            }
            // It is sealed again; then the store says that the file is there, and it is read.
            (Found::Files, false) | (Found::Files, true) => {
                effort.requests += looked.requests.times(objects);
                effort.down += objects * LAST_CHUNK.min(mean);
                effort.down +=
                    if is_read_at_once(mean) && self.looks { of(shard.bytes) } else { 0 };
                waits += looked.waits * objects;
            }
        }
        effort.take_time(shard, (waits, slices), scenario);
        effort
    }
}

impl Effort {
    fn take_time(&mut self, shard: &ShardSum, (waits, slices): (u64, u64), scenario: &Scenario) {
        let Scenario { machine, limits, .. } = scenario;
        let pieces = pieces(shard.objects, shard.bytes).max(1);
        let lanes = machine.requests.max(1).min(pieces);
        // The last round is not full.
        let rounds = (pieces.div_ceil(lanes) * lanes) as f64 / pieces as f64;
        let one_by_one = seconds(waits, self.down + self.up, limits, machine)
            + self.objects as f64 * machine.object_cpu;
        // Several read a long object, and one writes it, part by part.
        let long = passage(shard.longest);
        let longest = seconds(1 + long.requests.writes(), long.sealed, limits, machine);
        self.lanes = lanes as f64;
        self.times.waiting = one_by_one * rounds / lanes as f64;
        self.times.long = longest / slices as f64;
        self.times.down = self.down as f64 / machine.down;
        self.times.up = self.up as f64 / machine.up;
        let bytes = self.down.max(self.up) as f64;
        let cpu = self.objects as f64 * machine.object_cpu + bytes * machine.byte_cpu;
        self.times.cores = cpu / machine.cores;
    }
}

/// The time of requests that follow one another.
fn seconds(waits: u64, bytes: u64, limits: &Limits, machine: &Machine) -> f64 {
    waits as f64 * limits.latency + bytes as f64 / machine.connection
}

/// Requests that one worker makes one after another, of which so many are no listings.
fn alone(requests: Requests, (down, up): (u64, u64), waits: u64, scenario: &Scenario) -> Effort {
    let Scenario { machine, limits, .. } = scenario;
    let listing = requests.list as f64 * limits.list_latency;
    let times = Times {
        waiting: seconds(waits, down + up, limits, machine) + listing,
        long: 0.0,
        down: down as f64 / machine.down,
        up: up as f64 / machine.up,
        cores: 0.0,
    };
    Effort { requests, objects: 0, down, up, times, lanes: 1.0 }
}

/// The requests before the objects of a shard: the receipt (there is none), the target's marker, the
/// rows and the marks of attempts are read, and a mark is written.
pub(super) fn before(shard: &ShardSum, scenario: &Scenario) -> Effort {
    let down = shard.objects * ROW;
    let requests = Requests { get: 3, head: 1, put: 1, list: 1, ..Requests::default() };
    alone(requests, (down, 0), 5, scenario)
}

/// The requests after them: blocks of the index, and the receipt.
pub(super) fn after(shard: &ShardSum, scenario: &Scenario) -> Effort {
    let requests = Requests { put: blocks(shard.objects) + 1, ..Requests::default() };
    let up = shard.objects * (INDEX_ENTRY + RECEIPT_FILE);
    // All blocks but the last are written while other objects are sealed.
    alone(requests, (0, up), 2, scenario)
}

/// The first requests of a worker: it tries the target and the job's place, and reads the job.
pub(super) fn at_start(shards: u64, scenario: &Scenario) -> Effort {
    let requests = Requests { get: 3, put: 4, ..Requests::default() };
    alone(requests, (shards * MANIFEST_LINE, 0), 9, scenario)
}

/// A listing of receipts, before a worker helps others.
pub(super) fn listing(receipts: u64, scenario: &Scenario) -> Effort {
    let requests = Requests { list: pages(receipts), ..Requests::default() };
    alone(requests, (0, 0), 0, scenario)
}

/// The pages of a listing.
pub(super) fn pages(names: u64) -> u64 {
    names.div_ceil(1000).max(1)
}

/// The blocks of the index: the border begins one at every 512th entry, on average.
pub(super) fn blocks(entries: u64) -> u64 {
    entries.div_ceil(512).max(1)
}

/// The most slices of a shard.
const SLICES: u64 = 32;
/// The bytes of a shard in the manifest.
pub(super) const MANIFEST_LINE: u64 = 250;
/// The bytes of an object in a shard's rows.
pub(super) const ROW: u64 = 100;
/// The bytes of an object in the index (docs/evidence/benchmarks.md).
const INDEX_ENTRY: u64 = 114;
/// The bytes of a file in a receipt.
pub(super) const RECEIPT_FILE: u64 = 70;
/// The bytes of the chunk that is read of a file that is there.
const LAST_CHUNK: u64 = 16 << 10;
