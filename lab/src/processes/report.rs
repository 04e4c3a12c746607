//! The benchmark's report.

use std::fmt;
use std::time::Duration;

use evener_gate::Discipline;
use serde::Serialize;

use super::ProcessesOptions;

/// The benchmark's report. Its JSON is the document that `--json` prints, its
/// [`Display`](fmt::Display) a table.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ProcessesReport {
    /// The kernel, the machine's architecture and the number of threads that run at once.
    pub machine: String,
    /// The cipher.
    pub cipher: String,
    /// The number of messages that each process encrypted.
    pub messages: usize,
    /// The length of a message, in bytes.
    pub length: usize,
    /// The number of runs averaged.
    pub rounds: usize,
    /// The number of processes admitted at once, for each engine.
    pub permits: Vec<Permits>,
    /// The figures.
    pub rows: Vec<Row>,
    /// Failures of processes.
    pub failures: Vec<Failure>,
    /// Conclusions about the gate: where it helps and where it does not.
    pub verdicts: Vec<String>,
    /// The engines that took no part, with the reason.
    pub skipped: Vec<Skipped>,
}

/// The figures of a number of processes on one engine under one discipline: means over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The engine's name.
    pub engine: String,
    /// `none`, `lists` or `fifo`.
    pub discipline: &'static str,
    /// The number of processes.
    pub processes: usize,
    /// All processes' bytes divided by the time from the first fork to the end of the last process,
    /// in millions of bytes a second.
    pub mb_per_s: f64,
    /// Context switches of all processes together, voluntary and involuntary.
    pub context_switches: f64,
    /// The time at the gate, in milliseconds: the median over all processes.
    pub wait_ms_p50: f64,
    /// The 99th percentile of that time, in the same unit.
    pub wait_ms_p99: f64,
    /// Jain's index, over the processes, of the rate at which each was served: its bytes divided by
    /// the time from its admission (with `none`: from when it would have reached the gate) until
    /// its last message was done. 1 if all were served equally.
    pub jain: f64,
    /// The standard deviation of the throughput over the rounds, for the table.
    #[serde(skip)]
    pub deviation: f64,
}

/// The number of processes admitted at once.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Permits {
    /// The engine's name.
    pub engine: String,
    /// The number with `fifo`.
    pub permits: usize,
    /// The number with `lists`, one from each list.
    pub lists: usize,
}

/// A case in which processes failed. It has no [`Row`], because the others' figures are not
/// comparable.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Failure {
    /// The engine's name.
    pub engine: String,
    /// `none`, `lists` or `fifo`.
    pub discipline: &'static str,
    /// The number of processes.
    pub processes: usize,
    /// The number that failed.
    pub failed: usize,
    /// The message of the first failed process, or a description of the failure.
    pub why: String,
}

/// An engine that took no part.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Skipped {
    /// Its name.
    pub engine: String,
    /// The reason.
    pub why: String,
}

/// The times of one run, in seconds, one for each process.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    pub(super) elapsed: Duration,
    /// Bytes encrypted by each process.
    pub(super) bytes: f64,
    pub(super) context_switches: u64,
    pub(super) waited: Vec<f64>,
    pub(super) worked: Vec<f64>,
}

