//! Tests leftovers of runs in their outputs' directories, and obstacles there.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use common::child::{Errand, Flags, serve, shim};
use common::{Options, bytes, cobblestone, home, options, process};
use evener_place::{Existing, FileError, Operation, Report};

#[test]
fn child() {
    serve();
}

fn encrypt(from: &Path, to: &Path, options: &Options) -> Report {
    process(Operation::Encrypt, &cobblestone(), from, Some(to), options).unwrap()
}

#[test]
fn what_only_looks_like_a_temporary_file_is_in_nobodys_way() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::create_dir(&sealed).unwrap();
    fs::write(plain.join("file"), bytes(100)).unwrap();
    let planted = sealed.join(".evener-0123456789abcdef.part");
    fs::create_dir(&planted).unwrap();
    let fifo = sealed.join(".evener-00000000000000ff.part");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let report =
        encrypt(&plain, &sealed, &options().with(|it| it.tree.existing = Existing::resume()));
    assert!(report.is_success() && report.files == 1, "{:?}", report.failures);
    assert!(planted.is_dir() && fifo.exists());
}

/// A single file's directory is searched like a tree's directories.
#[test]
fn what_a_killed_run_has_left_beside_a_file_is_removed() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::write(&plain, bytes(100)).unwrap();
    fs::create_dir(&sealed).unwrap();
    let left = sealed.join(".evener-0123456789abcdef.part");
    fs::write(&left, b"half").unwrap();
    let target = sealed.join("file");
    assert!(encrypt(&plain, &target, &options()).is_success() && left.exists());
    let overwriting = options().with(|it| it.tree.existing = Existing::Overwrite);
    assert!(encrypt(&plain, &target, &overwriting).is_success() && !left.exists());
}

/// Where every killed run leaves its unfinished files, each run looks for those.
#[test]
fn where_outputs_have_temporary_names_a_first_run_removes_those_left() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::write(&plain, bytes(100)).unwrap();
    fs::create_dir(&sealed).unwrap();
    let left = sealed.join(".evener-0123456789abcdef.part");
    fs::write(&left, b"half").unwrap();
    let target = sealed.join("file");
    let errand = Errand {
        operation: Operation::Encrypt,
        keys: "cobblestone-256",
        source: &plain,
        target: &target,
        flags: Flags::default(),
    };
    let mut command = errand.command();
    command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NO_TMPFILE", "1");
    assert_eq!(command.output().unwrap().status.code(), Some(0));
    assert!(!left.exists() && target.exists());
}

/// As in a directory that only allows adding names (`chattr +a`).
#[test]
fn a_temporary_file_that_stays_is_told() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::write(&plain, bytes(100)).unwrap();
    fs::create_dir(&sealed).unwrap();
    let target = sealed.join("file");
    let errand = Errand {
        operation: Operation::Encrypt,
        keys: "cobblestone-256",
        source: &plain,
        target: &target,
        flags: Flags::default(),
    };
    let mut command = errand.command();
    command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NTH", "0").env("EVENER_FAULT_DO", "1");
    command.env("EVENER_FAULT_CALL", "unlinkat").env("EVENER_FAULT_BELOW", &sealed);
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("lets no name be removed"), "{told}");
    assert_eq!(fs::read_dir(&sealed).unwrap().count(), 2);
}

/// Before its lock is taken, or while another run holds it.
#[test]
fn what_another_run_takes_before_it_has_its_name_is_made_again() {
    let overwriting = Flags { overwrite: true, ..Flags::default() };
    let flock = [("EVENER_FAULT_CALL", "flock"), ("EVENER_FAULT_NTH", "1")];
    let busy = [flock[0], flock[1], ("EVENER_FAULT_DO", "11")];
    for faults in [&[("EVENER_FAULT_TAKE", "3")][..], &busy] {
        let home = home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        fs::write(plain.join("file"), bytes(100)).unwrap();
        fs::hard_link(plain.join("file"), plain.join("further")).unwrap();
        symlink("file", plain.join("link")).unwrap();
        fs::create_dir(&sealed).unwrap();
        // The entries that the links replace.
        fs::write(sealed.join("file.enc"), "old").unwrap();
        fs::write(sealed.join("further.enc"), "old").unwrap();
        symlink("elsewhere", sealed.join("link")).unwrap();
        let errand = Errand {
            operation: Operation::Encrypt,
            keys: "cobblestone-256",
            source: &plain,
            target: &sealed,
            flags: overwriting,
        };
        let mut command = errand.command();
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NO_TMPFILE", "1");
        command.envs(faults.iter().copied()).env("EVENER_FAULT_BELOW", &sealed);
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*told), (Some(0), ""), "{faults:?}");
        assert_eq!(fs::read_link(sealed.join("link")).unwrap(), Path::new("file"));
        let inode = |name: &str| fs::metadata(sealed.join(name)).unwrap().ino();
        assert_eq!(inode("file.enc"), inode("further.enc"));
        assert_eq!(fs::read_dir(&sealed).unwrap().count(), 3);
    }
}

/// The refusal comes at once, not after encrypting everything.
#[test]
fn what_no_file_replaces_is_refused_before_the_work() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file"), bytes(3_000_000)).unwrap();
    fs::create_dir_all(sealed.join("file.enc")).unwrap();
    let report =
        encrypt(&plain, &sealed, &options().with(|it| it.tree.existing = Existing::Overwrite));
    assert!(matches!(report.failures[0].error, FileError::Special { .. }), "{:?}", report.failures);
    assert!(report.engines.values().all(|engine| engine.jobs == 0), "{:?}", report.engines);
}
