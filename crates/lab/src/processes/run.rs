//! The rounds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use evener_core::{Direction, EngineError};
use evener_gate::{Discipline, GateOptions};

use super::crowd::{self, Outcome};
use super::report::{Failure, Measurement, Permits, ProcessesReport, Row, Skipped};
use super::sys::{self, SharedWords};
use super::worker::Work;
use super::{ProcessesError, ProcessesOptions};

/// Runs the benchmark. `tell` hears what is being done.
///
/// The calling process must have one thread, because it forks.
///
/// # Errors
/// [`ProcessesError`] when no engine is there, or processes can't be started or fail.
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

/// All rounds of so many processes: for each discipline what was measured, or how it failed.
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
        // Another discipline begins each round.
        for turn in 0..options.disciplines.len() {
            let index = (round + turn) % options.disciplines.len();
            let discipline = options.disciplines[index];
            let Ok(measurements) = &mut found[index] else { continue };
            let limit = Duration::from_secs(options.limit);
            match crowd::run(&work(options, permits, discipline), processes, limit)? {
                Outcome::Done(measurement) => measurements.push(measurement),
                // That an engine turns a crowd away is a finding, and one time is enough.
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

/// What an engine says of how many processes it serves at once.
struct Holders {
    /// How many are worth it.
    useful: usize,
    /// How many there can be, as far as it knows.
    most: usize,
}

/// How many processes each discipline admits. `lists` is the paper's, with all of its 64 lists,
/// unless the engine or the user says that there can't be so many.
fn permits(engine: &str, options: &ProcessesOptions, holders: &Holders) -> Permits {
    let within = |number: usize| number.clamp(1, GateOptions::MAX_PERMITS);
    Permits {
        engine: engine.to_owned(),
        permits: within(options.permits.unwrap_or(holders.useful.min(holders.most))),
        lists: within(options.permits.unwrap_or(holders.most)).min(LISTS),
    }
}

/// How many processes the engine is to serve at once. It is found in a child, so that this
/// process holds nothing of it when it forks. For the processor that is as many as there are
/// cores.
fn holders(engine: &str, options: &ProcessesOptions) -> Result<Holders, EngineError> {
    let failed = |reason: String| EngineError::Failed { engine: engine.to_owned(), reason };
    let shared = SharedWords::new(2).map_err(|cause| failed(cause.to_string()))?;
    let child = sys::fork(|| match crate::find(engine) {
        Ok(found) => {
            let offer = found.offer(options.cipher, Direction::Encrypt);
            let useful = offer.map_or(0, |offer| offer.depth);
            let most = offer.and_then(|offer| offer.holders).unwrap_or(usize::MAX);
            shared.words()[0].store(useful as u64, Ordering::SeqCst);
            shared.words()[1].store(most as u64, Ordering::SeqCst);
            true
        }
        Err(error) => {
            eprintln!("{error}");
            false
        }
    });
    let ended = child.and_then(sys::wait).map_err(|cause| failed(cause.to_string()))?;
    let [useful, most] = [0, 1].map(|at| shared.words()[at].load(Ordering::SeqCst) as usize);
    match useful {
        _ if !ended.0 => {
            let (engine, reason) = (engine.to_owned(), "it was not found".to_owned());
            Err(EngineError::Unavailable { engine, reason })
        }
        0 => Err(EngineError::NotOffered {
            engine: engine.to_owned(),
            cipher: options.cipher,
            direction: Direction::Encrypt,
        }),
        useful => Ok(Holders { useful, most }),
    }
}

fn work(options: &ProcessesOptions, permits: &Permits, discipline: Discipline) -> Work {
    let Permits { engine, permits, lists } = permits;
    let permits = if discipline == Discipline::Lists { *lists } else { *permits };
    // A gate of this run's own, beside that of the processes which really use the engine.
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

/// How many lists the paper has.
const LISTS: usize = 64;
