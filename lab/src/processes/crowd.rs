//! Runs many processes at once, from the first fork to the end of the last.

use std::io::{self, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evener_core::shown_error;

use super::ProcessesError;
use super::report::Measurement;
use super::sys::{self, SharedWords};
use super::worker::Work;

/// The result of a run of many processes.
pub(super) enum Outcome {
    /// All processes finished their work.
    Done(Measurement),
    /// Number of failed processes, and the first failure.
    Failed { failed: usize, why: String },
}

/// Runs this many processes at once. Processes that have not ended after `limit` are killed.
///
/// # Errors
/// When this process lacks a resource. If no more processes can be started, that is an outcome, not
/// an error.
pub(super) fn run(
    work: &Work,
    processes: usize,
    limit: Duration,
) -> Result<Outcome, ProcessesError> {
    let failed = |cause| ProcessesError::Process { processes, cause };
    let shared = SharedWords::new(2 * processes + 1).map_err(failed)?;
    let (times_of_all, has_complained) = shared.words().split_at(2 * processes);
    let (mut complaint, complain) = io::pipe().map_err(failed)?;
    let start = Instant::now();
    let mut children = Vec::with_capacity(processes);
    let mut refused = None;
    for times in times_of_all.chunks_exact(2) {
        match sys::fork(|| live(work, times, &has_complained[0], &complain)) {
            Ok(child) => children.push(child),
            Err(cause) => {
                refused = Some(cause);
                break;
            }
        }
    }
    let started = children.len();
    let (mut context_switches, mut done) = (0, 0);
    let mut broken = 0;
    for (child, times) in children.into_iter().zip(times_of_all.chunks_exact(2)) {
        let deadline = if refused.is_none() { start + limit } else { start };
        match sys::wait_until(child, deadline).map_err(failed)? {
            Some((well, switches)) => {
                context_switches += switches;
                // An engine's code may have ended the process with a success status.
                let has_worked = times[1].load(Ordering::SeqCst) > 0;
                done += usize::from(well && has_worked);
                broken += usize::from(well && !has_worked);
            }
            None => sys::kill(child),
        }
    }
    let elapsed = start.elapsed();
    evener_gate::reset(&work.gate.engine, work.gate.scope, None)?;
    if done < processes {
        let why = match refused {
            Some(cause) => {
                let cause = shown_error(&cause);
                format!("only {started} could be started ({cause}); see `ulimit -u`")
            }
            None => {
                drop(complain);
                let mut words = String::new();
                complaint.read_to_string(&mut words).map_err(failed)?;
                match broken {
                    _ if !words.is_empty() => words,
                    0 => format!("not done after {limit:.0?}"),
                    _ => "the engine's code ended it before its work was done".to_owned(),
                }
            }
        };
        return Ok(Outcome::Failed { failed: processes - done, why });
    }
    let seconds = |at: usize| {
        let nanoseconds = |times: &[AtomicU64]| times[at].load(Ordering::SeqCst);
        let times = times_of_all.chunks_exact(2).map(nanoseconds);
        times.map(|time| Duration::from_nanos(time).as_secs_f64()).collect()
    };
    let bytes = work.messages as f64 * work.length as f64;
    let (waited, worked) = (seconds(0), seconds(1));
    Ok(Outcome::Done(Measurement { elapsed, bytes, context_switches, waited, worked }))
}

/// Runs one process; only the first failed process reports the reason.
fn live(
    work: &Work,
    times: &[AtomicU64],
    has_complained: &AtomicU64,
    mut complain: &PipeWriter,
) -> bool {
    match work.run() {
        Ok(took) => {
            times[0].store(took.waited.as_nanos() as u64, Ordering::SeqCst);
            times[1].store(took.worked.as_nanos() as u64, Ordering::SeqCst);
            true
        }
        Err(error) => {
            if has_complained.swap(1, Ordering::SeqCst) == 0 {
                // A pipe accepts a page without waiting for its reader.
                let _ = complain.write_all(error.to_string().as_bytes());
            }
            false
        }
    }
}
