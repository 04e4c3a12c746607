//! Operations on files and trees on disk, by all workers.
//!
//! The caller's thread walks the tree and feeds batches of names. A worker that claims a batch
//! opens, reads, processes and writes each file while the data is in its cache. A file that is
//! longer than a worker's buffer becomes a task that idle workers share, segment by segment. Hard
//! links and the times of directories, which need the whole tree, come at the end.

mod around;
mod changed_since;
mod changing;
mod choice;
mod clashes;
mod commit;
mod delete;
mod descent;
mod directory;
mod durable;
mod endpoints;
mod feed;
mod finish;
mod link;
mod linked_sources;
mod links;
mod list;
mod measure;
mod modes;
mod mounts;
mod names;
mod open;
mod opened;
mod orphans;
mod plan;
mod resume;
mod symlinks;
mod update;
mod walk;
mod wanted;
mod work;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::access::may_write;
use crate::metadata::Metadata;
use crate::output::Outputs;
use crate::seats::Accounts;
use crate::stream::takes_a_stream;
use crate::{
    Failure, FileError, KeyRing, Notice, Operation, OperationError, Refusal, Report, RunSettings,
    StreamOptions, StreamSource, StreamTarget, TreeOptions, contradictions, seats, stream,
};
use evener_seal::{Request, Sealer, affordable_workers};

pub(crate) use descent::Descent;
pub(crate) use directory::{Made, make_below, open_directory};
pub(crate) use endpoints::refuse_overlap;
pub(crate) use finish::finish_new_directory;
pub(crate) use link::{Attempt, Link};
pub(crate) use links::notice_of_apart;
pub(crate) use mounts::is_mount_list_beginning;
pub(crate) use names::{folds, in_small_letters};
pub(crate) use open::TreeOutput;
pub(crate) use resume::is_same_time;
pub(crate) use symlinks::refuse_no_link;

pub use list::{Listed, Listing, list, list_place};
pub use measure::{Total, has_files, measure};
pub(crate) use names::Claims;

use endpoints::Endpoints;
use work::TreeWork;

/// Encrypts, decrypts or verifies a file or a tree.
///
/// A tree's output is a tree: the same relative names, as
/// [`TreeOptions::names`] has them.
/// A file's output is the file `target`, or a file with such a name in `target` if that is a
/// directory. `target` is `None` exactly for [`Operation::Verify`].
///
/// A source that is a symbolic link is followed, as `cp` does; [`TreeOptions::follow_symlinks`] says
/// whether links below it are.
///
/// # Errors
/// [`OperationError::Incomplete`] when files failed; all other files are done, and its report lists
/// the failed ones. [`OperationError::NotBegun`] when the operation could not begin: the source
/// does not exist; the target can't be made, is inside the source tree or contains it; no engine
/// supports the cipher; or options contradict each other or the operation, as when sources are to
/// be removed without an [`RunSettings::reference`] to read the outputs back.
pub fn process(
    operation: Operation,
    keys: &KeyRing,
    source: &Path,
    target: Option<&Path>,
    run: &RunSettings,
    options: &TreeOptions,
) -> Result<Report, OperationError> {
    perform(operation, keys, source, target, run, options)?.into_result()
}

