//! Takes shards until none is left.

use evener_core::Key;

use super::manifest::Job;
use super::plan::Ends;
use super::run::{ShardEnd, ShardOptions, empty};
use super::shards::Share;
use crate::{Failure, Fault, FileError, Report, RunSettings};

/// The result of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Worked {
    /// The shards that it has done.
    pub done: Vec<u64>,
    /// Those that another worker has done first.
    pub already: Vec<u64>,
    /// Those at which files failed; they have no receipt.
    pub failed: Vec<u64>,
    /// Those at which there was a conflict.
    pub conflicts: Vec<u64>,
}

/// Does shards: first those whose number leaves `worker` when it is divided by `workers`, then those
/// of others that have no receipt. A shard at which files fail is left for another try, and the
/// worker goes on.
///
/// # Errors
/// Those of [`run_shard`](super::run_shard).
pub fn run_worker(
    ends: &Ends<'_>,
    run: &RunSettings,
    key: &Key,
    (worker, workers): (u64, u64),
    options: ShardOptions<'_>,
) -> Result<(Report, Worked), Failure> {
    let mut report = empty();
    let mut worked = Worked::default();
    if run.control.is_stopped() {
        report.interrupted = true;
        return Ok((report, worked));
    }
    let of_job = |error| Failure { path: ends.job.label(), error };
    let job = Job::open(ends.job, run, key, ends.manifest).map_err(of_job)?;
    let mut share = Share::new(worker, workers, job.manifest.shards.len() as u64);
    // A listing takes many requests. Each attempt looks for its own receipt.
    let mut done = Vec::new();
    while !run.control.is_stopped() {
        if !share.has_own() {
            done = job.done().map_err(of_job)?;
        }
        let has_receipt = |shard: u64| done.get(shard as usize).copied().unwrap_or(false);
        let Some(shard) = share.next(has_receipt) else { break };
        let (of_shard, end) = match job.run(ends, run, shard, options) {
            Ok(None) => continue,
            Ok(Some(done)) => done,
            // The shard alone may be damaged.
            Err(failure) if worked.failed.len() < MOST_FAILED => {
                report.failures.push(failure);
                worked.failed.push(shard);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let is_closed = of_shard.failures.iter().any(is_closed);
        report.absorb(of_shard);
        match end {
            ShardEnd::Done => worked.done.push(shard),
            ShardEnd::Already => worked.already.push(shard),
            ShardEnd::Conflict => worked.conflicts.push(shard),
            ShardEnd::Failed => worked.failed.push(shard),
        }
        if is_closed {
            break;
        }
    }
    report.interrupted |= run.control.is_stopped();
    Ok((report, worked))
}

/// Returns whether a place takes no more data, for no shard.
fn is_closed(failure: &Failure) -> bool {
    matches!(failure.error, FileError::Place(Fault::Closed(_)))
}

/// The number of shards that may fail before a worker ends because of one that can't begin.
const MOST_FAILED: usize = 8;
