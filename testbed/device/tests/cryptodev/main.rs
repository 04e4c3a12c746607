//! The engine `cryptodev` against working and failing devices.
//!
//! Each test starts the device with its faults and runs itself again while the device exists. That
//! needs `/dev/cuse`, which the testbed has, and the right to open it.

mod conformance;
mod failures;
mod runs;

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::{env, iter};

use evener_core::{
    Cipher, Direction, Engine, EngineError, IgnorePoison, Iv, Job, Key, Outcome, Session,
    SessionRequest,
};

fn open(engine: &dyn Engine) -> Result<Box<dyn Session>, EngineError> {
    let key = Key::new(&[7; 16]).unwrap();
    engine.open(&SessionRequest {
        cipher: Cipher::Aes128Cbc,
        direction: Direction::Encrypt,
        key: Some(&key),
    })
}

/// Processes a batch. Every completed job must be right, and the rest must be unchanged; the result
/// tells which jobs are complete.
fn run(session: &mut dyn Session) -> (Result<(), EngineError>, Vec<bool>) {
    let iv = Iv::new(&[1; 16]).unwrap();
    let input = [9; 64];
    let mut expected = [0; 64];
    let reference = evener_engines::find("openssl").unwrap();
    let mut batch = [Job::new(iv, &input, &mut expected)];
    open(&*reference).unwrap().process(&mut batch).unwrap();
    let mut outputs = vec![[0; 64]; JOBS];
    let mut batch: Vec<_> = outputs.iter_mut().map(|output| Job::new(iv, &input, output)).collect();
    let result = session.process(&mut batch);
    let mut done = Vec::new();
    for job in &batch {
        done.push(job.outcome != Outcome::Pending);
        let expected = if job.outcome == Outcome::Pending { [0; 64] } else { expected };
        assert_eq!(*job.output, expected);
    }
    (result, done)
}

/// Runs the named test again, under a device with these options, where it calls `check`.
fn with_device(name: &str, options: &[&str], check: fn()) {
    with_each_device(name, &[options.join(" ")], check);
}

/// The same under each of several devices, one after another.
fn with_each_device(name: &str, devices: &[String], check: fn()) {
    if env::var_os(INSIDE).is_some() {
        return check();
    }
    if !Path::new("/dev/cuse").exists() {
        return println!("skipped: there is no /dev/cuse here; the testbed has it");
    }
    // There is one /dev/crypto, and the tests' threads share it.
    let _turn = TURN.lock().ignore_poison();
    let this_program = env::current_exe().unwrap();
    for options in devices {
        let status = Command::new(env!("CARGO_BIN_EXE_crypto-device"))
            .args(options.split_whitespace().chain(iter::once("--")))
            .arg(&this_program)
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, name)
            .status()
            .unwrap();
        assert!(status.success(), "{options}: {status}");
    }
}

static TURN: Mutex<()> = Mutex::new(());

const INSIDE: &str = "EVENER_TEST_INSIDE";

/// Number of operations for probing: one for each key length of GCM.
const TRIALS: usize = 3;

/// Number of sessions for probing: one for each cipher of the device, and one for the trial of
/// asynchronous requests.
const PROBED_SESSIONS: usize = 18;

const JOBS: usize = 4;