/// As [`process`], but returns a report of failed files too.
fn perform(
    operation: Operation,
    keys: &KeyRing,
    source: &Path,
    target: Option<&Path>,
    run: &RunSettings,
    options: &TreeOptions,
) -> Result<Report, Failure> {
    let stream = target.filter(|target| takes_a_stream(target) && source.is_file());
    let target = match stream {
        Some(stream) if options.dry_run => {
            refuse_stream(stream, options)?;
            None
        }
        Some(stream) => return to_stream(operation, keys, source, stream, run, options),
        None => target,
    };
    let started = Instant::now();
    let fail = |error| Failure { path: source.to_owned(), error };
    let cipher = keys.primary().cipher();
    contradictions::in_tree(operation, cipher, run, options).map_err(fail)?;
    if source.is_dir() {
        contradictions::of_many_files(operation, keys).map_err(fail)?;
    }
    let direction = operation.direction();
    let mut seats = seats::able(run, cipher, direction).map_err(fail)?;
    seats.truncate(affordable_workers(run.memory, keys));
    let metadata = Metadata::of(operation, source, options);
    let endpoints = Endpoints::find((operation, &metadata), source, target, options)?;
    // A resumed run replaces complete outputs whose source is still to be removed, after it has
    // refused other files in their place.
    let resumes = options.existing.resumes();
    let replaces = options.existing.replaces() || resumes && options.remove_source;
    let sources = options.program.shared.as_ref().map(|shared| shared.sources.clone());
    let outputs = Outputs::new(operation, replaces, !resumes, &options.protected, &run.control)
        .sparing(sources.unwrap_or_default());
    let root = endpoints.root(source);
    let accounts = Accounts::open(&seats);
    let paths = (root, target);
    let settings = (run, options);
    let work =
        TreeWork::new((operation, metadata), keys, paths, &endpoints, settings, &outputs, &seats);
    if let Some(target) = target {
        work.look_at_target(&endpoints, target)?;
    }

    let run_options = run.options(cipher, direction, QUEUED_TASKS);
    let sealer = Sealer::new(
        &work,
        &Request {
            operation,
            keys,
            control: &run.control,
            seats: &seats,
            memory: run.memory,
            length: endpoints.length(),
            reads_back: options.remove_source,
            order: None,
        },
    );
    let statistics = evener_pipeline::run(&seats, &run_options, &sealer, |queue| {
        work.feed(&endpoints, &sealer.feed(queue));
    });
    work.commit_waiting();
    let (hard_links, apart) = work.make_links(&endpoints);
    let apart = (!apart.is_empty()).then(|| {
        evener_pipeline::run(&seats, &run_options, &sealer, |queue| {
            work.feed_apart(&endpoints, apart, &sealer.feed(queue));
        })
    });
    let mut report = Report {
        operation: operation.name().to_owned(),
        format: keys.primary().format().to_owned(),
        cipher: cipher.to_string(),
        dry_run: options.dry_run,
        update: options.existing.updates(),
        hard_links,
        ..Report::default()
    };
    let by_times = work.change_times.notice();
    let of_sources = work.metadata.notice();
    let unverified = sealer.unverified();
    work.finish_all(&endpoints, target, &mut report);
    if let Some(reason) = of_sources {
        report.notices.push(Notice { path: source.to_owned(), reason: reason.to_owned() });
    }
    for reason in outputs.notices().chain(by_times) {
        let path = target.unwrap_or(source).to_owned();
        report.notices.push(Notice { path, reason: reason.to_owned() });
    }
    report.add_statistics(statistics);
    apart.into_iter().for_each(|statistics| report.add_statistics(statistics));
    accounts.settle(&mut report);
    let files = unverified.files.into_iter().map(|(engine, path)| (engine, full(root, &path)));
    report.add_doubts(files);
    report.add_unnamed_doubts(root, unverified.unnamed);
    report.interrupted |= run.control.is_stopped();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Processes a file whose output goes to a device or a FIFO, or to a descriptor's target.
fn to_stream(
    operation: Operation,
    keys: &KeyRing,
    source: &Path,
    target: &Path,
    run: &RunSettings,
    options: &TreeOptions,
) -> Result<Report, Failure> {
    refuse_stream(target, options)?;
    contradictions::in_run(run).map_err(|error| Failure { path: source.to_owned(), error })?;
    let (source, target) =
        (StreamSource::File(source.to_owned()), StreamTarget::File(target.to_owned()));
    stream::perform(operation, keys, source, target, run, &StreamOptions::from(options))
}

/// Refuses a stream as the target if it can't be one.
fn refuse_stream(target: &Path, options: &TreeOptions) -> Result<(), Failure> {
    let fail = |error| Failure { path: target.to_owned(), error };
    if options.remove_source {
        return Err(fail(Refusal::NotReadBack.into()));
    }
    may_write(target).map_err(|errno| fail(FileError::system("open the output")(errno)))
}

/// A path below the root as the user would write it.
fn full(root: &Path, path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { root.to_owned() } else { root.join(path) }
}

/// The most tasks that wait. Each holds some names, and keeps its directory open.
const QUEUED_TASKS: usize = 64;
