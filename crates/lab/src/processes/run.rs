//! The rounds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use evener_core::{Direction, EngineError, Kind};
use evener_gate::{Discipline, GateOptions};

use super::report::{Measurement, Permits, ProcessesReport, Row, Skipped};
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
        let permits = options.permits.unwrap_or(holders).clamp(1, GateOptions::MAX_PERMITS);
        let (mut rows, mut failure) = (Vec::new(), None);
        for &processes in &options.processes {
            let mut found = vec![Vec::new(); options.disciplines.len()];
            let mut refused = vec![false; options.disciplines.len()];
            for round in 0..options.rounds {
                tell(&format!("{engine}: {processes} processes, round {}", round + 1));
                // Another discipline begins each round.
                for turn in 0..options.disciplines.len() {
                    let index = (round + turn) % options.disciplines.len();
                    let discipline = options.disciplines[index];
                    if refused[index] {
                        continue;
                    }
                    match measure(&work(options, engine, discipline, permits), processes) {
                        Ok(measurement) => found[index].push(measurement),
                        // That an engine turns a crowd away is a finding.
                        Err(error @ ProcessesError::Failed { failed, .. }) => {
                            (refused[index], failure) = (true, Some(error));
                            let turned_away = turned_away(engine, discipline, failed, processes);
                            report.skipped.push(turned_away);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            let measured = options.disciplines.iter().zip(&found).zip(&refused);
            for ((&discipline, measurements), _) in measured.filter(|(_, refused)| !**refused) {
                rows.push(Row::of(engine, discipline, processes, measurements));
            }
        }
        if let Some(error) = failure.filter(|_| rows.is_empty()) {
            return Err(error);
        }
        report.add(Permits { engine: engine.clone(), permits }, rows);
    }
    Ok(report)
}

fn turned_away(engine: &str, discipline: Discipline, failed: usize, processes: usize) -> Skipped {
    let why = format!("with the gate `{discipline}`, {failed} of {processes} processes failed");
    Skipped { engine: engine.to_owned(), why }
}

/// How many processes the engine is to serve at once. It is found in a child, so that this
/// process holds nothing of it when it forks.
///
/// With as many holders as cores, a core is idle whenever a holder ends: the kernel wakes the next
/// on the core where that slept last, which is often another holder's, and moves it over only at
/// its next balancing, milliseconds later. One more than there are cores bridges that.
fn holders(engine: &str, options: &ProcessesOptions) -> Result<usize, EngineError> {
    let failed = |reason: String| EngineError::Failed { engine: engine.to_owned(), reason };
    let shared = SharedWords::new(1).map_err(|cause| failed(cause.to_string()))?;
    let child = sys::fork(|| match evener_engines::find(engine) {
        Ok(found) => {
            let offer = found.offer(options.cipher, Direction::Encrypt);
            let reserve = usize::from(found.description().kind == Kind::Cpu);
            let holders = offer.map_or(0, |offer| offer.depth + reserve);
            shared.words()[0].store(holders as u64, Ordering::SeqCst);
            true
        }
        Err(error) => {
            eprintln!("{error}");
            false
        }
    });
    let ended = child.and_then(sys::wait).map_err(|cause| failed(cause.to_string()))?;
    match shared.words()[0].load(Ordering::SeqCst) as usize {
        _ if !ended.0 => {
            let (engine, reason) = (engine.to_owned(), "it was not found".to_owned());
            Err(EngineError::Unavailable { engine, reason })
        }
        0 => Err(EngineError::NotOffered {
            engine: engine.to_owned(),
            cipher: options.cipher,
            direction: Direction::Encrypt,
        }),
        holders => Ok(holders),
    }
}

fn work(options: &ProcessesOptions, engine: &str, discipline: Discipline, permits: usize) -> Work {
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

/// Runs so many processes at once.
fn measure(work: &Work, processes: usize) -> Result<Measurement, ProcessesError> {
    let failed = |cause| ProcessesError::Process { processes, cause };
    let shared = SharedWords::new(2 * processes + 1).map_err(failed)?;
    let (times_of_all, has_complained) = shared.words().split_at(2 * processes);
    let start = Instant::now();
    let mut children = Vec::with_capacity(processes);
    for times in times_of_all.chunks_exact(2) {
        match sys::fork(|| live(work, times, &has_complained[0])) {
            Ok(child) => children.push(child),
            Err(cause) => {
                children.into_iter().for_each(sys::kill);
                return Err(failed(cause));
            }
        }
    }
    let (mut context_switches, mut failures) = (0, 0);
    for child in children {
        let (well, switches) = sys::wait(child).map_err(failed)?;
        context_switches += switches;
        failures += usize::from(!well);
    }
    let elapsed = start.elapsed();
    evener_gate::reset(&work.gate.engine, work.gate.scope, None)?;
    if failures > 0 {
        let engine = work.engine.clone();
        return Err(ProcessesError::Failed { engine, processes, failed: failures });
    }
    let seconds = |at: usize| {
        let nanoseconds = |times: &[AtomicU64]| times[at].load(Ordering::SeqCst);
        let times = times_of_all.chunks_exact(2).map(nanoseconds);
        times.map(|time| Duration::from_nanos(time).as_secs_f64()).collect()
    };
    let bytes = work.messages as f64 * work.length as f64;
    Ok(Measurement { elapsed, bytes, context_switches, waited: seconds(0), worked: seconds(1) })
}

/// The life of one process; only the first to fail says why.
fn live(work: &Work, times: &[AtomicU64], has_complained: &AtomicU64) -> bool {
    match work.run() {
        Ok(took) => {
            times[0].store(took.waited.as_nanos() as u64, Ordering::SeqCst);
            times[1].store(took.worked.as_nanos() as u64, Ordering::SeqCst);
            true
        }
        Err(error) => {
            if has_complained.swap(1, Ordering::SeqCst) == 0 {
                eprintln!("{error}");
            }
            false
        }
    }
}
