//! `evener speed`

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use evener::engines::measure::{self, Plan, measure};
use evener::engines::{EngineProfile, Probed};
use evener::{Cipher, Direction, Engine, EngineError, Mode};
use evener_cli::messages::print_line;
use evener_cli::values;
use serde::Serialize;

use crate::document::print_json;
use crate::options::retry_pins;
use crate::trouble::{Ending, Trouble};

/// Measure the throughput of the engines by cipher and message length
///
/// Each engine encrypts and decrypts messages in memory, every message with its own IV: once with
/// one worker, and once with as many as the engine recommends (one per core for CPU engines). The
/// figures are in MB/s (millions of bytes per second).
#[derive(Args)]
pub(crate) struct Speed {
    /// Ciphers to measure
    #[arg(value_name = "CIPHER", value_parser = values::cipher(), ignore_case = true,
        hide_possible_values = true, default_values = ["aes-128-gcm", "aes-256-gcm"])]
    ciphers: Vec<Cipher>,
    /// Engine to measure; repeatable (`evener engines` lists them) [default: all on this machine]
    #[arg(long = "engine", value_name = "NAME", value_parser = values::engine(),
        hide_possible_values = true)]
    engines: Vec<String>,
    /// Retry a PIN from a `pin-source` file that a token has refused
    #[arg(long)]
    retry_pin: bool,
    /// Message lengths in bytes, up to 16 MiB
    #[arg(long = "bytes", value_name = "N,...", value_delimiter = ',',
        value_parser = values::message_length, default_values = ["1024", "16384", "65536", "1048576"])]
    lengths: Vec<usize>,
    /// Direction: `encrypt` or `decrypt` [default: both]
    #[arg(long = "direction", value_name = "DIRECTION", value_delimiter = ',',
        value_parser = values::direction(), hide_possible_values = true)]
    directions: Vec<Direction>,
    /// Time for each figure in a round, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50,
        value_parser = clap::value_parser!(u64).range(1..=60_000))]
    time: u64,
    /// Number of rounds; the figures are medians over them
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only the figures
    #[arg(short, long)]
    quiet: bool,
}

impl Speed {
    pub(crate) fn perform(self) -> Result<Ending, Trouble> {
        self.check_lengths()?;
        retry_pins(self.retry_pin)?;
        let mut report = Report::default();
        let engines = self.find(&mut report)?;
        for &cipher in &self.ciphers {
            for &direction in self.directions() {
                if !self.quiet {
                    // If standard error is closed, progress is not needed.
                    print_line(&format_args!("{cipher}, {direction}"));
                }
                self.measure(cipher, direction, &engines, &mut report);
            }
        }
        if report.rows.is_empty() {
            let reasons = report.left_out.iter().map(|out| format!("{}: {}", out.name, out.reason));
            return Err(Trouble::Unmeasured(reasons.collect::<Vec<_>>().join("; ")));
        }
        match self.json {
            true => print_json(&report)?,
            false => report.print(&mut io::stdout().lock()).map_err(Trouble::Output)?,
        }
        Ok(Ending::Done)
    }

    /// The engines that load foreign code.
    pub(crate) fn foreign_engines(&self) -> Vec<String> {
        measure::foreign(&self.engines)
    }

    /// Both directions by default.
    fn directions(&self) -> &[Direction] {
        const BOTH: &[Direction] = &[Direction::Encrypt, Direction::Decrypt];
        if self.directions.is_empty() { BOTH } else { &self.directions }
    }

    fn check_lengths(&self) -> Result<(), Trouble> {
        let has_xts = self.ciphers.iter().find(|cipher| cipher.mode() == Mode::Xts);
        let too_short = self.lengths.iter().find(|&&bytes| bytes < SHORTEST_OF_XTS);
        match (has_xts, too_short) {
            (Some(cipher), Some(bytes)) => Err(Trouble::Usage(format!(
                "{cipher} can't be measured with messages of {bytes} bytes: XTS takes at least \
                 {SHORTEST_OF_XTS}"
            ))),
            _ => Ok(()),
        }
    }

    /// The named engines, or all on this machine.
    fn find(&self, report: &mut Report) -> Result<Vec<Arc<dyn Engine>>, Trouble> {
        let mut engines = Vec::new();
        for name in &self.engines {
            let engine = measure::find(name)?;
            if !self.is_offered(&*engine) {
                return Err(Trouble::Usage(format!(
                    "engine `{name}` offers none of {}; `evener engines` lists what engines offer",
                    self.ciphers.iter().map(Cipher::to_string).collect::<Vec<_>>().join(", ")
                )));
            }
            engines.push(engine);
        }
        if !self.engines.is_empty() {
            return Ok(engines);
        }
        for Probed { name, engine } in measure::probe_all() {
            match engine {
                Ok(engine) => engines.push(engine),
                Err(error) => report.leave_out(name, error),
            }
        }
        Ok(engines)
    }

    fn is_offered(&self, engine: &dyn Engine) -> bool {
        let is_offered = |&cipher: &Cipher| {
            let offers = |&direction: &Direction| engine.offer(cipher, direction).is_some();
            self.directions().iter().any(offers)
        };
        self.ciphers.iter().any(is_offered)
    }

