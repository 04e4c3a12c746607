//! Runs the contenders in turns.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use evener_core::{Cipher, Direction};

use super::load::Load;
use super::report::{MessagesReport, Row, Skipped};
use super::{Contender, Lengths, MessagesOptions, Spacing};
use crate::statistics::median;
use crate::{LabError, Machine};

/// Runs the benchmark. `progress` is called with each step.
///
/// # Errors
/// [`LabError::Differs`] when a contender's output differs from OpenSSL's.
pub fn run(
    options: &MessagesOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<MessagesReport, LabError> {
    let machine = Machine::look();
    let both = [Direction::Encrypt, Direction::Decrypt];
    let directions =
        if options.directions.is_empty() { &both[..] } else { &options.directions[..] };
    let one_and_all = if machine.cores > 1 { vec![1, machine.cores] } else { vec![1] };
    let threads = if options.threads.is_empty() { one_and_all } else { options.threads.clone() };
    let contenders = options.contenders();
    let mut report = MessagesReport {
        machine,
        messages: options.messages,
        packed: options.packed,
        rounds: options.rounds,
        engines: engines(contenders),
        rows: Vec::new(),
        skipped: Vec::new(),
    };
    for &cipher in &options.ciphers {
        for &direction in directions {
            for &lengths in &options.lengths {
                for &threads in &threads {
                    progress(&format!("{cipher} {direction}, {lengths} bytes, {threads} threads"));
                    let case = Case { cipher, direction, lengths, threads, options, contenders };
                    case.run(&mut report)?;
                }
            }
        }
    }
    Ok(report)
}

/// The descriptions of the engines among the contenders.
fn engines(contenders: &[Contender]) -> Vec<String> {
    let engines = [Contender::Lanes, Contender::Openssl].into_iter();
    let found = engines.filter(|engine| contenders.contains(engine)).filter_map(|engine| {
        let engine = crate::find(engine.name()).ok()?;
        let description = engine.description();
        Some(format!("{}: {}", description.name, description.detail))
    });
    found.collect()
}

/// One cipher, direction, length and number of threads.
struct Case<'a> {
    cipher: Cipher,
    direction: Direction,
    lengths: Lengths,
    threads: usize,
    options: &'a MessagesOptions,
    contenders: &'a [Contender],
}

impl Case<'_> {
    fn run(&self, report: &mut MessagesReport) -> Result<(), LabError> {
        let turns = Turns {
            barrier: Barrier::new(self.threads.max(1)),
            slowest: Mutex::new(vec![Vec::new(); self.contenders.len()]),
            skipped: Mutex::new(vec![None; self.contenders.len()]),
        };
        let results: Vec<Result<usize, LabError>> = thread::scope(|scope| {
            let handles: Vec<_> =
                (0..self.threads.max(1)).map(|_| scope.spawn(|| self.take_turns(&turns))).collect();
            handles.into_iter().map(|handle| handle.join().unwrap_or_else(stopped)).collect()
        });
        let mut bytes = 0;
        for result in results {
            bytes += result?;
        }
        let times = turns.slowest.into_inner().unwrap_or_default();
        let skipped = turns.skipped.into_inner().unwrap_or_default();
        for ((&contender, times), skipped) in self.contenders.iter().zip(times).zip(skipped) {
            let &Case { cipher, direction, lengths, threads, .. } = self;
            match skipped {
                Some(reason) => report.skip(Skipped { cipher, direction, contender, reason }),
                None => {
                    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
                    let Some(seconds) = median(&seconds) else { continue };
                    report.rows.push(Row {
                        cipher,
                        direction,
                        bytes: lengths,
                        threads,
                        contender,
                        ms_median: seconds * 1e3,
                        gb_per_s: bytes as f64 / seconds / 1e9,
                    });
                }
            }
        }
        Ok(())
    }

    /// The work of one thread. Returns the bytes of its messages.
    fn take_turns(&self, turns: &Turns) -> Result<usize, LabError> {
        let share = (self.options.messages as usize).div_ceil(self.threads.max(1));
        let spacing = if self.options.packed { Spacing::Packed } else { Spacing::Arena };
        let load = Load::new(self.cipher, self.direction, self.lengths, spacing, share);
        // No thread may leave early, or the others would wait for ever.
        let mut contenders = Vec::new();
        let mut trouble = None;
        let mut load =
            load.map_err(|error| trouble = Some(LabError::Unavailable(error.to_string()))).ok();
        if let Some(load) = &mut load {
            let mut expected = None;
            for (index, contender) in self.contenders.iter().enumerate() {
                match self.try_out(*contender, load, &mut expected) {
                    Ok(prepared) => contenders.push(Some(prepared)),
                    Err(LabError::Unavailable(reason)) => {
                        turns.skip(index, reason);
                        contenders.push(None);
                    }
                    Err(error) => {
                        trouble = Some(error);
                        contenders.push(None);
                    }
                }
            }
        }
        for round in 0..self.options.rounds as usize {
            for turn in 0..self.contenders.len() {
                let index = (turn + round) % self.contenders.len();
                let first = turns.barrier.wait().is_leader();
                if first {
                    turns.begin(index);
                }
                turns.barrier.wait();
                if let (Some(Some(prepared)), Some(load)) = (contenders.get_mut(index), &mut load) {
                    match prepared.run(load) {
                        Ok(time) => turns.finish(index, time),
                        Err(error) => trouble = Some(error),
                    }
                }
            }
        }
        match trouble {
            Some(trouble) => Err(trouble),
            None => Ok(load.map_or(0, |load| load.bytes())),
        }
    }

    /// Prepares a contender, runs it once, and compares its results with OpenSSL's.
    fn try_out(
        &self,
        contender: Contender,
        load: &mut Load,
        expected: &mut Option<u64>,
    ) -> Result<super::contender::Prepared, LabError> {
        if expected.is_none() {
            Contender::Openssl.prepare(load)?.run(load)?;
            *expected = Some(load.fingerprint());
        }
        let mut prepared = contender.prepare(load)?;
        load.clear();
        prepared.run(load)?;
        if contender != Contender::Memcpy && Some(load.fingerprint()) != *expected {
            return Err(LabError::Differs { contender: contender.name(), cipher: self.cipher });
        }
        Ok(prepared)
    }
}

/// The state that the threads share.
struct Turns {
    barrier: Barrier,
    /// For each contender and round, the time of the slowest thread.
    slowest: Mutex<Vec<Vec<Duration>>>,
    /// The reason why a contender takes no part.
    skipped: Mutex<Vec<Option<String>>>,
}

impl Turns {
    fn begin(&self, contender: usize) {
        if let Ok(mut slowest) = self.slowest.lock() {
            slowest[contender].push(Duration::ZERO);
        }
    }

    fn finish(&self, contender: usize, time: Duration) {
        if let Ok(mut slowest) = self.slowest.lock()
            && let Some(slowest) = slowest[contender].last_mut()
        {
            *slowest = time.max(*slowest);
        }
    }

    fn skip(&self, contender: usize, reason: String) {
        if let Ok(mut skipped) = self.skipped.lock() {
            skipped[contender] = Some(reason);
        }
    }
}

fn stopped<T>(_panic: Box<dyn std::any::Any + Send>) -> Result<T, LabError> {
    Err(LabError::Unavailable("a thread of the benchmark stopped".to_owned()))
}