impl ProcessesReport {
    pub(super) fn new(options: &ProcessesOptions) -> ProcessesReport {
        let system = rustix::system::uname();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        ProcessesReport {
            machine: format!(
                "{} {} {}, {cores} cores",
                system.sysname().to_string_lossy(),
                system.release().to_string_lossy(),
                system.machine().to_string_lossy()
            ),
            cipher: options.cipher.to_string(),
            messages: options.messages,
            length: options.length,
            rounds: options.rounds,
            permits: Vec::new(),
            rows: Vec::new(),
            failures: Vec::new(),
            verdicts: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// The engines that took part.
    pub(super) fn engines(&self) -> Vec<&str> {
        self.permits.iter().map(|permits| permits.engine.as_str()).collect()
    }

    /// An engine's figures.
    pub(super) fn of(&self, engine: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.engine == engine)
    }

    /// The figures of a number of processes, if all finished.
    pub(super) fn row(&self, engine: &str, discipline: &str, processes: usize) -> Option<&Row> {
        self.of(engine).find(|row| row.discipline == discipline && row.processes == processes)
    }

    /// The failure of a number of processes, if any.
    pub(super) fn failure(
        &self,
        engine: &str,
        discipline: &str,
        processes: usize,
    ) -> Option<&Failure> {
        self.failures.iter().find(|failure| {
            (failure.engine.as_str(), failure.discipline, failure.processes)
                == (engine, discipline, processes)
        })
    }

    /// Returns whether an engine was run under a discipline.
    pub(super) fn has(&self, engine: &str, discipline: &str) -> bool {
        let counts = self.counts(engine);
        let mut counts = counts.iter();
        counts.any(|&count| {
            self.row(engine, discipline, count).is_some()
                || self.failure(engine, discipline, count).is_some()
        })
    }

    /// The numbers of processes that an engine was run with.
    pub(super) fn counts(&self, engine: &str) -> Vec<usize> {
        let failures = self.failures.iter().filter(|failure| failure.engine == engine);
        let failed = failures.map(|failure| failure.processes);
        let mut counts: Vec<usize> =
            self.of(engine).map(|row| row.processes).chain(failed).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

impl Row {
    pub(super) fn of(
        engine: &str,
        discipline: Discipline,
        processes: usize,
        measurements: &[Measurement],
    ) -> Row {
        let rates: Vec<f64> = measurements
            .iter()
            .map(|run| run.bytes * processes as f64 / run.elapsed.as_secs_f64() / 1e6)
            .collect();
        let mb_per_s = mean(&rates);
        let squares: Vec<f64> = rates.iter().map(|rate| (rate - mb_per_s).powi(2)).collect();
        let switches: Vec<f64> =
            measurements.iter().map(|run| run.context_switches as f64).collect();
        let fairness: Vec<f64> = measurements
            .iter()
            .map(|run| jain(run.worked.iter().map(|time| run.bytes / time)))
            .collect();
        let mut waits: Vec<f64> =
            measurements.iter().flat_map(|run| run.waited.iter().copied()).collect();
        waits.sort_by(f64::total_cmp);
        Row {
            engine: engine.to_owned(),
            discipline: discipline.name(),
            processes,
            mb_per_s,
            context_switches: mean(&switches),
            wait_ms_p50: 1e3 * percentile(&waits, 50),
            wait_ms_p99: 1e3 * percentile(&waits, 99),
            jain: mean(&fairness),
            deviation: mean(&squares).sqrt(),
        }
    }
}

/// An engine's short name: a PKCS #11 URI without the attributes that only locate the token.
pub(super) fn label(engine: &str) -> &str {
    engine.split_once('?').map_or(engine, |(name, _)| name)
}

impl fmt::Display for ProcessesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table(f)?;
        for verdict in &self.verdicts {
            writeln!(f, "{verdict}")?;
        }
        Ok(())
    }
}

impl ProcessesReport {
    /// The figures and the facts about the run, as text.
    pub(super) fn table(&self, f: &mut impl fmt::Write) -> fmt::Result {
        let ProcessesReport { machine, cipher, messages, length, rounds, .. } = self;
        writeln!(f, "{machine}")?;
        writeln!(
            f,
            "{messages} messages of {length} bytes in each process, {cipher}, {rounds} rounds"
        )?;
        writeln!(
            f,
            "{:<12} {:<10} {:>9} {:>9} {:>7} {:>9} {:>10} {:>10} {:>6}",
            "engine",
            "discipline",
            "processes",
            "MB/s",
            "+-",
            "switches",
            "wait p50",
            "wait p99",
            "jain"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<12} {:<10} {:>9} {:>9.1} {:>7.1} {:>9.0} {:>7.1} ms {:>7.1} ms {:>6.3}",
                label(&row.engine),
                row.discipline,
                row.processes,
                row.mb_per_s,
                row.deviation,
                row.context_switches,
                row.wait_ms_p50,
                row.wait_ms_p99,
                row.jain
            )?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        for Skipped { engine, why } in &self.skipped {
            writeln!(f, "skipped: {}: {why}", label(engine))?;
        }
        Ok(())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { engine, discipline, processes, failed, why } = self;
        let engine = label(engine);
        write!(f, "failed: {engine}, {discipline}, {failed} of {processes} processes: {why}")
    }
}

/// Jain's fairness index (Jain, Chiu and Hawe, DEC-TR-301, 1984): (Σx)² / (n·Σx²).
fn jain(rates: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The value that `percent` of the sorted values do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    pub(in super::super) fn row(discipline: &'static str, processes: usize, mb_per_s: f64) -> Row {
        Row {
            engine: "<engine>".into(),
            discipline,
            processes,
            mb_per_s,
            context_switches: 3.0,
            wait_ms_p50: 0.0,
            wait_ms_p99: 0.0,
            jain: 1.0,
            deviation: 0.0,
        }
    }

    pub(in super::super) fn report(rows: Vec<Row>, failures: Vec<Failure>) -> ProcessesReport {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            options: ProcessesOptions,
        }
        let mut report = ProcessesReport::new(&Line::parse_from(["processes"]).options);
        let permits = Permits { engine: "<engine>".into(), permits: 2, lists: 64 };
        report.add(permits, rows, failures);
        report
    }

    #[test]
    fn fairness_is_jains() {
        assert_eq!(jain([2.0; 5].into_iter()), 1.0);
        // One of four is served alone.
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
        assert_eq!(jain(std::iter::empty()), 1.0);
    }

    #[test]
    fn rows_are_means_and_percentiles() {
        let run = |seconds| Measurement {
            elapsed: Duration::from_secs(seconds),
            bytes: 1e6,
            context_switches: seconds,
            waited: vec![0.001, 0.003],
            worked: vec![0.5, 0.5],
        };
        let row = Row::of("openssl", Discipline::Fifo, 2, &[run(1), run(2)]);
        assert_eq!((row.mb_per_s, row.deviation), (1.5, 0.5));
        assert_eq!((row.context_switches, row.jain), (1.5, 1.0));
        assert_eq!((row.wait_ms_p50, row.wait_ms_p99), (1.0, 3.0));
        assert_eq!(percentile(&[], 50), 0.0);
        assert_eq!(label("pkcs11:token=t?pin-source=file:/p"), "pkcs11:token=t");
        // Programs read exactly these fields.
        let row = serde_json::to_value(&row).unwrap();
        let mut fields: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        let mut expected = [
            "engine",
            "discipline",
            "processes",
            "mb_per_s",
            "context_switches",
            "wait_ms_p50",
            "wait_ms_p99",
            "jain",
        ];
        expected.sort_unstable();
        assert_eq!(fields, expected);
    }
}
