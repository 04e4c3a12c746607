//! Tokens that are slow to log in or to close their sessions.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::Fixture;
use rustix::process::{Pid, Signal, kill_process};

/// SoftHSM with a token `evener`, behind a faulty module.
struct Token {
    fixture: Fixture,
    engine: String,
    module: &'static Path,
}

impl Token {
    /// Returns `None` if SoftHSM or a compiler is not installed.
    fn new() -> Option<Token> {
        let Some(module) = MODULES.iter().map(Path::new).find(|path| path.exists()) else {
            evener_core::lacking!("SoftHSM2 is not installed (Debian: softhsm2)");
            return None;
        };
        let fixture = Fixture::new();
        let shim = concat!(env!("CARGO_MANIFEST_DIR"), "/../engines/src/pkcs11/tests/shim.c");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        compiler.args(["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", shim, "-ldl", "-o"]);
        let Ok(compiled) = compiler.arg(fixture.path("shim.so")).output() else {
            evener_core::lacking!("there is no C compiler for a module");
            return None;
        };
        assert!(compiled.status.success(), "{compiled:?}");
        let tokens = fixture.path("tokens");
        fs::create_dir(&tokens).unwrap();
        let configuration = format!("directories.tokendir = {}\n", tokens.display());
        fs::write(fixture.path("softhsm2.conf"), configuration).unwrap();
        let mut utility = Command::new("softhsm2-util");
        utility.args(["--init-token", "--free", "--label", "evener", "--so-pin", "12345678"]);
        utility.args(["--pin", "648219"]).env("SOFTHSM2_CONF", fixture.path("softhsm2.conf"));
        let made = utility.output().unwrap();
        assert!(made.status.success(), "{made:?}");
        fixture.secret("pin", "648219\n");
        let (shim, pin) = (fixture.path("shim.so"), fixture.path("pin"));
        let engine = format!(
            "pkcs11:token=evener?module-path={}&pin-source=file:{}",
            shim.display(),
            pin.display()
        );
        Some(Token { fixture, engine, module })
    }

    /// Encrypts a file that the cores process alone, while a token is there.
    fn encrypt(&self, target: &str, settings: &[(&str, &str)]) -> Command {
        let engines = ["--engine", &self.engine, "--engine", "cpu"];
        let words = [&["encrypt", "-k", "my.key"], &engines[..], &["tree/one", target]].concat();
        let mut command = self.fixture.command(&words);
        command.env("SOFTHSM2_CONF", self.fixture.path("softhsm2.conf"));
        command.env("EVENER_SHIM_MODULE", self.module).envs(settings.iter().copied());
        command
    }
}

#[test]
fn a_token_that_closes_slowly_keeps_nobody_waiting() {
    let Some(token) = Token::new() else { return };
    let ends_soon = |number| {
        let target = format!("sealed{number}");
        let begun = Instant::now();
        let mut command = token.encrypt(&target, &[("EVENER_SHIM_CLOSING", "1900")]);
        let output = command.output().unwrap();
        let time = begun.elapsed();
        assert!(output.status.success(), "{output:?}");
        token.fixture.expect(0, &["decrypt", "-k", "my.key", &target, &format!("opened{number}")]);
        let opened = fs::read(token.fixture.path(&format!("opened{number}"))).unwrap();
        assert_eq!(opened, b"the first file");
        time < Duration::from_millis(1500)
    };
    assert!((0..5).any(ends_soon));
}

/// A process that ends before it knows would leave a note that the PIN may be wrong. On a busy machine the
/// token may take longer than people wait.
#[test]
fn a_signal_during_a_login_leaves_the_pin_in_use() {
    let stays_in_use = |_| {
        let Some(token) = Token::new() else { return true };
        let tally = token.fixture.path("tally");
        let tally_path = tally.to_str().unwrap();
        let settings = [("EVENER_SHIM_LOGIN", "20"), ("EVENER_SHIM_TALLY", tally_path)];
        let mut child = token.encrypt("sealed", &settings).stderr(Stdio::null()).spawn().unwrap();
        let begun = Instant::now();
        while !tally.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it did not log in");
            sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(!token.fixture.path("sealed").exists());
        token.encrypt("sealed", &[]).output().unwrap().status.success()
    };
    assert!((0..5).any(stays_in_use));
}

const MODULES: &[&str] = &[
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib64/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
    "/usr/lib/pkcs11/libsofthsm2.so",
    "/usr/local/lib/softhsm/libsofthsm2.so",
];
