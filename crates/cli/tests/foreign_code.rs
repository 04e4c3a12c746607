//! Modules whose code tries to end the program. They need no token: they act when they are loaded,
//! or when they would be unloaded.

mod common;

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::Fixture;

/// A module has half a minute to describe itself. All else takes seconds, on a busy machine minutes.
const LONGEST: Duration = Duration::from_secs(180);

/// Makes the program use a module of this C code; `None` if there is no compiler.
fn encrypt_with(code: &str) -> Option<Output> {
    let fixture = Fixture::new();
    fs::write(fixture.path("module.c"), code).unwrap();
    fs::write(fixture.path("plain"), "some text").unwrap();
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    // The module must not be unloaded before the end.
    compiler.args(["-shared", "-fPIC", "-Wl,-z,nodelete"]);
    compiler.arg(fixture.path("module.c")).arg("-o").arg(fixture.path("module.so"));
    let Ok(compiled) = compiler.output() else {
        evener_core::lacking!("there is no C compiler for a module");
        return None;
    };
    assert!(compiled.status.success(), "{compiled:?}");
    let engine = format!("pkcs11:?module-path={}", fixture.path("module.so").display());
    let mut command =
        fixture.command(&["encrypt", "-k", "my.key", "--engine", &engine, "plain", "plain.enc"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > LONGEST {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the program did not end");
        }
        sleep(Duration::from_millis(5));
    }
    assert!(!fixture.path("plain.enc").exists());
    Some(child.wait_with_output().unwrap())
}

#[test]
fn a_module_that_exits_makes_no_success() {
    let code = "#include <stdlib.h>
        unsigned long C_GetFunctionList(void **list) { (void)list; exit(0); }";
    let Some(output) = encrypt_with(code) else { return };
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(
        words.contains("ended with status 0 and did not say that the work was done"),
        "{words}"
    );
}

#[test]
fn a_module_that_exits_into_a_crash_makes_no_success() {
    let code = "#include <stdlib.h>
        static void crash(void) { __builtin_trap(); }
        unsigned long C_GetFunctionList(void **list) { (void)list; atexit(crash); exit(0); }";
    let Some(output) = encrypt_with(code) else { return };
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("was ended by SIG"), "{words}");
}

#[test]
fn a_library_that_hangs_at_the_end_holds_nobody_up() {
    let code = "#include <unistd.h>
        unsigned long C_GetFunctionList(void **list) { (void)list; return 5; }
        __attribute__((destructor)) static void hang(void) { for (;;) pause(); }";
    let Some(output) = encrypt_with(code) else { return };
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("the module"), "{words}");
}

#[test]
fn a_library_that_hangs_when_it_is_loaded_is_left_behind() {
    // The dynamic loader holds its lock meanwhile.
    let code = "#include <unistd.h>
        __attribute__((constructor)) static void hang(void) { for (;;) pause(); }
        unsigned long C_GetFunctionList(void **list) { (void)list; return 5; }";
    let Some(output) = encrypt_with(code) else { return };
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("did not answer within 30 s"), "{words}");
}

/// Returns a command's output and its duration, with an NVIDIA driver that never returns from a
/// function; `None` if there is no compiler.
fn run_with_a_gpu_that_hangs(function: &str, command: &[&str]) -> Option<(String, Duration)> {
    let fixture = Fixture::new();
    let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu/src/cuda/tests/fake.c");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.arg(format!("-DHANGS_IN=\"{function}\"")).args(["-shared", "-fPIC", fake, "-o"]);
    let Ok(compiled) = compiler.arg(fixture.path("libcuda.so.1")).output() else {
        evener_core::lacking!("there is no C compiler for a module");
        return None;
    };
    assert!(compiled.status.success(), "{compiled:?}");
    let begun = Instant::now();
    let mut command = fixture.command(command);
    let output = command.env("LD_LIBRARY_PATH", fixture.path(".")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some((String::from_utf8(output.stdout).unwrap(), begun.elapsed()))
}

#[test]
fn a_driver_that_hangs_is_listed_as_absent() {
    let Some((list, took)) = run_with_a_gpu_that_hangs("cuInit", &["engines"]) else { return };
    assert!(list.contains("gpu: absent: it did not answer within 10 s"), "{list}");
    assert!(list.contains("openssl"), "{list}");
    assert!(took < LONGEST, "{took:?}");
}

#[test]
fn a_driver_that_hangs_in_its_test_is_tested_once() {
    let hangs = run_with_a_gpu_that_hangs("cuStreamCreate", &["engines"]);
    let Some((list, took)) = hangs else { return };
    let words: Vec<_> = list.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("it did not open within 10 s and was left behind"), "{list}");
    assert!(words.contains("not tested, because an earlier test hung"), "{list}");
    assert!(took < LONGEST, "{took:?}");
}

#[test]
fn a_driver_that_hangs_is_not_measured() {
    let command = ["speed", "--time", "1", "--rounds", "1", "--bytes", "1024"];
    let hangs = run_with_a_gpu_that_hangs("cuStreamCreate", &command);
    let Some((table, took)) = hangs else { return };
    assert!(table.contains("gpu: engine `gpu` failed: it did not open within 30 s"), "{table}");
    assert!(table.contains("openssl"), "{table}");
    assert!(took < LONGEST, "{took:?}");
}

#[test]
fn a_library_that_closes_what_is_not_its_own_holds_nobody_up() {
    let code = "#include <unistd.h>
        __attribute__((constructor)) static void close_all(void) { close(0); close(1); }
        unsigned long C_GetFunctionList(void **list) { (void)list; return 5; }";
    let Some(output) = encrypt_with(code) else { return };
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
}
