//! Code that the tests of the program share.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of it")]

pub mod provider;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

/// An age identity made for these tests, and its recipient.
pub const IDENTITY: &str =
    "AGE-SECRET-KEY-1AVAUC2SN5XMEYHPEUW5REVFPLFSNGUTU3Z8ELL050JTS9UC03J7SK8M0KD";
pub const RECIPIENT: &str = "age15za80n2vxu7gd2j2lfaydcdeltgm5rmfvz8zxcw94grvedplufrsw50j95";

/// Something that resembles a provider of OpenSSL: this machine can load it, and it names what
/// OpenSSL calls.
pub const PROVIDER: &str = env!("CARGO_BIN_EXE_evener");

/// The signals that stop the program gently; without SIGHUP if the tests were started to ignore it,
/// as by `nohup`, since the program then ignores it too.
pub fn gentle_signals() -> Vec<Signal> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let signals = [Signal::INT, Signal::TERM, Signal::HUP].into_iter();
    signals.filter(|signal| ignored >> (signal.as_raw() - 1) & 1 == 0).collect()
}

/// A terminal that types the answer to each prompt that ends in these words, and prints the
/// program's output.
const TERMINAL: &str = r#"
import os, pty, sys
prompt, answer, arguments = sys.argv[1].encode(), sys.argv[2].encode(), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(arguments[0], arguments)
shown, seen = b"", 0
while True:
    try:
        shown += os.read(terminal, 1000)
    except OSError:
        break
    if prompt in shown[seen:]:
        seen = len(shown)
        os.write(terminal, answer + b"\n")
sys.stdout.write(shown.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// A directory with a key, a small tree, and the program to run in it.
pub struct Fixture {
    directory: tempfile::TempDir,
    /// Nothing learnt here may get into the user's directories.
    cache: tempfile::TempDir,
}

/// The program's output, and how it ended.
#[derive(Debug)]
pub struct Ended {
    /// `None` when a signal killed it.
    pub status: Option<i32>,
    pub output: Vec<u8>,
    pub messages: String,
}

impl Fixture {
    /// Makes `my.key`, `identity` and `tree`.
    pub fn new() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let fixture = Fixture { directory, cache: tempfile::tempdir().unwrap() };
        fixture.secret("identity", IDENTITY);
        fs::create_dir_all(fixture.path("tree/deep")).unwrap();
        fs::write(fixture.path("tree/one"), "the first file").unwrap();
        fs::write(fixture.path("tree/deep/two"), vec![7; 300_000]).unwrap();
        fixture.expect(0, &["keygen", "-o", "my.key"]);
        fixture
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A directory of this user's state.
    pub fn state(&self, name: &str) -> PathBuf {
        self.cache.path().join("evener").join(name)
    }

    /// Makes a file for its owner alone.
    pub fn secret(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_evener"));
        command.current_dir(self.directory.path()).args(arguments).stdin(Stdio::null());
        command.env_remove("EVENER_KEY_FILE").env("XDG_CACHE_HOME", self.cache.path());
        command.env("XDG_STATE_HOME", self.cache.path());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&mut self.command(arguments))
    }

    /// Runs the program and checks its exit status.
    pub fn expect(&self, status: i32, arguments: &[&str]) -> Ended {
        let ended = self.run(arguments);
        assert_eq!(ended.status, Some(status), "{arguments:?}: {}", ended.messages);
        ended
    }

    /// Runs a shell command line in which `$evener` is the program.
    pub fn shell(&self, line: &str) -> Ended {
        let mut command = Command::new("sh");
        command.current_dir(self.directory.path()).args(["-c", line]).stdin(Stdio::null());
        command.env_remove("EVENER_KEY_FILE").env("XDG_CACHE_HOME", self.cache.path());
        command.env("XDG_STATE_HOME", self.cache.path());
        Ended::of(command.env("evener", env!("CARGO_BIN_EXE_evener")))
    }

    /// Runs a shell command line on a terminal, where `answer` is typed after each prompt that ends
    /// in `prompt`.
    pub fn at_terminal(&self, prompt: &str, answer: &str, line: &str) -> Ended {
        let mut command = Command::new("python3");
        command.args(["-c", TERMINAL, prompt, answer, "sh", "-c", line]);
        command.current_dir(self.directory.path()).env("evener", env!("CARGO_BIN_EXE_evener"));
        command.env_remove("EVENER_KEY_FILE").env("XDG_CACHE_HOME", self.cache.path());
        Ended::of(command.env("XDG_STATE_HOME", self.cache.path()))
    }

    /// The names in a directory, sorted.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn assert_same_tree(&self, one: &str, other: &str) {
        let status = Command::new("diff")
            .arg("-r")
            .args([self.path(one), self.path(other)])
            .status()
            .unwrap();
        assert!(status.success(), "{one} and {other} differ");
    }
}

impl Ended {
    pub fn of(command: &mut Command) -> Ended {
        let output = command.output().unwrap();
        Ended {
            status: output.status.code(),
            output: output.stdout,
            messages: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The single JSON document on standard output.
    pub fn document(&self) -> serde_json::Value {
        serde_json::from_slice(&self.output).expect("one JSON document")
    }
}

/// Returns whether a program is installed.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| Path::new(&directory).join(program).is_file())
}
