//! Runs the rounds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use evener_cli::messages::complain;
use evener_core::{Direction, EngineError, Kind};
use evener_gate::{Discipline, GateOptions};

use super::crowd::{self, Outcome};
use super::report::{Failure, Measurement, Permits, ProcessesReport, Row, Skipped};
use super::sys::{self, SharedWords};
use super::worker::Work;
use super::{ProcessesError, ProcessesOptions};

/// Runs the benchmark. `tell` is called with each step.
///
/// The calling process must have one thread, because it forks.
///
/// # Errors
/// [`ProcessesError`] when no engine is available, or processes can't be started or fail.
pub fn run(
    options: &ProcessesOptions,
    tell: &mut dyn FnMut(&str),
) -> Result<ProcessesReport, ProcessesError> {
    let mut report = ProcessesReport::new(options);
    for engine in &options.engines {
        let holders = match holders(engine, options) {
            Ok(holders) => holders,
            Err(error) if options.engines.len() == 1 => return Err(error.into()),
            Err(error) => {
                report.skipped.push(Skipped { engine: engine.clone(), why: error.to_string() });
                continue;
            }
        };
        let permits = permits(engine, options, &holders);
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        for &processes in &options.processes {
            let found = measure(options, &permits, processes, tell)?;
            for (&discipline, found) in options.disciplines.iter().zip(found) {
                match found {
                    Ok(measurements) => {
                        rows.push(Row::of(engine, discipline, processes, &measurements));
                    }
                    Err(failure) => failures.push(failure),
                }
            }
        }
        report.add(permits, rows, failures);
    }
    match report.failures.first() {
        Some(first) if report.rows.is_empty() => Err(ProcessesError::Failed(first.to_string())),
        _ => Ok(report),
    }
}

/// Runs all rounds of a number of processes: for each discipline the figures, or the failure.
fn measure(
    options: &ProcessesOptions,
    permits: &Permits,
    processes: usize,
    tell: &mut dyn FnMut(&str),
) -> Result<Vec<Result<Vec<Measurement>, Failure>>, ProcessesError> {
    let engine = &permits.engine;
    let mut found = vec![Ok(Vec::new()); options.disciplines.len()];
    for round in 0..options.rounds {
        tell(&format!("{engine}: {processes} processes, round {}", round + 1));
        // Each round begins with a different discipline.
        for turn in 0..options.disciplines.len() {
            let index = (round + turn) % options.disciplines.len();
            let discipline = options.disciplines[index];
            let Ok(measurements) = &mut found[index] else { continue };
            let limit = Duration::from_secs(options.limit);
            match crowd::run(&work(options, permits, discipline), processes, limit)? {
                Outcome::Done(measurement) => measurements.push(measurement),
                // An engine that rejects processes is a result, which one run is enough to show.
                Outcome::Failed { failed, why } => {
                    let (engine, discipline) = (engine.clone(), discipline.name());
                    let failure = Failure { engine, discipline, processes, failed, why };
                    tell(&failure.to_string());
                    found[index] = Err(failure);
                }
            }
        }
    }
    Ok(found)
}

/// The number of processes that an engine serves at once.
struct Holders {
    /// The recommended number.
    useful: usize,
    /// The greatest number, if known.
    most: usize,
}

/// The number of permits for each discipline. `lists` has the paper's 64 lists, unless the engine
/// or the user sets a lower limit.
fn permits(engine: &str, options: &ProcessesOptions, holders: &Holders) -> Permits {
    let within = |number: usize| number.clamp(1, GateOptions::MAX_PERMITS);
    Permits {
        engine: engine.to_owned(),
        permits: within(options.permits.unwrap_or(holders.useful.min(holders.most))),
        lists: within(options.permits.unwrap_or(holders.most)).min(LISTS),
    }
}

/// The number of processes that the engine serves at once. A child process probes the engine, so
/// that this process holds no engine when it forks. For CPU engines it is the number of cores plus
/// one.
fn holders(engine: &str, options: &ProcessesOptions) -> Result<Holders, EngineError> {
    let failed = |reason: String| EngineError::failed(reason).of(engine);
    let shared = SharedWords::new(2).map_err(|cause| failed(cause.to_string()))?;
    let child = sys::fork(|| match crate::find(engine) {
        Ok(found) => {
            let offer = found.offer(options.cipher, Direction::Encrypt);
            // One more on the cores: otherwise a core would be idle while a permit is handed over.
            let spare = usize::from(found.description().kind == Kind::Cpu);
            let useful = offer.map_or(0, |offer| offer.depth + spare);
            let most = offer.and_then(|offer| offer.holders).unwrap_or(usize::MAX);
            shared.words()[0].store(useful as u64, Ordering::SeqCst);
            shared.words()[1].store(most as u64, Ordering::SeqCst);
            true
        }
        Err(error) => {
            complain(&error);
            false
        }
    });
    let ended = child.and_then(sys::wait).map_err(|cause| failed(cause.to_string()))?;
    let [useful, most] = [0, 1].map(|at| shared.words()[at].load(Ordering::SeqCst) as usize);
    match useful {
        _ if !ended.0 => Err(EngineError::unavailable("it was not found").of(engine)),
        0 => Err(EngineError::not_offered(options.cipher, Direction::Encrypt).of(engine)),
        useful => Ok(Holders { useful, most }),
    }
}

fn work(options: &ProcessesOptions, permits: &Permits, discipline: Discipline) -> Work {
    let Permits { engine, permits, lists } = permits;
    let permits = if discipline == Discipline::Lists { *lists } else { *permits };
    // A separate gate for this run, so that other users of the engine are not affected.
    let name = format!("bench-{}-{engine}", std::process::id());
    let name = name.chars().filter(char::is_ascii).take(80).collect::<String>();
    Work {
        engine: engine.to_owned(),
        gate: GateOptions { discipline, ..GateOptions::new(name, permits) },
        cipher: options.cipher,
        messages: options.messages,
        length: options.length,
    }
}

/// Number of lists in the paper.
const LISTS: usize = 64;
