//! Sealed trees of a test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::Key;
use evener_keys::age::{Identity, wrap};
use evener_place::indexed::{self, GenerationInfo, Keychain, Sealed, SealedOptions};
use evener_place::{Failure, Local, Operation, OperationError, Report, TreeOptions};

use super::{Options, options};

/// A source, a sealed tree and the state of one machine.
pub struct Scene {
    home: PathBuf,
    /// Removes all of it at the end.
    _temporary: Option<tempfile::TempDir>,
    pub run: Options,
}

impl Scene {
    pub fn new() -> Scene {
        let temporary = super::home();
        let scene = Scene::at(temporary.path());
        let scene = Scene { _temporary: Some(temporary), ..scene };
        fs::create_dir(scene.source()).unwrap();
        scene
    }

    /// The scene of another process.
    pub fn at(home: &Path) -> Scene {
        Scene { home: home.to_owned(), _temporary: None, run: options() }
    }

    /// A command that runs the test `child`, which seals with the options of [`seal_in_child`].
    pub fn seal_command(&self, kind: &str, machine: &str) -> std::process::Command {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--nocapture", "--quiet"])
            .env(HOME, &self.home)
            .env(KIND, kind)
            .env(MACHINE, machine)
            .env("RUST_BACKTRACE", "0");
        command
    }

    /// Options for a kind of writer: one with a key, or with recipients.
    pub fn writer(&self, kind: &str, machine: &str) -> SealedOptions {
        match kind {
            "key" => self.with_key(machine),
            _ => self.with_recipient(&super::same_identity(), machine),
        }
    }

