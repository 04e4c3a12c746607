//! Carrying out a plan.

use std::io::{self, Write};

use evener::{Failure, FileError, Operation, Report};

use crate::keys::WrittenKey;
use crate::options::Telling;
use crate::plan::{Place, Plan};
use crate::progress;
use crate::signals::Signals;
use crate::summary;
use crate::trouble::{Ending, Trouble, complain, end_by_broken_pipe, shown};

/// Makes a plan, carries it out and tells what became of it. With `--json` exactly one document
/// goes to standard output, whatever happens.
pub(crate) fn run(
    operation: Operation,
    telling: &Telling,
    signals: &Signals,
    plan: impl FnOnce() -> Result<Plan, Trouble>,
) -> Result<Ending, Trouble> {
    let result = plan().and_then(|plan| carry_out(plan, telling, signals));
    if let Err(trouble) = &result
        && telling.json
        && !matches!(trouble, Trouble::Output(_))
    {
        let mut report = Report::default();
        report.operation = operation.name().to_owned();
        report.failures.push(trouble.as_failure());
        print_json(&report)?;
    }
    result
}

fn carry_out(mut plan: Plan, telling: &Telling, signals: &Signals) -> Result<Ending, Trouble> {
    if !telling.quiet {
        for warning in &plan.warnings {
            complain(&format_args!("warning: {warning}"));
        }
    }
    signals.stop_gently(&plan.control)?;
    let written = plan.fresh_key.as_ref().map(|key| key.write()).transpose()?;
    if written.as_ref().is_some_and(WrittenKey::made_directory) {
        let evener = plan.evener.options(|options| options.target_is_new = true);
        plan = Plan { evener, ..plan };
    }
    let result = if progress::is_watched(telling) {
        progress::watch(&plan.control, plan.ends.length, || process(&plan))
    } else {
        process(&plan)
    };
    drop(plan.reused_key.take());
    if let Some(key) = written {
        keep_if_used(key, &result, telling);
    }
    let report = result?;
    if reader_left(&plan, &report) {
        end_by_broken_pipe();
    }
    summary::tell(plan.operation, &report, telling);
    if telling.json {
        print_json(&report)?;
    }
    Ok(if report.interrupted {
        Ending::Interrupted
    } else if report.failures.is_empty() {
        Ending::Done
    } else {
        Ending::SomeFailed
    })
}

fn process(plan: &Plan) -> Result<Report, Failure> {
    let Plan { operation, evener, ends, .. } = plan;
    match (&ends.source, &ends.target) {
        (Place::Path(source), None) => evener.process(*operation, source, None),
        (Place::Path(source), Some(Place::Path(target))) => {
            evener.process(*operation, source, Some(target))
        }
        _ => {
            let closed = |error: io::Error| Failure {
                path: "-".into(),
                error: FileError::Refused(error.to_string()),
            };
            let source = ends.stream_source().map_err(closed)?;
            let target = ends.stream_target().map_err(closed)?;
            evener.process_stream(*operation, source, target)
        }
    }
}

/// Removes a fresh key that nothing was encrypted with: the operation failed, or all was
/// complete already.
fn keep_if_used(key: WrittenKey, result: &Result<Report, Failure>, telling: &Telling) {
    let is_used = match result {
        Ok(report) => report.files > 0 || report.is_success() && key.is_first(),
        Err(_) => false,
    };
    if !is_used {
        key.remove();
    } else if telling.verbose {
        complain(&format_args!("the key is wrapped in {}", shown(key.path())));
    }
}

/// Whether whoever read the output has gone.
fn reader_left(plan: &Plan, report: &Report) -> bool {
    let broken = |failure: &Failure| {
        matches!(failure.error, FileError::System { errno, .. }
            if io::Error::from(errno).kind() == io::ErrorKind::BrokenPipe)
    };
    plan.ends.target == Some(Place::Pipe) && report.failures.iter().any(broken)
}

/// Prints a JSON document.
pub(crate) fn print_json(document: &impl serde::Serialize) -> Result<(), Trouble> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, document)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(out))
        .and_then(|()| out.flush())
        .map_err(Trouble::Output)
}
