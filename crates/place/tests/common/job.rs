//! Jobs of a test.

use std::fs;
use std::path::PathBuf;

use evener_core::Key;
use evener_place::indexed::{
    self, CleanedJob, Ends, Finished, JobStatus, PlanOptions, Planned, SealedOptions, ShardEnd,
    ShardOptions, ShardRule,
};
use evener_place::{Failure, Local, Report, TreeOptions};

use super::sealed::{Scene, key};

impl Scene {
    pub fn job(&self) -> PathBuf {
        self.path("job")
    }

    fn with_ends<T>(&self, act: impl FnOnce(&Ends<'_>) -> T) -> T {
        let all = TreeOptions::default();
        let source = Local::new(self.source(), &all);
        let (target, job) = (Local::new(self.tree(), &all), Local::new(self.job(), &all));
        act(&Ends { source: &source, target: &target, job: &job, manifest: None })
    }

    /// Plans shards of so many entries.
    pub fn try_plan(&self, objects: u64, recipients: &[&str]) -> Result<Planned, Failure> {
        self.try_plan_as(&self.with_key("planner"), objects, recipients)
    }

    pub fn try_plan_as(
        &self,
        sealed: &SealedOptions,
        objects: u64,
        recipients: &[&str],
    ) -> Result<Planned, Failure> {
        let plan = PlanOptions {
            rule: ShardRule { objects, ..ShardRule::default() },
            job: "job".to_owned(),
            source: "source".to_owned(),
            target: "tree".to_owned(),
            recipients: recipients.iter().map(|it| (*it).to_owned()).collect(),
            memory: 10_000,
        };
        let (run, transfer) = (&self.run.run, &self.run.transfer);
        self.with_ends(|ends| indexed::plan(ends, run, transfer, sealed, &key(7), &plan))
    }

    #[track_caller]
    pub fn plan(&self, objects: u64) -> Planned {
        self.try_plan(objects, &[]).unwrap()
    }

    pub fn try_shard(
        &self,
        key: &Key,
        number: u64,
        options: ShardOptions<'_>,
    ) -> Result<(Report, ShardEnd), Failure> {
        self.with_ends(|ends| indexed::run_shard(ends, &self.run.run, key, number, options))
    }

    #[track_caller]
    pub fn run_shard(&self, number: u64) -> (Report, ShardEnd) {
        self.try_shard(&key(7), number, ShardOptions::default()).unwrap()
    }

    /// Has a worker do everything that is left.
    #[track_caller]
    pub fn run_worker(&self, worker: (u64, u64)) -> indexed::Worked {
        let run = &self.run.run;
        let worked = self
            .with_ends(|ends| {
                indexed::run_worker(ends, run, &key(7), worker, ShardOptions::default())
            })
            .unwrap();
        assert_eq!(worked.0.failures, []);
        worked.1
    }

    pub fn try_finish(&self) -> Result<Finished, Failure> {
        self.try_finish_as(&self.with_key("finisher"))
    }

    pub fn try_finish_as(&self, sealed: &SealedOptions) -> Result<Finished, Failure> {
        self.with_ends(|ends| indexed::finish(ends, &self.run.run, sealed, &key(7)))
    }

    /// Finishes the job with this manifest.
    pub fn try_finish_of(&self, manifest: Option<[u8; 32]>) -> Result<Finished, Failure> {
        let sealed = self.with_key("finisher");
        self.with_ends(|ends| {
            indexed::finish(&Ends { manifest, ..*ends }, &self.run.run, &sealed, &key(7))
        })
    }

    #[track_caller]
    pub fn finish(&self) -> Finished {
        self.try_finish().unwrap()
    }

    /// The reason why the job is not finished.
    #[track_caller]
    pub fn unfinished(&self) -> String {
        self.try_finish().unwrap_err().error.to_string()
    }

    pub fn try_clean_job(&self, abandons: bool) -> Result<CleanedJob, Failure> {
        self.with_ends(|ends| indexed::clean_job(ends, &self.run.run, &key(7), abandons))
    }

    pub fn job_info(&self) -> indexed::JobInfo {
        self.with_ends(|ends| indexed::job_info(ends.job, &self.run.run, &key(7))).unwrap()
    }

    pub fn job_status(&self) -> JobStatus {
        self.with_ends(|ends| indexed::status(ends.job, &self.run.run, &key(7))).unwrap()
    }

    /// Files of several lengths in several directories.
    pub fn write_many(&self) {
        for number in 0..30_usize {
            let name = format!("{}/{number}", ["a", "a-b", "a/b", "c/d/e"][number % 4]);
            self.write(&name, &vec![number as u8; number * number * 50]);
        }
        fs::create_dir(self.source().join("empty")).unwrap();
        std::os::unix::fs::symlink("a", self.source().join("link")).unwrap();
        self.settle();
    }
}