    /// Options for a reader of what [`Scene::writer`] has sealed.
    pub fn reader(&self, kind: &str, machine: &str) -> SealedOptions {
        match kind {
            "key" => self.with_key(machine),
            _ => self.with_identity(&super::same_identity(), machine),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    pub fn source(&self) -> PathBuf {
        self.path("source")
    }

    pub fn tree(&self) -> PathBuf {
        self.path("tree")
    }

    /// Writes a file of the source.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.source().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Makes the times of the source's changes old enough to be believed.
    pub fn settle(&self) {
        std::thread::sleep(std::time::Duration::from_millis(60));
    }

    /// Options with a key, for a machine with this name.
    pub fn with_key(&self, machine: &str) -> SealedOptions {
        let keychain = Keychain { keys: vec![key(7)], ..Keychain::default() };
        SealedOptions { keychain, state: Some(self.state(machine)), ..SealedOptions::default() }
    }

    /// Options that seal for an identity, and open nothing.
    pub fn with_recipient(&self, identity: &Identity, machine: &str) -> SealedOptions {
        let recipient = identity.recipient().unwrap();
        let wrap: indexed::Wrap =
            Arc::new(move |text| Ok(wrap(text, std::slice::from_ref(&recipient)).unwrap()));
        SealedOptions {
            wrap: Some(wrap),
            state: Some(self.state(machine)),
            ..SealedOptions::default()
        }
    }

    /// Options that open what is for an identity.
    pub fn with_identity(&self, identity: &Identity, machine: &str) -> SealedOptions {
        let unlock = Arc::new(vec![identity.clone()]);
        let keychain = Keychain { unlock, ..Keychain::default() };
        SealedOptions { keychain, state: Some(self.state(machine)), ..SealedOptions::default() }
    }

    fn state(&self, machine: &str) -> (PathBuf, String) {
        (self.path(&format!("state-{machine}")), "the tree".to_owned())
    }

    pub fn try_seal(&self, sealed: &SealedOptions) -> Result<(Report, Sealed), OperationError> {
        let source = TreeOptions { xattrs: sealed.xattrs, ..TreeOptions::default() };
        let store = Local::new(self.tree(), &TreeOptions::default());
        let source = Local::new(self.source(), &source);
        indexed::seal(&source, &store, &self.run.run, &self.run.transfer, sealed)
    }

    #[track_caller]
    pub fn seal(&self, sealed: &SealedOptions) -> (Report, Sealed) {
        self.try_seal(sealed).unwrap_or_else(|error| match error.into_report() {
            Ok(report) => panic!("{:?}", report.failures),
            Err(failure) => panic!("{failure}"),
        })
    }

    /// Decrypts to a directory with this name.
    pub fn try_open(
        &self,
        name: &str,
        sealed: &SealedOptions,
    ) -> Result<(Report, GenerationInfo), OperationError> {
        let all = TreeOptions { xattrs: sealed.xattrs, ..TreeOptions::default() };
        let (origin, store) = (Local::new(self.tree(), &all), Local::new(self.path(name), &all));
        let (run, transfer) = (&self.run.run, &self.run.transfer);
        indexed::open(Operation::Decrypt, &origin, Some(&store), run, transfer, sealed)
    }

    #[track_caller]
    pub fn open(&self, name: &str, sealed: &SealedOptions) -> GenerationInfo {
        match self.try_open(name, sealed) {
            Ok((report, info)) => {
                assert!(report.is_success(), "{:?}", report.failures);
                info
            }
            Err(error) => match error.into_report() {
                Ok(report) => panic!("{:?}", report.failures),
                Err(failure) => panic!("{failure}"),
            },
        }
    }

    pub fn verify(&self, sealed: &SealedOptions) -> Result<Report, OperationError> {
        let origin = Local::new(self.tree(), &TreeOptions::default());
        let (run, transfer) = (&self.run.run, &self.run.transfer);
        let verified = indexed::open(Operation::Verify, &origin, None, run, transfer, sealed);
        verified.map(|(report, _)| report)
    }

    /// The reason why decrypting does not begin.
    #[track_caller]
    pub fn refusal(&self, sealed: &SealedOptions) -> String {
        match self.try_open("refused", sealed) {
            Err(OperationError::NotBegun(Failure { error, .. })) => error.to_string(),
            other => panic!("{:?}", other.map(|(report, _)| report)),
        }
    }

    /// The paths that fail when the tree is decrypted, with the reasons. The run's own is empty.
    pub fn failures(&self, sealed: &SealedOptions) -> BTreeMap<String, String> {
        let _ = fs::remove_dir_all(self.path("out"));
        failures(self.try_open("out", sealed).map(|(report, _)| report))
    }

    /// As [`Scene::failures`], when it is verified.
    pub fn faults(&self, sealed: &SealedOptions) -> BTreeMap<String, String> {
        failures(self.verify(sealed))
    }

    /// As both, with other settings.
    pub fn failures_with(
        &self,
        options: &Options,
        operation: Operation,
        sealed: &SealedOptions,
    ) -> BTreeMap<String, String> {
        let all = TreeOptions::default();
        let (origin, out) = (Local::new(self.tree(), &all), self.path("out"));
        let store = (operation != Operation::Verify).then(|| {
            let _ = fs::remove_dir_all(&out);
            Local::new(&out, &all)
        });
        let store = store.as_ref().map(|store| store as &dyn evener_place::Store);
        let (run, transfer) = (&options.run, &options.transfer);
        let result = indexed::open(operation, &origin, store, run, transfer, sealed);
        failures(result.map(|(report, _)| report))
    }

    /// Checks that all was decrypted but these paths, which are not there.
    #[track_caller]
    pub fn assert_all_but(&self, missing: &[&str]) {
        let mut expected = content(&self.source());
        missing.iter().for_each(|path| assert!(expected.remove(Path::new(path)).is_some()));
        let there = content(&self.path("out"));
        assert_eq!(there.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        assert!(there == expected);
    }

    /// Copies a directory of the scene.
    pub fn copy(&self, from: &str, to: &str) {
        copy(&self.path(from), &self.path(to));
    }

    #[track_caller]
    pub fn assert_same(&self, name: &str) {
        assert_eq!(content(&self.source()), content(&self.path(name)));
    }
}

/// Seals as the environment says, if it does, and ends the process: with 0 on success, 1 when files
/// failed and 2 when it could not begin. Failures are lines on standard error.
pub fn seal_in_child() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let [kind, machine] = [KIND, MACHINE].map(|name| std::env::var(name).unwrap());
    let mut scene = Scene::at(Path::new(&home));
    scene.run.run.memory = 4 * (70 << 10);
    let action = std::env::var(ACTION).unwrap_or_default();
    std::process::exit(match scene.try_to(&action, &kind, &machine) {
        Ok(()) => 0,
        Err((status, errors)) => {
            eprintln!("{errors}");
            status
        }
    });
}

impl Scene {
    /// Does something to the tree, with everything that its writer has: `clean`, `rekey`, `rewrap`,
    /// `open`, `seal and read`; otherwise it seals as one who can't read. The error has the status of a process.
    pub fn try_to(&self, action: &str, kind: &str, machine: &str) -> Result<(), (i32, String)> {
        let tree = Local::new(self.tree(), &TreeOptions::default());
        let (run, transfer) = (&self.run.run, &self.run.transfer);
        let sealed = SealedOptions {
            keychain: self.reader(kind, machine).keychain,
            ..self.writer(kind, machine)
        };
        let refused = |error: evener_place::FileError| (2, error.to_string());
        let result = match action {
            "clean" => {
                let options = indexed::CleanOptions { keep: 1, ..Default::default() };
                return indexed::clean(&tree, run, &sealed, &options).map(drop).map_err(refused);
            }
            "rewrap" => {
                let wrap = sealed.wrap.clone().unwrap();
                let rewrapped = indexed::rewrap(&tree, run, &wrap, false, &sealed);
                return rewrapped.map(drop).map_err(refused);
            }
            "rekey" if kind == "key" => {
                indexed::rekey(&tree, run, transfer, &sealed, Some(&key(8))).map(drop)
            }
            "rekey" => indexed::rekey(&tree, run, transfer, &sealed, None).map(drop),
            "open" => self.try_open("out", &sealed).map(|(report, _)| {
                report.notices.iter().for_each(|notice| eprintln!("{notice:?}"));
            }),
            "seal and read" => self.try_seal(&sealed).map(drop),
            _ => self.try_seal(&self.writer(kind, machine)).map(drop),
        };
        let Err(error) = result else { return Ok(()) };
        match error.into_report() {
            Ok(report) => {
                let line = |it: &Failure| format!("{}: {}\n", it.path.display(), it.error);
                Err((1, report.failures.iter().map(line).collect()))
            }
            Err(failure) => Err((2, failure.to_string())),
        }
    }
}

/// The environment variable that says what the child does.
pub const ACTION: &str = "EVENER_TEST_SEALED_ACTION";

const HOME: &str = "EVENER_TEST_SEALED_HOME";
const KIND: &str = "EVENER_TEST_SEALED_KIND";
const MACHINE: &str = "EVENER_TEST_SEALED_MACHINE";

fn failures(result: Result<Report, OperationError>) -> BTreeMap<String, String> {
    match result.or_else(OperationError::into_report) {
        Ok(report) => {
            let failures = report.failures.into_iter();
            failures.map(|it| (it.path.display().to_string(), it.error.to_string())).collect()
        }
        Err(Failure { error, .. }) => [(String::new(), error.to_string())].into(),
    }
}

/// `cp -a`, in the place of what was there.
pub fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to).or_else(|_| fs::remove_file(to));
    let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

pub fn key(byte: u8) -> Key {
    Key::new(&[byte; 32]).unwrap()
}

/// Everything in a directory: kinds, modes, times, and content.
pub fn content(root: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let status = fs::symlink_metadata(&path).unwrap();
        let bytes = if status.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if status.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        let name = path.strip_prefix(root).unwrap().to_owned();
        found.insert(name, (status.mode(), status.mtime(), bytes));
    }
    found
}
