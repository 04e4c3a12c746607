//! A device of this machine beside the cores, run by the program `evener`: each run is a new
//! process, which finds and opens the device as a user's process would.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use evener::keys::{KeyFormat, KeyMaterial};
use evener_core::Cipher;
use evener_pipeline::PolicyName;
use serde::Deserialize;
use tempfile::TempDir;

use super::ModuleOptions;
use super::options::WorkKind;
use super::report::{Block, Row, milliseconds};
use super::work::{Work, key_and_iv};
use crate::LabError;
use crate::done::{Amount, all_done};
use crate::process::evener;
use crate::statistics::median;
use crate::watch::Watch;

/// The device's engine, the program, and a directory for keys and caches.
pub(super) struct Device {
    engine: String,
    program: PathBuf,
    directory: TempDir,
}

/// The module that takes part beside the cores.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    Warm,
    Cold,
}

/// The time of a process's run, and its time outside the run.
struct Turn {
    run: Duration,
    outside: Duration,
}

/// The part of `evener`'s report that the benchmark reads.
#[derive(Deserialize)]
struct Told {
    files: u64,
    bytes: u64,
    seconds: f64,
}

impl Device {
    /// Finds the device that the options name; `None` if they name none.
    ///
    /// # Errors
    /// The reason why the device is absent.
    pub(super) fn find(options: &ModuleOptions) -> Result<Option<Device>, String> {
        let engine = options.device.clone();
        if engine == "none" {
            return Ok(None);
        }
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let program = evener(options.program.as_deref()).map_err(|error| error.to_string())?;
        let device = Device { engine, program, directory };
        let key = KeyMaterial::generate(KeyFormat::default()).map_err(|error| error.to_string())?;
        let (raw, iv) = key_and_iv(options.cipher);
        device
            .keep("key", &key.to_text())
            .and_then(|()| device.keep("key.hex", &hexadecimal(&raw)))
            .and_then(|()| device.keep("iv.hex", &hexadecimal(&iv)))
            .and_then(|()| device.keep("probe", "probe"))
            .and_then(|()| {
                // The device works alone, which also warms the cache of kernels.
                let (source, key) =
                    (device.path("probe"), device.key(WorkKind::Pipe, Cipher::Aes256Gcm));
                let mut command = device.encrypt(Beside::Warm)?;
                command.args(key).arg(&source).arg(device.path("probed"));
                device.take(&mut command, Stdio::null()).map(|_| Some(device))
            })
            .map_err(|error| format!("{}: {error}", options.device))
    }

    /// All rounds of one piece of work: the cores alone, and the device beside them with its cache of
    /// kernels warm and cold.
    pub(super) fn measure(
        &self,
        work: &Work,
        (kind, ms): (WorkKind, u64),
        options: &ModuleOptions,
        watch: &mut Watch<'_>,
    ) -> Result<Block, LabError> {
        let mut contenders = vec![(Beside::Nothing, PolicyName::Pull)];
        for &policy in &options.policies {
            contenders.extend([(Beside::Warm, policy), (Beside::Cold, policy)]);
        }
        let mut turns: Vec<Vec<Turn>> = contenders.iter().map(|_| Vec::new()).collect();
        // A first turn of each contender fills the caches and is not counted.
        for round in 0..=options.rounds as usize {
            for turn in 0..contenders.len() {
                let index = (turn + round) % contenders.len();
                let (beside, policy) = contenders[index];
                let name = self.name(beside);
                watch
                    .next(&format!("{}, {ms} ms, round {round}: {name}, {policy}", kind.name()))?;
                let turn = self.turn(work, kind, options.cipher, beside, policy)?;
                if round > 0 {
                    turns[index].push(turn);
                }
            }
        }
        let runs = |turns: &[Turn]| turns.iter().map(|turn| turn.run).collect::<Vec<_>>();
        let outside = |turns: &[Turn]| {
            median(&turns.iter().map(|turn| milliseconds(turn.outside)).collect::<Vec<_>>())
        };
        let mut block = Block::new(kind, ms, work.bytes(), "evener --engine cpu", &runs(&turns[0]));
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        block.task_ms = block.cores_ms_median * cores * work.task() as f64 / work.bytes() as f64;
        for ((beside, policy), turns) in contenders.iter().zip(&turns) {
            let mut row = Row::new(self.name(*beside), *policy, &runs(turns), block.bound_ms());
            row.outside_ms = outside(turns);
            // The cores' runs are the reference, so none is beyond the bound.
            row.beyond *= usize::from(*beside != Beside::Nothing);
            block.rows.push(row);
        }
        Ok(block)
    }

