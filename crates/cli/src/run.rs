//! Carrying out a plan.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use evener::format::FormatError;
use evener::place::Fault;
use evener::program::{has_files, shown_json};
use evener::{Control, Failure, FileError, Operation, OperationError, Rejection, Report};
use evener_cli::streams;
use evener_core::IgnorePoison;

use crate::document::{print_failure, print_json};
use crate::ends::{Ends, Place};
use crate::hints::Given;
use crate::keys::WrittenKey;
use crate::metrics::Metrics;
use crate::options::Telling;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::route::do_each;
use crate::sealed;
use crate::signals::Signals;
use crate::summary;
use crate::trouble::{Ending, Trouble, complain, end_by_broken_pipe, refused, shown};

/// Makes a plan, carries it out and reports the result. With `--json` exactly one document goes to
/// standard output, whatever happens.
pub(crate) fn run(
    operation: Operation,
    telling: &Telling,
    signals: &Signals,
    plan: impl FnOnce() -> Result<Plan, Trouble>,
) -> Result<Ending, Trouble> {
    // This must come before any module is loaded.
    streams::keep_output();
    say_farewell(operation, telling, signals);
    let result = Metrics::open(&telling.metrics, telling.quiet).and_then(|metrics| {
        let plan = plan()?;
        metrics.watch(&plan.control);
        metrics.watch_stores(&plan.stores);
        carry_out(plan, telling, signals)
    });
    if let Err(trouble) = &result
        && telling.json
        && !matches!(trouble, Trouble::Output(_))
    {
        print_failure(operation.name(), trouble)?;
    }
    result
}

/// Makes an interruption before the work report that nothing was done.
fn say_farewell(operation: Operation, telling: &Telling, signals: &Signals) {
    let mut report = Report::default();
    report.operation = operation.name().to_owned();
    report.interrupted = true;
    let line = format!("evener: {}\n", summary::line(operation, &report, Given::default()));
    // Without a document, the line alone says it.
    let document = telling.json.then(|| serde_json::to_string_pretty(&report).unwrap_or_default());
    let document = document.map(|document| shown_json(&document) + "\n").unwrap_or_default();
    signals.tell_before_work(document.into_bytes(), line.into_bytes());
}

fn carry_out(plan: Plan, telling: &Telling, signals: &Signals) -> Result<Ending, Trouble> {
    if !telling.quiet {
        plan.said.iter().for_each(|said| complain(said));
        for warning in &plan.warnings {
            complain(&format_args!("warning: {warning}"));
        }
    }
    let progress = Arc::new(Progress::of(&plan, telling)?);
    let mut plan = progress.hearing(plan);
    let written = Arc::new(Mutex::new(None));
    let working = signals.stop_gently(&plan.control, {
        let (control, telling, operation) = (plan.control.clone(), telling.clone(), plan.operation);
        let (written, is_tree, given) = (written.clone(), plan.route.has_tree(), plan.given);
        let progress = progress.clone();
        let begun = Instant::now();
        let mut report = Report::default();
        report.directories = u64::from(is_tree);
        report.update = plan.updates;
        let work = (operation, given);
        move || leave_behind(work, report, begun, &control, &telling, &written, &progress)
    })?;
    plan.route.make_directory()?;
    if let Some(key) = &plan.fresh_key {
        let key = key.write().inspect_err(|_| plan.route.remove_empty_directory())?;
        for notice in key.notices().filter(|_| !telling.quiet) {
            complain(&format_args!("{}: {notice}", shown(key.path())));
        }
        let evener = plan.evener.with_options(|options| {
            options.tree.program.target_is_new |= key.made_directory();
            options.tree.program.wrapped_key = Some(key.identity());
        });
        plan = Plan { evener, ..plan };
        *written.lock().ignore_poison() = Some(key);
    }
    let result = progress.watch(&plan, || process(&plan));
    working.finish();
    progress.end(result.as_ref());
    drop(plan.reused_key.take());
    if let Some(key) = written.lock().ignore_poison().take() {
        keep_if_used(key, &plan, &result, telling);
    }
    if result.as_ref().map_or(true, |report| report.files == 0) {
        plan.route.remove_empty_directory();
    }
    let mut report = result?;
    for key in plan.route.keys() {
        report.leave_out(key.clone(), "wrapped key skipped");
    }
    name_pipes(&plan, &mut report);
    if reader_left(&plan, &report) {
        end_by_broken_pipe();
    }
    summary::tell(plan.operation, &report, plan.given, telling);
    if old_kdf_would_explain(&plan, &report) {
        complain(&OLD_KDF);
    }
    if telling.json {
        print_json(&report)?;
    }
    Ok(ending(&report))
}

