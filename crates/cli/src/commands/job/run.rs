//! `evener job run`

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use evener::jobs::{Ends, ShardEnd, ShardOptions, Worked};
use evener::{Control, Failure, Operation, Report};
use evener_cli::streams;
use serde::Serialize;
use serde_json::json;

use super::{AtJob, OfJob, OpenJob, warn};
use crate::document::print_json;
use crate::hints::Given;
use crate::metrics::Metrics;
use crate::options::{EngineOptions, Telling};
use crate::plan::{Plan, warnings};
use crate::progress::Progress;
use crate::route::Route;
use crate::run::ending;
use crate::sealed::ends_to_seal;
use crate::signals::Signals;
use crate::summary::{self, count};
use crate::trouble::{Ending, Trouble, complain};

/// Seal shards of a job
///
/// With --shard, Evener seals that shard. The exit status is 3 if another worker has done it,
/// before or meanwhile, and 1 if a file failed: the shard then has no receipt, and can be run again.
///
/// With --worker I/N, for the numbers 0 to N-1, Evener seals the shards of one of N workers, and
/// then those of others that are not done yet. Its exit status is 0 when there is nothing left for
/// it to do.
///
/// It seals objects that have changed since the plan as they are now.
///
/// The program ends when the process that started it ends.
#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    of_job: OfJob,
    #[command(flatten)]
    which: Which,
    /// Leave out objects that are gone, or are no files any more
    ///
    /// Without this option, the shard fails: the source may only be out of reach, like a disk that
    /// is not mounted. `evener job finish` names what was left out
    #[arg(long)]
    skip_gone: bool,
    #[command(flatten)]
    pub(super) engines: EngineOptions,
    #[command(flatten)]
    pub(super) telling: Telling,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// Seal this shard; the first is 0
    #[arg(long, value_name = "N")]
    shard: Option<u64>,
    /// Seal the shards of worker I of N, such as 3/100; the first is 0
    #[arg(long, value_name = "I/N", value_parser = share)]
    worker: Option<(u64, u64)>,
}

/// Reads `I/N`.
fn share(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once('/').and_then(|(worker, workers)| {
        Some((worker.parse::<u64>().ok()?, workers.parse::<u64>().ok()?))
    });
    numbers.filter(|(worker, workers)| worker < workers).ok_or_else(|| {
        "not a worker and the number of workers, such as 3/100: of 100 workers, the first is 0/100 \
         and the last 99/100"
            .to_owned()
    })
}

impl Run {
    pub(super) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        // This must come before any module is loaded.
        streams::keep_output();
        let Run { of_job, which, skip_gone, engines, telling } = self;
        let metrics = Metrics::open(&telling.metrics, telling.quiet)?;
        let evener = |ring| engines.evener(ring, &telling, signals);
        let job = of_job.open(signals, telling.quiet, evener)?.with_ends()?;
        warn(&warnings(Operation::Encrypt, &job.at.evener, true), telling.quiet);
        metrics.watch_stores(&job.at.stores);
        work(job, (&which, skip_gone), (&telling, &metrics), signals)
    }
}

fn work(
    job: OpenJob,
    (which, skips_gone): (&Which, bool),
    (telling, metrics): (&Telling, &Metrics),
    signals: &Signals,
) -> Result<Ending, Trouble> {
    let wrap = job.wrap(signals)?.map(|(wrap, _)| wrap);
    if let Some(number) = which.shard.filter(|number| *number >= job.info.shards) {
        return Err(Trouble::Usage(format!(
            "--shard {number}: the job has {}, numbered from 0",
            count(job.info.shards, "shard")
        )));
    }
    let OpenJob { at, info, at_source, at_target, .. } = job;
    let manifest = info.manifest;
    let AtJob { evener, key, at_job, .. } = at;
    let ends = ends_to_seal(vec![info.source.into(), info.target.into()], telling)?;
    let route = Route::of(vec![ends]);
    let plan = Plan::new(Operation::Encrypt, evener, route, Vec::new(), |_| Ok(()))?;
    let plan = Plan { takes_shards: true, ..plan };
    metrics.watch(&plan.control);
    let progress = Arc::new(Progress::of(&plan, telling)?);
    let plan = progress.hearing(plan);
    let ends =
        Ends { source: &at_source, target: &at_target, job: &at_job, manifest: Some(manifest) };
    let working = signals.stop_gently(&plan.control, {
        let (control, telling, progress) =
            (plan.control.clone(), telling.clone(), progress.clone());
        let begun = Instant::now();
        move || leave_behind(&control, begun, &telling, &progress)
    })?;
    let options = ShardOptions { wrap: wrap.as_ref(), skips_gone };
    let evener = &plan.evener;
    let result: Result<(Report, Shards), Failure> =
        progress.watch(&plan, || match (which.shard, which.worker) {
            (Some(number), _) => {
                let (report, end) = evener.run_shard(&ends, &key, number, options)?;
                Ok((report, Shards::of(number, end)))
            }
            (None, share) => {
                let share = share.unwrap_or((0, 1));
                let (report, worked) = evener.run_job_worker(&ends, &key, share, options)?;
                Ok((report, worked.into()))
            }
        });
    working.finish();
    progress.end(result.as_ref().map(|(report, _)| report));
    let (report, shards) = result?;
    tell(&report, &shards, telling)?;
    Ok(match ending(&report) {
        Ending::Interrupted => Ending::Interrupted,
        _ if !shards.conflicts.is_empty() => Ending::Conflict,
        Ending::Done if !shards.failed.is_empty() => Ending::SomeFailed,
        Ending::Done if which.shard.is_some() && !shards.already.is_empty() => Ending::Already,
        ending => ending,
    })
}

