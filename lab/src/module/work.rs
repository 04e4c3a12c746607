//! The work of a run: a tree, a pipe, or messages in memory.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use evener::format::{OpensslSecret, Recipe};
use evener::keys::{KeyFormat, KeyMaterial};
use evener::{Evener, KeyRing, Operation, OperationError, Report, StreamSource, StreamTarget};
use evener_core::{Cipher, Direction, Engine, Iv, Key, Outcome};
use evener_engines::{Watch, watched};
use evener_pipeline::{PolicyName, RunOptions, run_batch};

use super::options::WorkKind;
use crate::LabError;
use crate::done::{Amount, all_done};
use crate::policies::Files;
use crate::tree::{Place, Workload};

/// Some work of a kind, which can be repeated.
pub(super) enum Work {
    Files { place: Place, source: PathBuf, cipher: Cipher, amount: Amount },
    Pipe { bytes: u64 },
    Messages(Files),
}

impl Work {
    /// Prepares `bytes` bytes of work, rounded up to files, pieces or messages.
    ///
    /// # Errors
    /// When there is no room, or OpenSSL does not support the cipher.
    pub(super) fn new(
        kind: WorkKind,
        cipher: Cipher,
        bytes: u64,
        at: &std::path::Path,
    ) -> Result<Work, LabError> {
        Ok(match kind {
            WorkKind::Files => {
                let place = Place::below(at)?;
                let source = place.path("source");
                let count = bytes.div_ceil(FILE);
                Workload::Files { count, length: FILE, per_directory: 50 }
                    .build(&place, &source)?;
                let amount = Amount { files: count, bytes: count * FILE };
                Work::Files { place, source, cipher, amount }
            }
            WorkKind::Pipe => Work::Pipe { bytes: bytes.next_multiple_of(PIECE as u64) },
            WorkKind::Messages => {
                let bytes = bytes.min(MOST_MESSAGES);
                let count = bytes.div_ceil(MESSAGE as u64) as usize;
                Work::Messages(Files::new(cipher, Direction::Encrypt, MESSAGE, count)?)
            }
        })
    }

