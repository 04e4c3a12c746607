//! Makes every relevant system call fail once, at its first, second, … Nth time.

mod common;

use std::path::PathBuf;
use std::process::Output;

use common::child::{Flags, serve, shim};
use common::is_emulated;
use common::scene::{Scene, fill_small};
use evener_place::Operation;

#[test]
fn child() {
    serve();
}

/// The fault to cause, as `EVENER_FAULT_DO` takes it, and its text in a message.
#[derive(Clone, Copy)]
struct Fault {
    action: &'static str,
    message: &'static str,
}

const EIO: Fault = Fault { action: "5", message: "Input/output error" };
const ENOSPC: Fault = Fault { action: "28", message: "No space left on device" };
const EDQUOT: Fault = Fault { action: "122", message: "quota exceeded" };
const EMFILE: Fault = Fault { action: "24", message: "Too many open files" };
/// The call must be repeated after this, and not fail.
const EINTR: Fault = Fault { action: "4", message: "" };
const SHORT: Fault = Fault { action: "short", message: "" };

/// The calls, with the faults that each may encounter.
const CALLS: &[(&str, &[Fault])] = &[
    ("pread", &[EIO, EINTR, SHORT]),
    ("pwrite", &[ENOSPC, EIO, EDQUOT, EINTR, SHORT]),
    ("openat", &[EMFILE, EIO]),
    ("linkat", &[ENOSPC, EIO]),
    ("renameat", &[EIO, ENOSPC]),
    ("renameat2", &[EIO]),
    ("futimens", &[EIO]),
    ("utimensat", &[EIO]),
    ("fchmod", &[EIO]),
    ("ftruncate", &[EIO]),
    ("fstat", &[EIO]),
    ("fstatat", &[EIO]),
    ("readdir", &[EIO]),
    ("mkdirat", &[ENOSPC]),
    ("symlinkat", &[ENOSPC]),
    ("readlinkat", &[EIO]),
    ("syncfs", &[EIO]),
];

/// Calls of which some do no harm when they fail: they check whether a step that runs anyway can be
/// skipped.
const PERHAPS_HARMLESS: &[&str] = &["fstatat", "readlinkat"];

fn run(scene: &Scene, call: &str, fault: Fault, nth: usize, tmpfile: bool) -> Output {
    let mut command = scene.command();
    command
        .env("LD_PRELOAD", shim())
        .env("EVENER_FAULT_BELOW", scene.source().parent().unwrap())
        .env("EVENER_FAULT_CALL", call)
        .env("EVENER_FAULT_NTH", nth.to_string())
        .env("EVENER_FAULT_DO", fault.action)
        .env("EVENER_FAULT_MARK", scene.mark());
    if !tmpfile {
        command.env("EVENER_FAULT_NO_TMPFILE", "1");
    }
    command.output().unwrap()
}

/// The times tried for calls that are not tried at all times.
const SOME: &[usize] = &[1, 2, 3, 5, 8];

/// Returns whether a call fails at its `nth` time: with its first fault at every time, with its
/// other faults at some times. Under emulation, where a process takes seconds, at some times and
/// only the first time, respectively.
fn is_tried(rank: usize, nth: usize, emulated: bool) -> bool {
    match (rank, emulated) {
        (0, false) => true,
        (0, true) | (_, false) => SOME.contains(&nth),
        (_, true) => nth == 1,
    }
}

/// Makes each call fail at each of its times, until none are left.
fn fail_everything(operation: Operation, keys: &'static str, flags: Flags, tmpfile: bool) {
    let scene = Scene::new(operation, keys, flags, fill_small);
    let emulated = is_emulated();
    let mut reached = 0;
    for &(call, faults) in CALLS {
        for (rank, &fault) in faults.iter().enumerate() {
            for nth in 1.. {
                if !is_tried(rank, nth, emulated) {
                    if nth > 8 {
                        break;
                    }
                    continue;
                }
                scene.reset();
                let output = run(&scene, call, fault, nth, tmpfile);
                let errors = String::from_utf8_lossy(&output.stderr);
                let what = format!(
                    "{operation:?} {keys} {flags:?}, tmpfile {tmpfile}, {call} {nth} {}: {errors}",
                    fault.action
                );
                let status = output.status.code().unwrap_or_else(|| panic!("{what}: died"));
                let fired = scene.mark().exists();
                reached += usize::from(fired);
                assert!((0..=2).contains(&status), "{what}: status {status}");
                scene.assert_whole(&what);
                scene.assert_no_leftovers(&what);
                let spoils = fired && !fault.message.is_empty();
                // Among temporary names, a run looks for those of killed runs, and leaves files that
                // it can't open.
                let may_be_harmless =
                    PERHAPS_HARMLESS.contains(&call) || !tmpfile && call == "openat";
                if !spoils {
                    assert_eq!(status, 0, "{what}");
                } else if status != 0 || !may_be_harmless {
                    assert_ne!(status, 0, "{what}: reported as success");
                    assert!(errors.contains(fault.message), "{what}: the cause is not named");
                    let names = |path: PathBuf| errors.contains(path.to_str().unwrap());
                    assert!(names(scene.source()) || names(scene.target()), "{what}: no name");
                }
                scene.assert_resumes(&what);
                if !fired {
                    break;
                }
            }
        }
    }
    assert!(reached > 40, "only {reached} faults were met");
}