/// How an operation with this report ends.
pub(crate) fn ending(report: &Report) -> Ending {
    if report.interrupted {
        Ending::Interrupted
    } else if report.is_success() {
        Ending::Done
    } else if no_key_fits(report) {
        Ending::WrongKey
    } else {
        Ending::SomeFailed
    }
}

fn process(plan: &Plan) -> Result<Report, Failure> {
    let empty = RefCell::new(Vec::new());
    let mut report = do_each(plan.operation, &plan.route, |ends| {
        let mut report = process_one(plan, ends)?;
        match nothing_done(plan, ends, &report) {
            Some((failure, true)) => empty.borrow_mut().push((ends, failure)),
            Some((failure, false)) => {
                report.failures.push(failure);
                ends.remove_empty_target();
            }
            None => {}
        }
        Ok(report)
    })?;
    // One empty tree among several is normal.
    let empty = empty.into_inner();
    if empty.len() == plan.route.ends.len() {
        for (ends, failure) in empty {
            report.failures.push(failure);
            ends.remove_empty_target();
        }
    }
    Ok(report)
}

/// Processes one source. Failed files give a report, not an error.
fn process_one(plan: &Plan, ends: &Ends) -> Result<Report, Failure> {
    let Plan { operation, evener, .. } = plan;
    if let Some(sealed) = &plan.sealed {
        return sealed::process(&plan.stores, evener, *operation, ends, sealed);
    }
    if let Some(rekeying) = &plan.rekeying {
        return rekeying.process(evener, &ends.source.path());
    }
    if ends.has_objects() {
        return plan.stores.process(evener, *operation, ends);
    }
    let result = match (&ends.source, &ends.target) {
        (Place::Path(source), None) if !ends.has_pipe() => evener.process(*operation, source, None),
        (Place::Path(source), Some(Place::Path(target))) if !ends.has_pipe() => {
            evener.process(*operation, source, Some(target))
        }
        _ => {
            let closed =
                |error: io::Error| Failure { path: "-".into(), error: refused(error.to_string()) };
            let source = ends.stream_source().map_err(closed)?;
            let target = ends.stream_target().map_err(closed)?;
            evener.process_stream(*operation, source, target)
        }
    };
    result.or_else(OperationError::into_report)
}

/// Reports the progress of an operation that was asked to stop, and can't be waited for. Unfinished
/// outputs have no names yet.
fn leave_behind(
    (operation, given): (Operation, Given),
    mut report: Report,
    begun: Instant,
    control: &Control,
    telling: &Telling,
    written: &Mutex<Option<WrittenKey>>,
    shown: &Progress,
) {
    let progress = control.progress();
    report.operation = operation.name().to_owned();
    report.interrupted = true;
    report.files = progress.completed_files;
    report.bytes = progress.done_bytes;
    report.seconds = begun.elapsed().as_secs_f64();
    // Which file has a key of `rekey` is not certain now, and a store may still finish an object.
    if let Some(key) = written.lock().ignore_poison().take()
        && report.files == 0
        && !given.rekeys
        && !key.is_in_store()
    {
        key.remove();
    }
    shown.end(Ok(&report));
    summary::tell(operation, &report, given, telling);
    if telling.json {
        // The program ends even if this fails.
        let _ = print_json(&report);
    }
}

