//! Jobs: several workers make one generation of a sealed tree. docs/guide/jobs.md shows how.
//!
//! [`Evener::plan_job`] cuts a source into shards. Any number of workers call [`Evener::run_shard`]
//! or [`Evener::run_job_worker`], on any machines and repeatedly if need be. [`Evener::finish_job`]
//! makes the generation.

use evener_core::Key;
use evener_place::{Failure, FileError, Operation, Report, Store, indexed};

pub use evener_place::indexed::{
    CleanedJob, Ends, Finished, JobInfo, JobStatus, PlanOptions, Planned, ShardEnd, ShardOptions,
    ShardRule, Worked,
};

/// How long a job would take, how many requests, and what it would cost.
pub use evener_place::indexed::simulate;

use crate::sealed_trees::SealedOptions;
use crate::seated::Seated;
use crate::{Evener, Options};

impl Evener {
    /// Plans a job: lists its source, writes its shards and its manifest, and begins the tree if
    /// there is none. Of the options, [`Options::run`](crate::Options::run) and
    /// [`Options::transfer`](crate::Options::transfer) count. `key` seals the job's own files, and
    /// without [`PlanOptions::recipients`] the generation too.
    ///
    /// # Errors
    /// When the source can't be listed whole, one of its entries can't be taken, or
    /// [`Ends::job`] is a job already: then there is no job.
    pub fn plan_job(
        &self,
        ends: &Ends<'_>,
        sealed: &SealedOptions,
        key: &Key,
        plan: &PlanOptions,
    ) -> Result<Planned, Failure> {
        let Options { run, transfer, .. } =
            self.options_for(Operation::Encrypt, ends.job.label())?;
        indexed::plan(ends, &run, &transfer, sealed, key, plan)
    }

    /// Does a shard of a job, unless it has a receipt.
    ///
    /// # Errors
    /// When the job or the target can't be read, or is not the one of the manifest. The report
    /// names files that failed: such a shard has no receipt.
    pub fn run_shard(
        &self,
        ends: &Ends<'_>,
        key: &Key,
        number: u64,
        shard: ShardOptions<'_>,
    ) -> Result<(Report, ShardEnd), Failure> {
        let Seated { options, notice } = self.seated_for_job(ends)?;
        let (mut report, end) = indexed::run_shard(ends, &options.run, key, number, shard)?;
        report.notices.extend(notice);
        Ok((report, end))
    }

    /// Does the shards of one of several workers, which are numbered from 0: first those whose
    /// number leaves `worker` when it is divided by `workers`, then those of others that have no
    /// receipt.
    ///
    /// # Errors
    /// Those of [`Evener::run_shard`].
    pub fn run_job_worker(
        &self,
        ends: &Ends<'_>,
        key: &Key,
        (worker, workers): (u64, u64),
        shard: ShardOptions<'_>,
    ) -> Result<(Report, Worked), Failure> {
        let Seated { options, notice } = self.seated_for_job(ends)?;
        let share = (worker, workers);
        let (mut report, worked) = indexed::run_worker(ends, &options.run, key, share, shard)?;
        report.notices.extend(notice);
        Ok((report, worked))
    }

    /// Returns how far a job is, by a listing of its receipts.
    ///
    /// # Errors
    /// Those of [`Evener::job_info`].
    pub fn job_status(&self, job: &dyn Store, key: &Key) -> Result<JobStatus, Failure> {
        let options = self.options_for(Operation::Decrypt, job.label())?;
        indexed::status(job, &options.run, key)
    }

    /// Returns what a worker must know of a job to find its ends.
    ///
    /// # Errors
    /// When the place holds no job, its manifest can't be read, or the key is another one.
    pub fn job_info(&self, job: &dyn Store, key: &Key) -> Result<JobInfo, Failure> {
        let options = self.options_for(Operation::Decrypt, job.label())?;
        indexed::job_info(job, &options.run, key)
    }

    /// Returns the work of a planned job, for a [simulation](simulate).
    ///
    /// # Errors
    /// Those of [`Evener::job_info`].
    pub fn job_work(&self, job: &dyn Store, key: &Key) -> Result<simulate::Work, Failure> {
        let options = self.options_for(Operation::Decrypt, job.label())?;
        simulate::Work::of_job(job, &options.run, key)
    }

    /// Makes the generation of a job whose shards all have receipts. It reads no content. If the
    /// generation is there, it writes nothing.
    ///
    /// # Errors
    /// When shards have no receipt, a receipt is not what the manifest says, or the target does not
    /// have exactly the files of the receipts: then no generation is made.
    pub fn finish_job(
        &self,
        ends: &Ends<'_>,
        sealed: &SealedOptions,
        key: &Key,
    ) -> Result<Finished, Failure> {
        let options = self.options_for(Operation::Encrypt, ends.job.label())?;
        indexed::finish(ends, &options.run, sealed, key)
    }

    /// Removes the files of a finished job from its place. With `abandons`, it also removes those
    /// of a job without a generation.
    ///
    /// # Errors
    /// When the job is not finished, or files can't be removed.
    pub fn clean_job(
        &self,
        ends: &Ends<'_>,
        key: &Key,
        abandons: bool,
    ) -> Result<CleanedJob, Failure> {
        let options = self.options_for(Operation::Decrypt, ends.job.label())?;
        indexed::clean_job(ends, &options.run, key, abandons)
    }

    fn seated_for_job(&self, ends: &Ends<'_>) -> Result<Seated, Failure> {
        let fail = |error: FileError| Failure { path: ends.target.label(), error };
        self.seated(Operation::Encrypt).map_err(fail)
    }
}