const FRESH: Flags = Flags::FRESH;
const REPLACING: Flags = Flags { overwrite: true, ..FRESH };
const UPDATING: Flags = Flags { update: true, ..FRESH };
const MOVING: Flags = Flags { remove_source: true, ..FRESH };
const DURABLE: Flags = Flags { durable: true, ..FRESH };

#[test]
fn encrypting() {
    fail_everything(Operation::Encrypt, "cobblestone-256", FRESH, true);
}

#[test]
fn updating() {
    fail_everything(Operation::Encrypt, "cobblestone-256", UPDATING, true);
}

#[test]
fn decrypting() {
    fail_everything(Operation::Decrypt, "cobblestone-256", FRESH, true);
}

#[test]
fn without_nameless_files() {
    fail_everything(Operation::Encrypt, "openssl aes-256-cbc", DURABLE, false);
    fail_everything(Operation::Decrypt, "cobblestone-256", REPLACING, false);
}

#[test]
fn replacing() {
    fail_everything(Operation::Encrypt, "cobblestone-256", REPLACING, true);
    fail_everything(Operation::Decrypt, "openssl aes-256-cbc", REPLACING, true);
}

#[test]
fn removing_the_source() {
    fail_everything(Operation::Encrypt, "cobblestone-256", MOVING, true);
    fail_everything(Operation::Decrypt, "cobblestone-256", MOVING, true);
}

/// A store that writes other bytes than it was given, and reports success: in the header, in a chunk
/// or behind the end.
#[test]
fn sources_stay_where_outputs_are_not_as_written() {
    for (operation, keys) in [
        (Operation::Encrypt, "cobblestone-256"),
        (Operation::Encrypt, "tink"),
        (Operation::Encrypt, "openssl aes-128-ctr"),
        (Operation::Decrypt, "cobblestone-256"),
    ] {
        let scene = Scene::new(operation, keys, MOVING, fill_small);
        for action in ["flip", "longer"] {
            // Threads may change the order of writes, so the runs do not meet each write once.
            let (mut made, mut found) = (0, 0);
            for nth in (1..).filter(|&nth| is_tried(0, nth, is_emulated())) {
                scene.reset();
                let output = run(&scene, "pwrite", Fault { action, message: "" }, nth, true);
                if !scene.mark().exists() {
                    break;
                }
                let errors = String::from_utf8_lossy(&output.stderr);
                let what = format!("{operation:?} {keys}, write {nth}, {action}: {errors}");
                scene.assert_whole(&what);
                made += 1;
                // A later write may go over the bytes behind an earlier one.
                if action == "longer" && output.status.success() {
                    continue;
                }
                assert_eq!(output.status.code(), Some(1), "{what}");
                assert!(errors.contains("does not decrypt to the source"), "{what}");
                found += 1;
            }
            assert!(made > 3 && found > 0, "{operation:?} {keys}, {action}: {found} of {made}");
        }
    }
}

#[test]
fn a_source_that_can_not_be_removed_is_counted_once() {
    let scene = Scene::new(Operation::Encrypt, "cobblestone-256", MOVING, fill_small);
    for nth in 1.. {
        scene.reset();
        let mut command = scene.command();
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_BELOW", scene.source());
        command.env("EVENER_FAULT_CALL", "unlinkat").env("EVENER_FAULT_NTH", nth.to_string());
        command.env("EVENER_FAULT_DO", EIO.action).env("EVENER_FAULT_MARK", scene.mark());
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if !scene.mark().exists() {
            assert!(nth > 5, "{errors}");
            break;
        }
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert_eq!(errors.matches("can't remove the source").count(), 1, "{errors}");
        scene.assert_whole(&errors);
    }
}

#[test]
fn where_syncfs_does_not_report_failures_each_file_is_synced() {
    // The kernel then reports an old version to the program.
    if std::process::Command::new("setarch").args(["--uname-2.6", "true"]).status().is_err() {
        evener_core::skipped!("there is no setarch");
        return;
    }
    let scene = Scene::new(Operation::Encrypt, "cobblestone-256", DURABLE, fill_small);
    let child = scene.command();
    let mut command = std::process::Command::new("setarch");
    command.arg("--uname-2.6").arg(child.get_program()).args(child.get_args());
    command.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command
        .env("LD_PRELOAD", shim())
        .env("EVENER_FAULT_BELOW", scene.source().parent().unwrap())
        .env("EVENER_FAULT_CALL", "fdatasync")
        .env("EVENER_FAULT_NTH", "2")
        .env("EVENER_FAULT_DO", EIO.action)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("can't sync its output: Input/output error"), "{errors}");
    scene.assert_whole("after a failed fdatasync");
    scene.assert_no_leftovers("after a failed fdatasync");
}
