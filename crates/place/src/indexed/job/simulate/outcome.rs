//! The outcome of a simulation.

use serde::Serialize;

use super::attempt::Effort;
use super::ends::End;
use super::requests::Requests;
use super::scenario::Scenario;
use super::store::Gate;
use super::work::Work;

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The number of workers.
    pub workers: u64,
    /// The number of shards.
    pub shards: u64,
    /// The number of objects.
    pub objects: u64,
    /// The bytes of all objects.
    pub bytes: u64,
    /// The time of all, in seconds.
    pub seconds: f64,
    /// The time of `evener job plan`, in seconds.
    pub plan_seconds: f64,
    /// The time from the first worker's start to the last receipt, in seconds.
    pub run_seconds: f64,
    /// The time of `evener job finish`, in seconds.
    pub finish_seconds: f64,
    /// Objects that the workers do each second.
    pub objects_per_second: f64,
    /// Bytes of objects that the workers do each second.
    pub bytes_per_second: f64,
    /// All requests that were not refused.
    pub requests: Requests,
    /// Requests that the store refused with 503, and that were repeated.
    pub retries: u64,
    /// The bytes that were received.
    pub bytes_read: u64,
    /// The bytes that were sent.
    pub bytes_written: u64,
    /// Attempts at shards.
    pub attempts: u64,
    /// Attempts that ended because another one was first.
    pub overtaken: u64,
    /// Objects that were sealed although another attempt had done so.
    pub duplicates: u64,
    /// Objects that a later attempt found and took.
    pub already: u64,
    /// Workers that were killed.
    pub kills: u64,
    /// The shares of the workers' time in which each of the means was the limit.
    pub limits: Shares,
}

/// Shares of time, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Shares {
    /// Answers: more requests at once, or more workers, would be faster.
    pub latency: f64,
    /// The longest object of a shard, whose parts are written one after another: smaller shards would
    /// not be faster, and more workers would.
    pub long_objects: f64,
    /// The worker's download.
    pub download: f64,
    /// The worker's upload.
    pub upload: f64,
    /// The worker's cores.
    pub cores: f64,
    /// The store's reads a second.
    pub store_reads: f64,
    /// The store's writes a second.
    pub store_writes: f64,
    /// The worker had nothing to do: it had not begun again, or there was no shard.
    pub idle: f64,
}

/// The run of the workers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    pub(super) seconds: f64,
    pub(super) requests: Requests,
    pub(super) retries: u64,
    down: u64,
    up: u64,
    pub(super) attempts: u64,
    pub(super) overtaken: u64,
    pub(super) duplicates: u64,
    pub(super) already: u64,
    pub(super) kills: u64,
    /// The seconds of all workers, by what limited them.
    limits: Shares,
}

impl Run {
    /// Counts a step that takes so many seconds.
    pub(super) fn count(
        &mut self,
        effort: &Effort,
        gate: Option<Gate>,
        seconds: f64,
        refused: u64,
    ) {
        let Effort { requests, down, up, times, .. } = effort;
        self.requests += *requests;
        self.retries += refused;
        self.down = self.down.saturating_add(*down);
        self.up = self.up.saturating_add(*up);
        let longest = times.longest();
        let limit = match gate {
            Some(Gate::Reads) => &mut self.limits.store_reads,
            Some(Gate::Writes) => &mut self.limits.store_writes,
            None if longest <= times.waiting => &mut self.limits.latency,
            None if longest <= times.long => &mut self.limits.long_objects,
            None if longest <= times.down => &mut self.limits.download,
            None if longest <= times.up => &mut self.limits.upload,
            None => &mut self.limits.cores,
        };
        *limit += seconds;
    }

    /// Counts how often an attempt of so many seconds has looked for another one's receipt.
    pub(super) fn ended(&mut self, seconds: f64) {
        self.requests.head += (seconds / LOOKS_AGAIN) as u64;
    }
}

impl Outcome {
    pub(super) fn of(
        work: &Work,
        scenario: &Scenario,
        plan: End,
        run: Run,
        finish: End,
    ) -> Outcome {
        let time = run.seconds.max(1e-9);
        let workers = scenario.workers.max(1);
        let each = |seconds: f64| seconds / (time * workers as f64);
        let Shares {
            latency,
            long_objects,
            download,
            upload,
            cores,
            store_reads,
            store_writes,
            ..
        } = run.limits;
        let busy = [latency, long_objects, download, upload, cores, store_reads, store_writes];
        // Steps that were begun before the last receipt end after it.
        let all = busy.into_iter().map(each).sum::<f64>();
        let share = |seconds: f64| each(seconds) / all.max(1.0);
        Outcome {
            workers,
            shards: work.shards(),
            objects: work.objects(),
            bytes: work.bytes(),
            seconds: plan.seconds + run.seconds + finish.seconds,
            plan_seconds: plan.seconds,
            run_seconds: run.seconds,
            finish_seconds: finish.seconds,
            objects_per_second: work.objects() as f64 / time,
            bytes_per_second: work.bytes() as f64 / time,
            requests: plan.requests + run.requests + finish.requests,
            retries: run.retries,
            bytes_read: run.down + plan.down + finish.down,
            bytes_written: run.up + plan.up + finish.up,
            attempts: run.attempts,
            overtaken: run.overtaken,
            duplicates: run.duplicates,
            already: run.already,
            kills: run.kills,
            limits: Shares {
                latency: share(latency),
                long_objects: share(long_objects),
                download: share(download),
                upload: share(upload),
                cores: share(cores),
                store_reads: share(store_reads),
                store_writes: share(store_writes),
                idle: (1.0 - all).max(0.0),
            },
        }
    }
}

/// How often an attempt looks if another one has finished the shard, in seconds.
const LOOKS_AGAIN: f64 = 5.0;