    /// Measures the engines one after another, so that the failure of one does not stop the others.
    fn measure(
        &self,
        cipher: Cipher,
        direction: Direction,
        engines: &[Arc<dyn Engine>],
        report: &mut Report,
    ) {
        let mut sizes = self.lengths.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let plan = Plan {
            sizes,
            time: Duration::from_millis(self.time),
            rounds: usize::from(self.rounds),
            ..Plan::new(cipher, direction)
        };
        for engine in engines {
            match measure("", &[&**engine], &plan) {
                Ok(profile) => {
                    let engines = profile.engines.iter();
                    report.rows.extend(engines.flat_map(|engine| rows(engine, cipher, direction)));
                }
                Err(error) => report.leave_out(&engine.description().name, error),
            }
        }
    }
}

/// The figures of an engine for one cipher and direction.
fn rows(engine: &EngineProfile, cipher: Cipher, direction: Direction) -> Vec<Row> {
    let row = |workers, bytes, wall_us: f64| Row {
        engine: engine.name.clone(),
        cipher,
        direction,
        workers,
        bytes,
        // A byte per microsecond is a million bytes per second.
        mb_per_s: (bytes as f64 * workers as f64 / wall_us.max(1e-3) * 10.0).round() / 10.0,
    };
    let points = engine.by_workers();
    let rows = points.flat_map(|(workers, points)| {
        points.iter().map(move |point| row(workers, point.bytes, point.wall_us))
    });
    rows.collect()
}

/// The document that `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Report {
    rows: Vec<Row>,
    /// Engines that are absent or failed.
    left_out: Vec<LeftOut>,
    /// Empty here: an error is printed alone.
    failures: [(); 0],
}

/// A figure.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    engine: String,
    #[serde(serialize_with = "as_text")]
    cipher: Cipher,
    #[serde(serialize_with = "as_text")]
    direction: Direction,
    workers: usize,
    bytes: usize,
    mb_per_s: f64,
}

#[derive(Debug, PartialEq, Serialize)]
struct LeftOut {
    name: String,
    reason: String,
}

fn as_text<T: ToString, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

impl Report {
    fn leave_out(&mut self, name: &str, error: EngineError) {
        let reason = match error {
            EngineError::Unavailable { reason, .. } => reason,
            other => other.to_string(),
        };
        let left_out = LeftOut { name: name.to_owned(), reason };
        // An engine that is out of service fails in the same way for every cipher and direction.
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }

    /// Prints a table for each cipher and direction: a line per engine and number of workers, a
    /// column per length.
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let width = self.rows.iter().map(|row| row.engine.chars().count()).max().unwrap_or(0);
        let width = width.max(ENGINE.len());
        let is_same =
            |one: &Row, other: &Row| (one.cipher, one.direction) == (other.cipher, other.direction);
        for group in self.rows.chunk_by(is_same) {
            let Some(Row { cipher, direction, .. }) = group.first() else { continue };
            writeln!(out, "{cipher}, {direction}, MB/s")?;
            let of_engine = |one: &Row, other: &Row| {
                (&one.engine, one.workers) == (&other.engine, other.workers)
            };
            write!(out, "{ENGINE:<width$} workers")?;
            for row in group.chunk_by(of_engine).next().unwrap_or_default() {
                write!(out, "{:>15}", format!("{} bytes", row.bytes))?;
            }
            writeln!(out)?;
            for line in group.chunk_by(of_engine) {
                let Some(Row { engine, workers, .. }) = line.first() else { continue };
                write!(out, "{engine:<width$} {workers:>7}")?;
                for row in line {
                    write!(out, "{:>15.1}", row.mb_per_s)?;
                }
                writeln!(out)?;
            }
            writeln!(out)?;
        }
        for LeftOut { name, reason } in &self.left_out {
            writeln!(out, "left out: {name}: {reason}")?;
        }
        out.flush()
    }
}

const ENGINE: &str = "engine";

/// The shortest message in XTS mode, in bytes.
const SHORTEST_OF_XTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(engine: &str, workers: usize, bytes: usize, mb_per_s: f64) -> Row {
        let (cipher, direction) = (Cipher::Aes256Gcm, Direction::Encrypt);
        Row { engine: engine.to_owned(), cipher, direction, workers, bytes, mb_per_s }
    }

    #[test]
    fn a_line_is_an_engine_with_a_number_of_workers() {
        let report = Report {
            rows: vec![
                row("cpu", 1, 1024, 1000.0),
                row("cpu", 1, 65_536, 2000.0),
                row("cpu", 2, 1024, 1900.0),
                row("cpu", 2, 65_536, 3900.0),
            ],
            left_out: vec![LeftOut { name: "af_alg".to_owned(), reason: "no driver".to_owned() }],
            failures: [],
        };
        let mut text = Vec::new();
        report.print(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap().lines().collect::<Vec<_>>(),
            [
                "aes-256-gcm, encrypt, MB/s",
                "engine workers     1024 bytes    65536 bytes",
                "cpu          1         1000.0         2000.0",
                "cpu          2         1900.0         3900.0",
                "",
                "left out: af_alg: no driver",
            ]
        );
    }

    #[test]
    fn throughput_is_that_of_all_workers_together() {
        let json = r#"{"machine": "m", "cores": 2, "cipher": "aes-256-gcm", "engines": [
            {"name": "cpu", "kind": "cpu", "depth": 2, "points": [
                {"bytes": 1000, "wall_us": 2, "cpu_us": 2}],
             "points_at_depth": [{"bytes": 1000, "wall_us": 4, "cpu_us": 4}]}]}"#;
        let profile: evener::engines::Profile = json.parse().unwrap();
        let rows = rows(&profile.engines[0], Cipher::Aes256Gcm, Direction::Encrypt);
        assert_eq!(rows, [row("cpu", 1, 1000, 500.0), row("cpu", 2, 1000, 500.0)]);
    }
}
