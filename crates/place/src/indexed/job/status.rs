//! The state of a job.

use evener_core::Key;
use serde::Serialize;

use super::manifest::Job;
use crate::place::Store;
use crate::{Failure, RunSettings};

/// The facts by which a worker finds the ends of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// The job, in hexadecimal.
    pub job: String,
    /// The SHA-256 of the manifest's file.
    pub manifest: [u8; 32],
    /// The place of the job, as the planner had it. A job in another place was put there by somebody
    /// else.
    pub place: String,
    /// The source, as the planner had it.
    pub source: String,
    /// The target, as the planner had it.
    pub target: String,
    /// The recipients for whom attempts wrap their keys.
    pub recipients: Vec<String>,
    /// The number of shards.
    pub shards: u64,
}

/// How far a job is.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct JobStatus {
    /// The job, in hexadecimal.
    pub job: String,
    /// The source, as the planner had it.
    pub source: String,
    /// The target, as the planner had it.
    pub target: String,
    /// The generation that it has made, or at which it aims.
    pub generation: u64,
    /// The number of shards.
    pub shards: u64,
    /// The number of shards that are done.
    pub done: u64,
    /// The shards that have no receipt, in ascending order.
    pub missing: Vec<u64>,
    /// The number of objects.
    pub objects: u64,
    /// Those of the shards that are done, as the plan has them.
    pub objects_done: u64,
    /// The bytes of content.
    pub bytes: u64,
    /// Those of the shards that are done, as the plan has them.
    pub bytes_done: u64,
    /// True if the generation is made.
    pub finished: bool,
}

/// Reads those facts from the manifest.
///
/// # Errors
/// When it can't be read, or the key is another one.
pub fn job_info(store: &dyn Store, run: &RunSettings, key: &Key) -> Result<JobInfo, Failure> {
    let job =
        Job::open(store, run, key, None).map_err(|error| Failure { path: store.label(), error })?;
    let manifest = &job.manifest;
    Ok(JobInfo {
        job: job.keys.job().to_string(),
        manifest: job.digest,
        place: manifest.place.clone(),
        source: manifest.source.clone(),
        target: manifest.target.clone(),
        recipients: manifest.recipients.clone(),
        shards: manifest.shards.len() as u64,
    })
}

/// How far a job is, by a listing of its receipts.
///
/// # Errors
/// Those of [`job_info`].
pub fn status(store: &dyn Store, run: &RunSettings, key: &Key) -> Result<JobStatus, Failure> {
    let fail = |error| Failure { path: store.label(), error };
    let job = Job::open(store, run, key, None).map_err(fail)?;
    let done = job.done().map_err(fail)?;
    let manifest = &job.manifest;
    let is_done = |number: &usize| done[*number];
    let numbers = 0..manifest.shards.len();
    let missing: Vec<_> = numbers.clone().filter(|it| !is_done(it)).map(|it| it as u64).collect();
    let ended = || numbers.clone().filter(is_done).map(|number| &manifest.shards[number]);
    let note = job.note().map_err(fail)?;
    Ok(JobStatus {
        job: job.keys.job().to_string(),
        source: manifest.source.clone(),
        target: manifest.target.clone(),
        generation: note.as_ref().map_or(manifest.generation, |note| note.generation),
        shards: manifest.shards.len() as u64,
        done: ended().count() as u64,
        missing,
        objects: manifest.objects,
        objects_done: ended().map(|shard| shard.objects).sum(),
        bytes: manifest.bytes,
        bytes_done: ended().map(|shard| shard.bytes).sum(),
        finished: note.is_some(),
    })
}
