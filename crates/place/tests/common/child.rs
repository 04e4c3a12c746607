//! Operations in separate processes, which tests can make fail or kill.
//!
//! The process is the test program itself: each test file that uses this has a test `child`, which
//! does nothing unless its environment holds an errand.

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use super::process;
use evener_place::{Existing, FileOutcome, KeyRing, Operation, Report, Update};

use super::{Options, every_key_ring, existing, options};

/// The task of a process.
#[derive(Clone)]
pub struct Errand<'a> {
    pub operation: Operation,
    /// The name of one of [`every_key_ring`].
    pub keys: &'a str,
    pub source: &'a Path,
    pub target: &'a Path,
    pub flags: Flags,
}

/// The options that affect what an interrupted run leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    pub overwrite: bool,
    pub update: bool,
    pub resume: bool,
    pub remove_source: bool,
    pub durable: bool,
    pub owner: bool,
    pub xattrs: bool,
}

impl Flags {
    /// For outputs that do not exist before.
    pub const FRESH: Flags = Flags {
        overwrite: false,
        update: false,
        resume: false,
        remove_source: false,
        durable: false,
        owner: false,
        xattrs: false,
    };

    /// The same flags as the library's options.
    pub fn options(self) -> Options {
        let Flags { overwrite, update, resume, remove_source, durable, owner, xattrs } = self;
        // Buffers so short that a long file has several segments.
        let (memory, rest) = (4 * (70 << 10), options());
        let existing = match update {
            true => Existing::Update(Update { overwrite, ..Update::default() }),
            false => existing(overwrite, resume),
        };
        rest.with(|it| {
            it.run.memory = memory;
            it.tree.existing = existing;
            it.tree.remove_source = remove_source;
            it.tree.durable = durable;
            it.tree.owner = owner;
            it.tree.xattrs = xattrs;
        })
    }
}

impl Errand<'_> {
    /// The command that runs the errand. It exits with 0 on success, 1 when files failed and 2 when
    /// it could not begin; the failures are lines on standard error.
    pub fn command(&self) -> Command {
        let Flags { overwrite, update, resume, remove_source, durable, owner, xattrs } = self.flags;
        let flags = [overwrite, update, resume, remove_source, durable, owner, xattrs];
        let flags: String = flags.map(|flag| if flag { '1' } else { '0' }).iter().collect();
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--nocapture", "--quiet"])
            .env(OPERATION, self.operation.name())
            .env(KEYS, self.keys)
            .env(SOURCE, self.source)
            .env(TARGET, self.target)
            .env(FLAGS, flags)
            .env("RUST_BACKTRACE", "0");
        command
    }

    /// Runs the errand in this process.
    pub fn perform(&self) -> evener_place::Report {
        let keys = key_ring(self.keys);
        let options = self.flags.options();
        process(self.operation, &keys, self.source, Some(self.target), &options).unwrap()
    }
}

/// Runs the errand in the environment, if there is one, and ends the process.
pub fn serve() {
    let Ok(operation) = env::var(OPERATION) else { return };
    let operation = match operation.as_str() {
        "encrypt" => Operation::Encrypt,
        _ => Operation::Decrypt,
    };
    let keys = key_ring(&env::var(KEYS).unwrap());
    let [source, target] = [SOURCE, TARGET].map(|name| PathBuf::from(env::var_os(name).unwrap()));
    let flags = env::var(FLAGS).unwrap();
    let flag = |index: usize| flags.as_bytes()[index] == b'1';
    let flags = Flags {
        overwrite: flag(0),
        update: flag(1),
        resume: flag(2),
        remove_source: flag(3),
        durable: flag(4),
        owner: flag(5),
        xattrs: flag(6),
    };
    let told: Arc<Mutex<HashMap<PathBuf, FileOutcome>>> = Arc::default();
    let mut options = flags.options();
    options.run.listener = Some(Arc::new({
        let told = told.clone();
        move |path: &Path, outcome| {
            let before = told.lock().unwrap().insert(path.to_owned(), outcome);
            assert!(before.is_none(), "{path:?} was told of twice");
        }
    }));
    let status = match process(operation, &keys, &source, Some(&target), &options) {
        Ok(report) => {
            assert_counts(&report, &options, &told.lock().unwrap());
            for notice in &report.notices {
                eprintln!("{}: {}", notice.path.display(), notice.reason);
            }
            for failure in &report.failures {
                eprintln!("{}: {}", failure.path.display(), failure.error);
            }
            i32::from(!report.is_success())
        }
        Err(failure) => {
            eprintln!("{}: {}", failure.path.display(), failure.error);
            2
        }
    };
    std::process::exit(status);
}

/// Checks that each file was counted once, whatever its outcome, and reported when it was counted.
fn assert_counts(report: &Report, options: &Options, told: &HashMap<PathBuf, FileOutcome>) {
    let progress = options.run.control.progress();
    assert_eq!(progress.completed_files, report.files, "{report:?}");
    if !report.interrupted {
        assert_eq!(progress.found_files, progress.done_files, "{report:?}");
    }
    let times = |outcome| told.values().filter(|it| **it == outcome).count() as u64;
    assert_eq!(times(FileOutcome::Skipped), report.files_skipped);
    assert_eq!(times(FileOutcome::Unchanged), report.files_unchanged);
    assert_eq!(times(FileOutcome::Linked), report.hard_links);
    let done = report.files + report.files_skipped + report.files_unchanged + report.hard_links;
    let failed = report.failures.iter().filter(|failure| told.contains_key(&failure.path));
    assert_eq!((told.len() as u64, failed.count()), (done, 0), "{report:?} {told:?}");
}

pub fn key_ring(name: &str) -> KeyRing {
    let mut rings = every_key_ring().into_iter();
    rings.find(|ring| ring.0 == name).unwrap().1
}

/// The library that makes system calls fail, built with the C compiler that the vendored OpenSSL
/// also needs.
pub fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shim/faults.c");
        let built = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("faults-{}.so", std::process::id()));
        let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&built).arg(source).arg("-ldl");
        assert!(command.status().unwrap().success(), "the shim does not build");
        built
    })
}

const OPERATION: &str = "EVENER_TEST_OPERATION";
const KEYS: &str = "EVENER_TEST_KEYS";
const SOURCE: &str = "EVENER_TEST_SOURCE";
const TARGET: &str = "EVENER_TEST_TARGET";
const FLAGS: &str = "EVENER_TEST_FLAGS";
