//! Processes that end while a module is initialised, each a child of its test.

use std::path::Path;
use std::process::{self, Command};
use std::time::Duration;
use std::{env, thread};

use super::softhsm::{compile, text};
use crate::pkcs11::probe;

#[test]
fn what_a_module_uses_is_there_until_it_returns() {
    ends("what_a_module_uses_is_there_until_it_returns", &[]);
}

#[test]
fn what_a_module_frees_at_exit_is_there_until_it_returns() {
    let settings = [("EVENER_SLOW_FREES", "loaded")];
    ends("what_a_module_frees_at_exit_is_there_until_it_returns", &settings);
}

/// Otherwise this test would hang.
#[test]
fn a_module_that_hangs_lets_the_process_end() {
    ends("a_module_that_hangs_lets_the_process_end", &[("EVENER_SLOW_HANGS", "1")]);
}

/// Makes a process end while it initialises the slow module with these settings.
fn ends(test: &str, settings: &[(&str, &str)]) {
    if let (Some(module), Some(begun)) = (env::var_os(MODULE), env::var_os(BEGUN)) {
        let uri = format!("?module-path={}", Path::new(&module).display());
        thread::spawn(move || probe(&uri).is_ok());
        while !Path::new(&begun).exists() {
            thread::sleep(Duration::from_millis(1));
        }
        process::exit(0);
    }
    let directory = tempfile::tempdir().unwrap();
    let Some(module) = compile("slow.c", directory.path()) else { return };
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", &format!("pkcs11::tests::ending::{test}"), "--nocapture"]);
    child.env(MODULE, module).env(BEGUN, directory.path().join("begun"));
    child.envs(settings.iter().copied());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}: {}", output.status, text(&output));
    assert!(directory.path().join("begun").exists(), "{}", text(&output));
}

const MODULE: &str = "EVENER_TEST_SLOW_MODULE";

/// A file that the module makes when it has begun.
const BEGUN: &str = "EVENER_SLOW_BEGUN";
