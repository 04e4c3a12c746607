//! Runs the contenders in turns.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use evener::hazmat::ParallelCipher;
use evener_core::{Cipher, Direction, Job, Outcome, SessionRequest};

use super::build::{self, Built};
use super::contender::{Buffers, Prepared, digest, evener, first_counter, key};
use super::peer::Peer;
use super::report::{CONTENDERS, Row, Skipped, ThreadsReport, Version};
use super::{Contender, ThreadsOptions, paper};
use crate::statistics::median;
use crate::{LabError, Machine};

/// Runs the benchmark; `tell` is called with each step.
///
/// # Errors
/// When a contender's result is wrong, or OpenSSL is not available for comparison. The report lists
/// contenders that can't take part.
pub fn run(
    options: &ThreadsOptions,
    tell: &mut dyn FnMut(&str),
) -> Result<ThreadsReport, LabError> {
    let bytes = (options.megabytes as usize) << 20;
    let chosen = |contender: &Contender| {
        options.contenders.is_empty() || options.contenders.contains(contender)
    };
    let contenders: Vec<Contender> = CONTENDERS.into_iter().filter(chosen).collect();
    let directory = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(LabError::file("create a directory in", std::env::temp_dir()))?;
    let mut report = ThreadsReport {
        machine: Machine::look(),
        bytes,
        rounds: options.rounds,
        versions: Vec::new(),
        rows: Vec::new(),
        skipped: Vec::new(),
        paper: paper::table(),
    };
    let mut cast = Cast::assemble(&contenders, directory.path(), bytes, &mut report, tell)?;
    let mut buffers = Buffers::new(bytes);
    for &cipher in &options.ciphers {
        let expected = expected(cipher, &mut buffers)?;
        for &threads in &options.threads {
            tell(&format!("{cipher}, {threads} threads"));
            let turns = Turns { cipher, threads, rounds: options.rounds, expected };
            turns.take(&mut cast, &mut buffers, &mut report.rows)?;
        }
    }
    add_speedups(&mut report.rows);
    Ok(report)
}

/// The contenders that take part.
struct Cast {
    contenders: Vec<Contender>,
    openmp: Option<Peer>,
    java: Option<Peer>,
}