/// Removes a fresh key that encrypted nothing: the operation failed, or all files were complete
/// already. If a store may have an object under the key, the key stays.
fn keep_if_used(key: WrittenKey, plan: &Plan, result: &Result<Report, Failure>, telling: &Telling) {
    let is_used = match result {
        Ok(report) if report.files == 0 && plan.rekeying.is_some() => !is_unbegun(plan),
        Ok(report) => {
            let may_be_stored = report.interrupted && key.is_in_store()
                || report.failures.iter().any(|failure| is_unknown(&failure.error));
            report.files > 0 || may_be_stored || report.is_success() && key.is_first()
        }
        Err(failure) => is_unknown(&failure.error),
    };
    if !is_used {
        key.remove();
    } else if telling.verbose {
        complain(&format_args!("the key is wrapped in {}", shown(key.path())));
    }
}

/// Returns whether an object may have been stored.
fn is_unknown(error: &FileError) -> bool {
    matches!(error, FileError::Place(Fault::Unknown(_)))
}

/// Returns whether no file has the new key yet.
fn is_unbegun(plan: &Plan) -> bool {
    let source = &plan.route.first().source;
    let rekeying = plan.rekeying.as_ref();
    rekeying.is_some_and(|rekeying| rekeying.is_unbegun(&plan.evener, &source.path()))
}

/// Returns whether files could not be decrypted because `openssl enc` made them without PBKDF2, as
/// far as is known.
fn old_kdf_would_explain(plan: &Plan, report: &Report) -> bool {
    use Rejection::Padding;
    let is_padding = |failure: &Failure| {
        use FileError::{Rejected, RejectedEnd};
        let (Rejected { rejection, .. } | RejectedEnd { rejection, .. }) = &failure.error else {
            return false;
        };
        *rejection == Padding
    };
    plan.evener.key_ring().primary().iterations().is_some()
        && report.failures.iter().any(is_padding)
}

const OLD_KDF: &str = "files that `openssl enc` made without -pbkdf2 need --kdf legacy (with \
     --digest md5 if OpenSSL was older than 1.1.0); others need the right passphrase, --iterations \
     and --digest";

/// Returns whether the key is wrong, or for another format, for everything that there was to do. A
/// further name of a file fails like its first, which is among the failures.
fn no_key_fits(report: &Report) -> bool {
    let is_other = |failure: &Failure| {
        use FileError::{Format, LinkedToFailed};
        use FormatError::{
            IdentityNeeded, OtherFormat, OtherRecipients, PassphraseNeeded, WrongKey,
            WrongPassphrase,
        };
        let Format(error) = &failure.error else {
            return matches!(failure.error, LinkedToFailed(_));
        };
        let of_age =
            matches!(error, IdentityNeeded | OtherRecipients | PassphraseNeeded | WrongPassphrase);
        of_age || matches!(error, WrongKey | OtherFormat { .. })
    };
    let is_doubted = report.retired.iter().any(|retired| retired.doubtful_jobs > 0);
    report.files == 0
        && report.files_skipped + report.files_unchanged + report.files_updated == 0
        && !is_doubted
        && report.failures.iter().all(is_other)
}