/// The ends of the shards, by their numbers.
#[derive(Default, Serialize)]
struct Shards {
    done: Vec<u64>,
    already: Vec<u64>,
    failed: Vec<u64>,
    conflicts: Vec<u64>,
}

impl Shards {
    fn of(number: u64, end: ShardEnd) -> Shards {
        let mut shards = Shards::default();
        match end {
            ShardEnd::Done => shards.done.push(number),
            ShardEnd::Already => shards.already.push(number),
            ShardEnd::Conflict => shards.conflicts.push(number),
            _ => shards.failed.push(number),
        }
        shards
    }
}

impl From<Worked> for Shards {
    fn from(worked: Worked) -> Shards {
        let Worked { done, already, failed, conflicts, .. } = worked;
        Shards { done, already, failed, conflicts }
    }
}

/// Prints the result.
fn tell(report: &Report, shards: &Shards, telling: &Telling) -> Result<(), Trouble> {
    let given = Given { takes_shards: true, ..Given::default() };
    summary::tell(Operation::Encrypt, report, given, telling);
    let has_failed = [
        (&shards.failed, "without a receipt: run again"),
        (&shards.conflicts, "in conflict: DST has files of another origin under their names"),
    ];
    let has_ended = [(&shards.done, "done"), (&shards.already, "done by another worker")];
    let told = has_ended.iter().filter(|_| !telling.quiet).chain(&has_failed);
    for (numbers, what) in told.filter(|(numbers, _)| !numbers.is_empty()) {
        complain(&format_args!("{} {what}", named(numbers)));
    }
    match telling.json {
        true => print_json(&document(report, shards)),
        false => Ok(()),
    }
}

fn document(report: &Report, shards: &Shards) -> serde_json::Value {
    let mut document = serde_json::to_value(report).unwrap_or_default();
    document["shards"] = json!(shards);
    document
}

/// `shard 3`, `shards 0, 1, 2`, `shards 0, 1, 2, ... (17)`.
fn named(numbers: &[u64]) -> String {
    let first: Vec<_> = numbers.iter().take(MOST_SHOWN).map(u64::to_string).collect();
    match numbers.len() {
        1 => format!("shard {}", first[0]),
        all if all > first.len() => format!("{all} shards ({}, ...)", first.join(", ")),
        _ => format!("shards {}", first.join(", ")),
    }
}

/// Reports the progress of work that was asked to stop, and can't be waited for. Its shard has no
/// receipt.
fn leave_behind(control: &Control, begun: Instant, telling: &Telling, shown: &Progress) {
    let progress = control.progress();
    let mut report = Report::default();
    report.operation = Operation::Encrypt.name().to_owned();
    report.interrupted = true;
    report.files = progress.completed_files;
    report.bytes = progress.done_bytes;
    report.seconds = begun.elapsed().as_secs_f64();
    shown.end(Ok(&report));
    // The program ends even if this fails.
    let _ = tell(&report, &Shards::default(), telling);
}

/// The number of shards that are named.
const MOST_SHOWN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_one_of_so_many() {
        assert_eq!(share("0/1"), Ok((0, 1)));
        assert_eq!(share("99/100"), Ok((99, 100)));
        for text in ["", "1", "1/1", "0/0", "-1/2", "1/", "/2", "1/2/3"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