    pub(super) fn cipher(&self) -> Cipher {
        match self {
            Work::Files { cipher, .. } => *cipher,
            Work::Pipe { .. } => Cipher::Aes256Gcm,
            Work::Messages(files) => files.cipher,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match self {
            Work::Files { amount, .. } => amount.bytes,
            Work::Pipe { bytes } => *bytes,
            Work::Messages(files) => files.count() as u64 * MESSAGE as u64,
        }
    }

    /// The bytes of one task.
    pub(super) fn task(&self) -> u64 {
        match self {
            // A file is one CBC chain; a claim takes the same number of bytes of messages.
            Work::Files { .. } | Work::Messages(_) => FILE,
            Work::Pipe { .. } => PIECE as u64,
        }
    }

    /// Does the work with these engines and returns the time. A module gets a guard, as in every run.
    ///
    /// # Errors
    /// When an engine failed, or [`LabError::Undone`] when not all of it was done.
    pub(super) fn run(
        &mut self,
        engines: &[Arc<dyn Engine>],
        policy: PolicyName,
    ) -> Result<Duration, LabError> {
        let names: Vec<_> = engines.iter().map(|it| it.description().name.as_str()).collect();
        let name = format!("{} under {policy}", names.join(" and "));
        match self {
            Work::Files { place, source, cipher, amount } => {
                let target = place.path("target");
                let evener = build(raw_key(*cipher)?, engines, policy)?;
                let begun = Instant::now();
                let report = evener.encrypt(source, &target);
                let time = begun.elapsed();
                place.discard(&target)?;
                all_done(&name, done(report)?, *amount)?;
                Ok(time)
            }
            Work::Pipe { bytes } => {
                let key = KeyMaterial::generate(KeyFormat::default()).map_err(unavailable)?;
                let keys = key.key_ring(b"").map_err(unavailable)?;
                let evener = build(keys, engines, policy)?;
                let (reader, writer) = io::pipe().map_err(LabError::file("make", "a pipe"))?;
                let nowhere =
                    File::create("/dev/null").map_err(LabError::file("open", "/dev/null"))?;
                let begun = Instant::now();
                let report = thread::scope(|scope| {
                    scope.spawn(|| write(writer, *bytes));
                    let source = StreamSource::Descriptor(reader.into());
                    let target = StreamTarget::Descriptor(nowhere.into());
                    evener.process_stream(Operation::Encrypt, source, target)
                });
                let time = begun.elapsed();
                all_done(&name, done(report)?, Amount { files: 1, bytes: *bytes })?;
                Ok(time)
            }
            Work::Messages(files) => {
                let seats = seats(engines, files.cipher)?;
                let options = RunOptions::new(policy, files.cipher, Direction::Encrypt, 1);
                let mut jobs = files.jobs();
                let begun = Instant::now();
                let failure = run_batch(&seats, &options, &mut jobs, &|| false);
                let time = begun.elapsed();
                let is_done =
                    |job: &&evener_core::Job<'_>| matches!(job.outcome, Outcome::Done { .. });
                let done = Amount::of(jobs.iter().filter(is_done).count() as u64, MESSAGE);
                drop(jobs);
                if let Some(failure) = failure {
                    return Err(unavailable(failure));
                }
                all_done(&name, done, Amount::of(files.count() as u64, MESSAGE))?;
                match files.are_right() {
                    true => Ok(time),
                    false => Err(LabError::Unavailable(format!("{name}: a result is wrong"))),
                }
            }
        }
    }
}

/// The key and the IV of the benchmark's files, which are useless afterwards.
pub(super) fn key_and_iv(cipher: Cipher) -> (Vec<u8>, Vec<u8>) {
    let bytes = Vec::from_iter(1..=u8::MAX);
    (bytes[..cipher.key_length()].to_vec(), bytes[..cipher.iv_length()].to_vec())
}

fn raw_key(cipher: Cipher) -> Result<KeyRing, LabError> {
    let (key, iv) = key_and_iv(cipher);
    let key = Key::new(&key).map_err(unavailable)?;
    let iv = Iv::new(&iv).map_err(unavailable)?;
    let recipe = Recipe::openssl_enc(cipher, OpensslSecret::Raw { key, iv });
    recipe.map(KeyRing::new).map_err(unavailable)
}

fn build(
    keys: KeyRing,
    engines: &[Arc<dyn Engine>],
    policy: PolicyName,
) -> Result<Evener, LabError> {
    let builder = Evener::builder(keys).options(|options| options.run.policy = Some(policy.into()));
    let add = |builder: evener::EvenerBuilder, engine: &Arc<dyn Engine>| {
        builder.engine(Arc::clone(engine))
    };
    engines.iter().fold(builder, add).build().map_err(unavailable)
}

/// Returns one entry for each worker, as in the library's operations.
fn seats(engines: &[Arc<dyn Engine>], cipher: Cipher) -> Result<Vec<Arc<dyn Engine>>, LabError> {
    let mut seats = Vec::new();
    for engine in engines {
        let engine = watched(engine, Watch::of_a_run(None)).map_err(unavailable)?;
        let depth = engine.offer(cipher, Direction::Encrypt).map_or(0, |offer| offer.depth);
        seats.extend(std::iter::repeat_n(engine, depth));
    }
    Ok(seats)
}

fn done(report: Result<Report, OperationError>) -> Result<Amount, LabError> {
    let report = report.map_err(unavailable)?;
    Ok(Amount { files: report.files, bytes: report.bytes })
}

/// Writes `bytes` bytes, a piece at a time, until the reader closes.
fn write(mut to: impl Write, bytes: u64) {
    let piece = vec![0x5A; PIECE];
    for _ in 0..bytes / PIECE as u64 {
        if to.write_all(&piece).is_err() {
            return;
        }
    }
}

fn unavailable(error: impl std::fmt::Display) -> LabError {
    LabError::Unavailable(error.to_string())
}

/// The length of a file.
const FILE: u64 = 64 << 10;
/// The length of a message.
const MESSAGE: usize = 16 << 10;
/// The length of a write to a pipe, and the most that a worker takes from it at once.
const PIECE: usize = 256 << 10;
/// The most bytes of all messages: input, output and expected results are in memory.
const MOST_MESSAGES: u64 = 2 << 30;