/// Returns an error if nothing of a tree was done, as after a mistake in `--suffix` or `--include`,
/// or with a directory on which nothing is mounted: a script must not take that for success. A tree
/// of directories and links alone counts as something. Also returns whether the tree has nothing to
/// process.
fn nothing_done(plan: &Plan, ends: &Ends, report: &Report) -> Option<(Failure, bool)> {
    let is_told = report.interrupted || !report.failures.is_empty();
    if plan.rekeying.is_some() {
        let failure = Failure { path: ends.source.path(), error: refused(NOTHING_TO_REKEY) };
        return (!is_told && !has_done(report)).then_some((failure, false));
    }
    let Place::Path(source) = &ends.source else { return None };
    if plan.reads_sealed {
        // Of a glob that fits nothing there is a notice.
        let is_something = has_done(report) || report.symlinks > 0 || report.notices.is_empty();
        if is_told || is_something {
            return None;
        }
        return Some((Failure { path: source.clone(), error: refused(NOTHING_CHOSEN) }, false));
    }
    if is_told || has_done(report) || !ends.source_is_tree || has_done_named(plan, source) {
        return None;
    }
    let encrypts = plan.operation == Operation::Encrypt;
    let has_files = has_files(source, plan.follows_links, encrypts);
    let has_links = report.symlinks > 0 && (encrypts || !has_files);
    if has_links || !has_files && report.directories > 1 {
        return None;
    }
    let takes_all = encrypts && plan.selection.takes_everything();
    let why = match (has_files, encrypts) {
        (false, _) if report.left_out == 0 => EMPTY,
        (true, true) if !takes_all => NOTHING_TAKEN,
        (true, false) => NOTHING_FITS,
        _ => ": all that it holds was left out",
    };
    let done = match plan.operation {
        Operation::Encrypt => "encrypted",
        Operation::Decrypt => "decrypted",
        Operation::Verify => "verified",
    };
    let error = refused(format!("nothing was {done}{why}"));
    Some((Failure { path: source.clone(), error }, !has_files || takes_all))
}

fn has_done(report: &Report) -> bool {
    report.files + report.files_skipped + report.files_updated + report.files_unchanged > 0
}

/// The reason why there is nothing to do with a tree.
pub(crate) const EMPTY: &str =
    ": it holds neither files nor links nor directories, as where a disk is not mounted";

const NOTHING_CHOSEN: &str =
    "the options (--include, --exclude, --only) select nothing of what this generation holds";

const NOTHING_TO_REKEY: &str = "nothing was rekeyed: it holds no file that the key given opens; `evener encrypt` \
                                encrypts files";

const NOTHING_TAKEN: &str =
    ": it has files, but the options (--include, --exclude) select none of them";

const NOTHING_FITS: &str = ": none of its files is encrypted and chosen; encrypted files' names end \
     in `.enc`, age's in `.age`, or in what --suffix says, and --include, --exclude and --only choose \
     among those";

/// Returns whether `--only` names nothing but symbolic links and directories without files, all of
/// which were done.
fn has_done_named(plan: &Plan, source: &Path) -> bool {
    let follow = plan.follows_links;
    let is_done = |below: &PathBuf| {
        let path = source.join(below);
        let found = if follow { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let Ok(kind) = found.map(|found| found.file_type()) else { return false };
        let is_empty = || !has_files(&path, follow, false);
        kind.is_dir() && plan.selection.takes_directory(below) && is_empty()
            || kind.is_symlink() && plan.selection.takes_file(below)
    };
    let named = plan.selection.paths();
    !named.is_empty() && named.iter().all(is_done)
}

/// Names standard input and output in errors: `-` can be either.
fn name_pipes(plan: &Plan, report: &mut Report) {
    let reads = plan.route.first().source == Place::Pipe;
    let writes = plan.route.first().target == Some(Place::Pipe);
    for failure in &mut report.failures {
        if let FileError::System { action, .. } = &mut failure.error {
            match *action {
                "read it" if reads => *action = "read standard input",
                "write the output" if writes => *action = "write to standard output",
                _ => {}
            }
        }
    }
}

/// Returns whether the reader of the output has closed it.
fn reader_left(plan: &Plan, report: &Report) -> bool {
    let broken = |failure: &Failure| {
        matches!(failure.error, FileError::System { errno, .. }
            if errno.kind() == io::ErrorKind::BrokenPipe)
    };
    plan.route.first().target == Some(Place::Pipe) && report.failures.iter().any(broken)
}