    fn turn(
        &self,
        work: &Work,
        kind: WorkKind,
        cipher: Cipher,
        beside: Beside,
        policy: PolicyName,
    ) -> Result<Turn, LabError> {
        let mut command = self.command(beside, policy)?;
        command.args(self.key(kind, cipher));
        let (told, wanted) = match work {
            Work::Files { place, source, amount, .. } => {
                let target = place.path("target");
                let told = self.take(command.arg(source).arg(&target), Stdio::null())?;
                place.discard(&target)?;
                (told, *amount)
            }
            _ => {
                let input = self.input(work.bytes())?;
                let told = self.take(command.args(["-", "/dev/null"]), input.into())?;
                (told, Amount { files: 1, bytes: work.bytes() })
            }
        };
        let (Told { files, bytes, seconds }, whole) = told;
        all_done(&self.name(beside), Amount { files, bytes }, wanted)?;
        let run = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        Ok(Turn { run, outside: whole.saturating_sub(run) })
    }

    /// The input of a pipe: one file for all turns, whose pages stay in memory after the first.
    fn input(&self, bytes: u64) -> Result<File, LabError> {
        let path = self.path("input");
        let input = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let input = input.map_err(LabError::file("open", &path))?;
        input.set_len(bytes).map_err(LabError::file("make", &path))?;
        Ok(input)
    }

    /// `evener encrypt` with the engines, but without keys and paths.
    fn command(&self, beside: Beside, policy: PolicyName) -> Result<Command, LabError> {
        let mut command = self.encrypt(beside)?;
        command.args(["--policy", policy.name(), "--engine", "cpu"]);
        Ok(command)
    }

    /// `evener encrypt` with no engine but the device.
    fn encrypt(&self, beside: Beside) -> Result<Command, LabError> {
        let cache = self.path(if beside == Beside::Cold { "cold" } else { "warm" });
        if beside == Beside::Cold {
            crate::tree::remove(&cache)?;
        }
        fs::create_dir_all(&cache).map_err(LabError::file("create", &cache))?;
        let mut command = Command::new(&self.program);
        command.args(["encrypt", "--json"]);
        if beside != Beside::Nothing {
            command.args(["--engine", &self.engine]);
        }
        for variable in CACHES {
            command.env(variable, &cache);
        }
        Ok(command)
    }

    fn key(&self, kind: WorkKind, cipher: Cipher) -> Vec<std::ffi::OsString> {
        let path = |name| self.path(name).into_os_string();
        match kind {
            WorkKind::Pipe => vec!["--key".into(), path("key")],
            _ => {
                let mut words = vec!["--format".into(), "openssl".into(), "--cipher".into()];
                words.extend([cipher.name().into(), "--key-hex-file".into(), path("key.hex")]);
                if cipher.iv_length() > 0 {
                    words.extend(["--iv-hex-file".into(), path("iv.hex")]);
                }
                words
            }
        }
    }

    /// Runs the program, and returns its report and its time.
    fn take(&self, command: &mut Command, input: Stdio) -> Result<(Told, Duration), LabError> {
        let begun = Instant::now();
        let output = command
            .stdin(input)
            .output()
            .map_err(|source| LabError::Start { program: self.program.clone(), source })?;
        let time = begun.elapsed();
        let told = serde_json::from_slice(&output.stdout);
        match (output.status.success(), told) {
            (true, Ok(told)) => Ok((told, time)),
            (_, told) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                let message =
                    told.err().map_or_else(|| said.clone(), |it| format!("{said} ({it})"));
                let program = "evener encrypt".to_owned();
                Err(LabError::Failed { program, status: output.status, message })
            }
        }
    }

    fn name(&self, beside: Beside) -> String {
        match beside {
            Beside::Nothing => "nothing".to_owned(),
            Beside::Warm => format!("{}, kernels cached", self.engine),
            Beside::Cold => format!("{}, no kernels cached", self.engine),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file that only this user may read.
    fn keep(&self, name: &str, text: &str) -> Result<(), LabError> {
        let path = self.path(name);
        let write = |path: &Path| {
            File::create(path)?.set_permissions(Permissions::from_mode(0o600))?;
            fs::write(path, text)
        };
        write(&path).map_err(LabError::file("write", &path))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The variables that name the directories of compiled kernels, of PoCL and of the CUDA driver.
const CACHES: [&str; 2] = ["POCL_CACHE_DIR", "CUDA_CACHE_PATH"];
