//! Tests SIGKILL at any moment.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use common::child::{Flags, serve, shim};
use common::is_emulated;
use common::scene::{Age, Scene};
use evener_place::Operation;

#[test]
fn child() {
    serve();
}

/// Enough files for a kill to fall between them, and one with several segments.
fn fill(root: &Path, age: Age) {
    for directory in 0..4 {
        let directory = root.join(directory.to_string());
        fs::create_dir_all(&directory).unwrap();
        for number in 0..40 {
            age.write(&directory.join(format!("file-{number}")), number * 211);
        }
        fs::hard_link(directory.join("file-7"), directory.join("same-7")).unwrap();
    }
    age.write(&root.join("0/long"), 700_000);
}

/// Runs and kills repeatedly, at moments spread over the duration of a whole run.
fn kill_often(operation: Operation, keys: &'static str, flags: Flags, tmpfile: bool, rounds: u32) {
    let scene = Scene::new(operation, keys, flags, fill);
    let command = || {
        let mut command = scene.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if !tmpfile {
            command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NO_TMPFILE", "1");
        }
        command
    };
    scene.reset();
    let begun = Instant::now();
    assert!(command().status().unwrap().success());
    let whole_run = begun.elapsed();
    scene.assert_whole("not killed");

    // If a run takes seconds, there are fewer rounds.
    let rounds = if is_emulated() { rounds / 4 } else { rounds };
    let mut killed = 0;
    for round in 0..rounds {
        scene.reset();
        let mut child = command().spawn().unwrap();
        thread::sleep(moment(round, whole_run));
        let _ = child.kill();
        killed += u32::from(child.wait().unwrap().signal() == Some(9));
        let what = format!("{operation:?} {keys} {flags:?}, tmpfile {tmpfile}, round {round}");
        scene.assert_whole(&what);
        scene.assert_resumes(&what);
    }
    println!("{operation:?} {flags:?}: {killed} of {rounds} runs were killed");
    assert!(killed > 0, "every run was over before it was killed");
}

/// Moments that fill `whole` evenly, for any number of rounds: multiples of the golden ratio.
fn moment(round: u32, whole: Duration) -> Duration {
    whole.mul_f64((f64::from(round) * 0.618_034).fract())
}

const FRESH: Flags = Flags::FRESH;

#[test]
fn fresh_outputs() {
    kill_often(Operation::Encrypt, "cobblestone-256", FRESH, true, 12);
    kill_often(Operation::Decrypt, "cobblestone-256", FRESH, true, 12);
    kill_often(Operation::Encrypt, "openssl aes-256-cbc", FRESH, false, 8);
    kill_often(Operation::Decrypt, "cobblestone-128", FRESH, false, 8);
}

#[test]
fn replaced_outputs() {
    let replacing = Flags { overwrite: true, ..FRESH };
    kill_often(Operation::Encrypt, "cobblestone-256", replacing, true, 10);
    kill_often(Operation::Decrypt, "cobblestone-256", replacing, true, 10);
    kill_often(Operation::Encrypt, "cobblestone-128", replacing, false, 8);
    kill_often(Operation::Decrypt, "cobblestone-256", replacing, false, 8);
}

#[test]
fn updated_outputs() {
    let updating = Flags { update: true, ..FRESH };
    kill_often(Operation::Encrypt, "cobblestone-256", updating, true, 10);
    kill_often(Operation::Decrypt, "cobblestone-256", updating, true, 8);
    kill_often(Operation::Encrypt, "cobblestone-128", updating, false, 8);
}

#[test]
fn removed_sources() {
    let moving = Flags { remove_source: true, ..FRESH };
    kill_often(Operation::Encrypt, "cobblestone-256", moving, true, 12);
    kill_often(Operation::Decrypt, "cobblestone-256", moving, true, 12);
    kill_often(Operation::Encrypt, "openssl aes-256-cbc", moving, false, 8);
    kill_often(Operation::Decrypt, "cobblestone-256", moving, false, 8);
}

#[test]
fn durable_outputs() {
    let durable = Flags { durable: true, ..FRESH };
    kill_often(Operation::Encrypt, "cobblestone-256", durable, true, 8);
    kill_often(Operation::Decrypt, "cobblestone-256", durable, false, 8);
}

/// The outputs' directories belong to nobody else until all is done.
#[test]
fn outputs_with_owners() {
    let owned = Flags { owner: true, ..FRESH };
    kill_often(Operation::Encrypt, "cobblestone-256", owned, true, 8);
    kill_often(Operation::Decrypt, "cobblestone-256", owned, true, 8);
}

/// Each has its own header, and a file key that no other run knows.
#[test]
fn files_of_age() {
    let replacing = Flags { overwrite: true, ..FRESH };
    let updating = Flags { update: true, ..FRESH };
    let moving = Flags { remove_source: true, ..FRESH };
    kill_often(Operation::Encrypt, "age", FRESH, true, 6);
    kill_often(Operation::Decrypt, "age", FRESH, false, 6);
    kill_often(Operation::Encrypt, "age", replacing, false, 4);
    kill_often(Operation::Decrypt, "age", updating, true, 4);
    kill_often(Operation::Encrypt, "age", moving, true, 6);
    kill_often(Operation::Decrypt, "age", moving, false, 4);
}