impl Cast {
    /// Builds and starts the selected peers.
    fn assemble(
        wanted: &[Contender],
        directory: &Path,
        bytes: usize,
        report: &mut ThreadsReport,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Cast, LabError> {
        let mut cast = Cast { contenders: wanted.to_vec(), openmp: None, java: None };
        if wanted.contains(&Contender::Evener) {
            let engine = crate::find(evener::Evener::CPU_ENGINE);
            let detail = engine.map_or_else(
                |error| error.to_string(),
                |engine| {
                    let description = engine.description();
                    format!("engine {}, {}", description.name, description.detail)
                },
            );
            report.versions.push(Version { contender: Contender::Evener, detail });
        }
        type Build = fn(&Path) -> Result<Built, LabError>;
        let peers: [(Contender, Contender, Build, &mut Option<Peer>); 2] = [
            (Contender::Openmp, Contender::OpenmpBlocks, build::openmp, &mut cast.openmp),
            (Contender::Java, Contender::JavaBlocks, build::java, &mut cast.java),
        ];
        for (parts, blocks, build, place) in peers {
            let of_peer = [parts, blocks].map(|contender| (contender, wanted.contains(&contender)));
            if of_peer.iter().all(|(_, wanted)| !wanted) {
                continue;
            }
            tell(&format!("building and starting {}", parts.name()));
            let started = build(directory)
                .and_then(|built| Ok((Peer::start(parts.name(), &built, bytes)?, built.recipe)));
            match started {
                Ok((peer, recipe)) => {
                    let detail = format!("{}; {recipe}", peer.version);
                    report.versions.push(Version { contender: parts, detail });
                    *place = Some(peer);
                }
                Err(error @ (LabError::Unavailable(_) | LabError::Start { .. })) => {
                    for (contender, _) in of_peer.into_iter().filter(|(_, wanted)| *wanted) {
                        let reason = error.to_string();
                        report.skipped.push(Skipped { contender, reason });
                        cast.contenders.retain(|other| *other != contender);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(cast)
    }

    /// Prepares a contender.
    fn prepare<'a>(
        &'a mut self,
        contender: Contender,
        evener: &'a ParallelCipher,
    ) -> Result<Prepared<'a>, LabError> {
        let peer = match contender {
            Contender::Evener => return Ok(Prepared::Evener(evener)),
            Contender::Memcpy => return Ok(Prepared::Copy),
            Contender::Openmp | Contender::OpenmpBlocks => &mut self.openmp,
            Contender::Java | Contender::JavaBlocks => &mut self.java,
        };
        let gone = || LabError::Unavailable(format!("{} is not running", contender.name()));
        Ok(Prepared::Peer(peer.as_mut().ok_or_else(gone)?, contender.way()))
    }
}

/// The turns with one cipher and number of threads.
struct Turns {
    cipher: Cipher,
    threads: u16,
    rounds: u32,
    /// Digests of ciphertext and plaintext.
    expected: [u64; 2],
}

impl Turns {
    /// Runs every contender once without counting, to compare the results; then runs all in turns.
    /// The results of the last round are compared, too.
    fn take(
        &self,
        cast: &mut Cast,
        buffers: &mut Buffers,
        rows: &mut Vec<Row>,
    ) -> Result<(), LabError> {
        let &Turns { cipher, threads, .. } = self;
        let contenders = cast.contenders.clone();
        // Evener's pool exists during all rounds, as in a real program.
        let evener = evener(cipher, threads)?;
        let mut times = vec![[Vec::new(), Vec::new()]; contenders.len()];
        for round in 0..=self.rounds {
            for (contender, times) in contenders.iter().zip(&mut times) {
                if round > SLOW_ROUNDS && times.iter().flatten().any(|ms| *ms > SLOW_MS) {
                    continue;
                }
                let mut prepared = cast.prepare(*contender, &evener)?;
                for (index, direction) in DIRECTIONS.into_iter().enumerate() {
                    if round == 0 {
                        prepared.forget(direction, buffers);
                    }
                    let time = prepared.turn(cipher, direction, threads, buffers)?;
                    if round > 0 {
                        times[index].push(milliseconds(time));
                    }
                    if (round == 0 || round == self.rounds)
                        && let Some(digest) = prepared.digest(direction, buffers)?
                        && digest != self.expected[index]
                    {
                        return Err(LabError::Differs { contender: contender.name(), cipher });
                    }
                }
            }
        }
        for (index, direction) in DIRECTIONS.into_iter().enumerate() {
            for (contender, times) in contenders.iter().zip(&times) {
                rows.push(Row {
                    contender: *contender,
                    cipher: cipher.name().to_owned(),
                    operation: direction.to_string(),
                    threads,
                    ms_median: median(&times[index]).unwrap_or(0.0),
                    speedup: None,
                });
            }
        }
        Ok(())
    }
}

/// Digests of OpenSSL's ciphertext and of the message.
fn expected(cipher: Cipher, buffers: &mut Buffers) -> Result<[u64; 2], LabError> {
    let unavailable = |error: evener_core::EngineError| LabError::Unavailable(error.to_string());
    let key = key(cipher)?;
    let request = SessionRequest { cipher, direction: Direction::Encrypt, key: Some(&key) };
    let engine = crate::find("openssl").map_err(unavailable)?;
    let mut session = engine.open(&request).map_err(unavailable)?;
    let Buffers { plaintext, ciphertext } = buffers;
    let mut batch = [Job::new(first_counter(), plaintext, ciphertext)];
    session.process(&mut batch).map_err(unavailable)?;
    if !matches!(batch[0].outcome, Outcome::Done { .. }) {
        return Err(LabError::Unavailable("OpenSSL rejected the message".to_owned()));
    }
    Ok([digest(ciphertext), digest(plaintext)])
}

/// Computes each row's speed-up over the same contender's time on one thread.
fn add_speedups(rows: &mut [Row]) {
    let singles: Vec<Row> = rows.iter().filter(|row| row.threads == 1).cloned().collect();
    for row in rows {
        let is_same = |single: &&Row| {
            single.contender == row.contender
                && single.cipher == row.cipher
                && single.operation == row.operation
        };
        row.speedup = singles
            .iter()
            .find(is_same)
            .filter(|_| row.ms_median > 0.0)
            .map(|single| single.ms_median / row.ms_median);
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

const DIRECTIONS: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];

/// A contender with turns longer than this runs only this many rounds.
const SLOW_MS: f64 = 500.0;
const SLOW_ROUNDS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_contenders_that_are_there_agree() {
        let options = ThreadsOptions {
            ciphers: vec![Cipher::Aes128Ctr, Cipher::Aes256Ctr],
            threads: vec![1, 3],
            megabytes: 1,
            rounds: 1,
            contenders: Vec::new(),
        };
        let report = run(&options, &mut |_| ()).unwrap();
        for Skipped { contender, reason } in &report.skipped {
            println!("skipped: {}: {reason}", contender.name());
        }
        let taking_part = CONTENDERS.len() - report.skipped.len();
        assert_eq!(report.rows.len(), taking_part * 2 * 2 * 2);
        assert!(report.rows.iter().all(|row| row.ms_median > 0.0 && row.speedup.is_some()));
        let text = report.to_string();
        assert!(text.contains("aes-256-ctr decrypt") && text.contains("57.2"), "{text}");
    }

    #[test]
    fn speedup_is_over_the_same_contenders_one_thread() {
        let row = |contender, threads, ms_median| Row {
            contender,
            cipher: "aes-128-ctr".to_owned(),
            operation: "encrypt".to_owned(),
            threads,
            ms_median,
            speedup: None,
        };
        let mut rows = [
            row(Contender::Evener, 1, 8.0),
            row(Contender::Memcpy, 1, 6.0),
            row(Contender::Evener, 4, 2.0),
            row(Contender::Java, 4, 2.0),
        ];
        add_speedups(&mut rows);
        assert_eq!(rows.map(|row| row.speedup), [Some(1.0), Some(1.0), Some(4.0), None]);
    }
}
