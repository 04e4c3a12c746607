//! Makes every call that changes something fail once while a tree is sealed.

mod common;

use std::fs;

use common::bytes;
use common::child::shim;
use common::is_emulated;
use common::sealed::{ACTION, Scene, seal_in_child};

#[test]
fn child() {
    seal_in_child();
}

/// The calls with the errors that each may meet, and their texts.
const CALLS: &[(&str, &[(&str, &str)])] = &[
    ("pwrite", &[("28", "No space left on device"), ("5", "Input/output error"), ("short", "")]),
    ("write", &[("28", "No space left on device"), ("5", "Input/output error")]),
    ("linkat", &[("28", "No space left on device"), ("5", "Input/output error")]),
    ("mkdirat", &[("28", "No space left on device")]),
    ("renameat", &[("5", "Input/output error")]),
    ("openat", &[("5", "Input/output error"), ("24", "Too many open files")]),
    ("open", &[("5", "Input/output error"), ("24", "Too many open files")]),
    ("rename", &[("5", "Input/output error"), ("28", "No space left on device")]),
    ("read", &[("5", "Input/output error")]),
    ("pread", &[("5", "Input/output error"), ("short", "")]),
    ("ftruncate", &[("28", "No space left on device")]),
    ("fdatasync", &[("5", "Input/output error")]),
    ("fsync", &[("5", "Input/output error")]),
    ("syncfs", &[("5", "Input/output error")]),
    ("unlinkat", &[("5", "Input/output error")]),
    ("readdir", &[("5", "Input/output error")]),
];

fn fail_everything(kind: &str, update: bool) {
    let scene = Scene::new();
    for (name, length) in [("x", 10), ("d/long", 100_000), ("d/none", 0)] {
        scene.write(name, &bytes(length));
    }
    scene.settle();
    if update {
        scene.seal(&scene.writer(kind, "a"));
        scene.copy("tree", "tree-before");
        scene.copy("state-a", "state-before");
        scene.write("x", b"changed");
        scene.write("new", b"new");
        scene.settle();
    }
    let before = u64::from(update);
    let mut met = 0;
    for (call, errors) in CALLS {
        for (rank, (action, text)) in errors.iter().enumerate() {
            for nth in 1.. {
                let some = rank > 0 || is_emulated();
                if some && !matches!(nth, 1 | 2 | 3 | 5 | 8) {
                    if nth > 8 {
                        break;
                    }
                    continue;
                }
                for (from, to) in [("tree-before", "tree"), ("state-before", "state-a")] {
                    match update {
                        true => scene.copy(from, to),
                        false => drop(fs::remove_dir_all(scene.path(to))),
                    }
                }
                let mark = scene.path("mark");
                drop(fs::remove_file(&mark));
                let mut command = scene.seal_command(kind, "a");
                let output = command
                    .env("LD_PRELOAD", shim())
                    .env("EVENER_FAULT_BELOW", scene.path(""))
                    .env("EVENER_FAULT_CALL", call)
                    .env("EVENER_FAULT_NTH", nth.to_string())
                    .env("EVENER_FAULT_DO", action)
                    .env("EVENER_FAULT_MARK", &mark)
                    .output()
                    .unwrap();
                let errors = String::from_utf8_lossy(&output.stderr);
                let what = format!("{kind}, update {update}, {call} {nth} {action}: {errors}");
                let status = output.status.code().unwrap_or_else(|| panic!("{what}: died"));
                assert!((0..=2).contains(&status), "{what}: status {status}");
                let fired = mark.exists();
                met += u32::from(fired);
                check(&scene, kind, before, status, &what);
                if status != 0 {
                    assert!(fired && errors.contains(text), "{what}: the cause is not named");
                }
                // Only what did not work is missing, so the next run succeeds.
                let made = scene.try_seal(&scene.writer(kind, "a"));
                let made = made.unwrap_or_else(|error| panic!("{what}: then {error}")).1;
                assert!(made.generation > before, "{what}");
                drop(fs::remove_dir_all(scene.path("out")));
                drop(fs::remove_dir_all(scene.path("state-r")));
                scene.open("out", &scene.reader(kind, "r"));
                scene.assert_same("out");
                if !fired {
                    break;
                }
            }
        }
    }
    println!("{kind}, update {update}: {met} faults met");
    assert!(met > 40, "only {met} faults were met");
}

/// Checks that what is there is whole, and all of it if the run reported success.
#[track_caller]
fn check(scene: &Scene, kind: &str, before: u64, status: i32, what: &str) {
    let there = fs::read_dir(scene.tree().join("tree")).map_or(0, Iterator::count);
    if there == 0 {
        assert!(status != 0 && before == 0, "{what}");
        return;
    }
    drop(fs::remove_dir_all(scene.path("out")));
    drop(fs::remove_dir_all(scene.path("state-r")));
    let reader = scene.reader(kind, "r");
    let number = scene.open("out", &reader).number;
    assert!(number == before || number == before + 1, "{what}");
    let faults = scene.faults(&reader);
    assert!(faults.is_empty(), "{what}: {faults:?}");
    if status == 0 {
        assert_eq!(number, before + 1, "{what}");
        scene.assert_same("out");
    }
}

#[test]
fn sealing() {
    fail_everything("recipient", false);
}

#[test]
fn updating() {
    fail_everything("recipient", true);
}

#[test]
fn updating_with_a_key() {
    fail_everything("key", true);
}

/// A root, or a wrapped key, that can't be read now may be right.
#[test]
fn what_can_not_be_read_is_not_passed_over() {
    let root_2 = "tree/0000000000000000002";
    for (kind, action, unread) in [
        ("key", "", root_2),
        ("recipient", "seal and read", root_2),
        ("recipient", "seal and read", "keys/"),
    ] {
        let scene = Scene::new();
        scene.write("x", b"x");
        scene.settle();
        scene.seal(&scene.writer(kind, "a"));
        scene.write("x", b"other");
        scene.settle();
        scene.seal(&scene.writer(kind, "a"));
        // The machine has its key still, and does not know the newest generation.
        let state = fs::read_dir(scene.path("state-a")).unwrap().next().unwrap().unwrap().path();
        for name in ["pin.json", "entries"] {
            fs::remove_file(state.join(name)).unwrap();
        }
        // A wrapping that nobody opens lies before each that can't be read.
        for wrapping in fs::read_dir(scene.tree().join("keys")).into_iter().flatten() {
            let wrapping = wrapping.unwrap().path();
            fs::copy(&wrapping, wrapping.with_extension("2")).unwrap();
            fs::write(wrapping, "junk").unwrap();
        }
        scene.write("y", b"y");
        scene.settle();
        let mut command = scene.seal_command(kind, "a");
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NAME", unread);
        command.env("EVENER_FAULT_CALL", "pread").env(ACTION, action);
        if unread == "keys/" {
            command.env("EVENER_FAULT_NAME", ".2");
        }
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{kind}, {unread}: {told}");
        assert!(told.contains("Input/output error"), "{kind}, {unread}: {told}");
        assert_eq!(fs::read_dir(scene.tree().join("tree")).unwrap().count(), 2);
        scene.try_to(action, kind, "a").unwrap();
        drop(fs::remove_dir_all(scene.path("out")));
        assert_eq!(scene.open("out", &scene.reader(kind, "r")).number, 3);
        scene.assert_same("out");
    }
}
