//! Plain trees and files that get a new key, each file in its place.

mod common;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use common::child::shim;
use common::{
    Entry, Options, assert_same_tree, bytes, cobblestone, every_key_ring, home, is_emulated,
    options, process, snapshot, tink,
};
use evener_core::Key;
use evener_format::{CobblestoneSuite, FormatError, Recipe};
use evener_place::{
    Control, Failure, FileError, FileOutcome, Heads, KeyRing, Operation, OperationError,
    RekeyOptions, Report, rekey, replace_head,
};

/// Another key of the usual format.
fn new() -> KeyRing {
    let key = Key::new(&[8; 32]).unwrap();
    KeyRing::new(Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"").unwrap())
}

fn change(path: &Path, old: &KeyRing, new: &KeyRing, options: &Options) -> Report {
    try_change(path, old, new, options, &RekeyOptions::default()).unwrap()
}

fn try_change(
    path: &Path,
    old: &KeyRing,
    new: &KeyRing,
    options: &Options,
    rekeying: &RekeyOptions,
) -> Result<Report, Failure> {
    rekey(path, old, new, &options.run, rekeying).or_else(OperationError::into_report)
}

/// Makes `plain` and `sealed`.
fn fill(home: &Path, keys: &KeyRing) -> (PathBuf, PathBuf) {
    let (plain, sealed) = (home.join("plain"), home.join("sealed"));
    fs::create_dir_all(plain.join("deep/er")).unwrap();
    for (name, length) in [("empty", 0), ("one", 1), ("deep/chunk", 65_536), ("long", 700_000)] {
        fs::write(plain.join(name), bytes(length)).unwrap();
    }
    fs::write(plain.join(OsString::from_vec(b"deep/er/\xff\n".to_vec())), b"odd").unwrap();
    fs::set_permissions(plain.join("one"), fs::Permissions::from_mode(0o604)).unwrap();
    symlink("long", plain.join("link")).unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for name in ["one", "long", "deep/er", "deep"] {
        File::open(plain.join(name)).unwrap().set_modified(then).unwrap();
    }
    let report = process(Operation::Encrypt, keys, &plain, Some(&sealed), &options()).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    (plain, sealed)
}

fn assert_opens(sealed: &Path, keys: &KeyRing, plain: &Path) {
    let opened = sealed.with_file_name("opened");
    drop(fs::remove_dir_all(&opened));
    let report = process(Operation::Decrypt, keys, sealed, Some(&opened), &options()).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    assert_same_tree(plain, &opened);
}

/// The entries without their content.
fn shape(tree: &Path) -> BTreeMap<PathBuf, (char, u32, (i64, i64))> {
    let shape = |(path, entry): (PathBuf, Entry)| (path, (entry.kind, entry.mode, entry.modified));
    snapshot(tree).into_iter().map(shape).collect()
}

#[test]
fn a_tree_of_each_format_gets_a_new_key() {
    for (name, old) in every_key_ring() {
        let home = home();
        let (plain, sealed) = fill(home.path(), &old);
        let before = snapshot(&sealed);
        if name.starts_with("openssl") {
            let refused = try_change(&sealed, &old, &new(), &options(), &RekeyOptions::default());
            assert!(refused.unwrap_err().to_string().contains("nothing authenticates"), "{name}");
            assert!(snapshot(&sealed) == before);
            continue;
        }
        let shape_before = shape(&sealed);
        // Segments shorter than the longest file.
        let short = options().with(|it| it.run.memory = 4 * (70 << 10));
        let report = change(&sealed, &old, &new(), &short);
        assert!(report.is_success(), "{name}: {:?}", report.failures);
        assert_eq!((report.files, report.files_skipped), (5, 0), "{name}");
        assert_eq!(shape(&sealed), shape_before, "{name}");
        assert_opens(&sealed, &new(), &plain);
        let again = change(&sealed, &old, &new(), &options());
        assert_eq!((again.files, again.files_skipped), (0, 5), "{name}");
        // And to a format whose header names no key.
        let tink = KeyRing::new(tink(3, 4096));
        let report = change(&sealed, &new(), &tink, &options());
        assert_eq!((report.files, report.files_skipped), (5, 0), "{name}");
        let again = change(&sealed, &new(), &tink, &options());
        assert_eq!((again.files, again.files_skipped), (0, 5), "{name}");
        assert_opens(&sealed, &tink, &plain);
    }
}

#[test]
fn hard_links_lead_to_one_file_again() {
    let home = home();
    let (_, sealed) = fill(home.path(), &cobblestone());
    // The first name is none of an encrypted file, and stays.
    fs::hard_link(sealed.join("long.enc"), sealed.join("a")).unwrap();
    fs::hard_link(sealed.join("long.enc"), sealed.join("deep/z.enc")).unwrap();
    fs::hard_link(sealed.join("long.enc"), home.path().join("outside.enc")).unwrap();
    let outside = fs::read(home.path().join("outside.enc")).unwrap();
    let report = change(&sealed, &cobblestone(), &new(), &options());
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!((report.files, report.hard_links), (5, 2));
    let number = |name: &str| fs::metadata(sealed.join(name)).unwrap().ino();
    assert!(number("long.enc") == number("deep/z.enc") && number("long.enc") == number("a"));
    assert_eq!(fs::metadata(sealed.join("a")).unwrap().nlink(), 3);
    assert!(fs::read(home.path().join("outside.enc")).unwrap() == outside);
}

#[test]
fn one_file_gets_a_new_key_and_its_neighbours_keep_theirs() {
    let home = home();
    let (plain, sealed) = fill(home.path(), &cobblestone());
    let link = home.path().join("link.enc");
    symlink(sealed.join("long.enc"), &link).unwrap();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let listening = options().with(|it| {
        let told = told.clone();
        it.run.listener = Some(Arc::new(move |path, outcome| {
            told.lock().unwrap().push((path.to_owned(), outcome));
        }));
    });
    let report = change(&link, &cobblestone(), &new(), &listening);
    assert_eq!((report.files, &report.failures[..]), (1, &[][..]));
    assert_eq!(*told.lock().unwrap(), [(link.clone(), FileOutcome::Done)]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let opened = process(
        Operation::Decrypt,
        &new(),
        &sealed.join("long.enc"),
        Some(&home.path().join("long")),
        &options(),
    );
    assert!(opened.unwrap().is_success());
    assert!(fs::read(home.path().join("long")).unwrap() == fs::read(plain.join("long")).unwrap());
    let rest = process(Operation::Verify, &cobblestone(), &sealed, None, &options()).unwrap();
    assert_eq!((rest.files, rest.failures.len()), (4, 1));
    for nothing in [home.path().join("nothing"), PathBuf::from("/dev/null")] {
        let refused =
            try_change(&nothing, &cobblestone(), &new(), &options(), &RekeyOptions::default());
        assert_eq!(refused.unwrap_err().path, nothing);
    }
}

#[test]
fn the_head_of_a_file_is_exchanged() {
    let home = home();
    let (_, sealed) = fill(home.path(), &cobblestone());
    let path = sealed.join("long.enc");
    let body = fs::read(&path).unwrap();
    fs::write(&path, [b"old head", &body[..]].concat()).unwrap();
    let control = Control::default();
    let wrong = replace_head(&path, b"old hear", b"x", &control).unwrap_err();
    assert_eq!(wrong.error, FileError::Changed);
    assert_eq!(replace_head(&path, b"old head", b"newer head", &control), Ok(body.len() as u64));
    assert!(fs::read(&path).unwrap() == [b"newer head", &body[..]].concat());
    let copied = body.len() as u64;
    assert_eq!((control.total(), control.progress().done_bytes), (Some((1, copied)), copied));
    let heads = Heads { old: 10, new: b"last".to_vec() };
    let rekeying = RekeyOptions { heads, ..RekeyOptions::default() };
    let report = try_change(&path, &cobblestone(), &new(), &options(), &rekeying).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    let whole = fs::read(&path).unwrap();
    let rest = whole.strip_prefix(b"last").unwrap();
    fs::write(&path, rest).unwrap();
    let report = process(Operation::Verify, &new(), &path, None, &options()).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    control.stop();
    assert!(replace_head(&path, b"", b"x", &control).is_err());
    assert!(fs::read(&path).unwrap() == rest);
}

#[test]
fn what_fails_stays_and_all_else_is_done() {
    let home = home();
    let (_, sealed) = fill(home.path(), &cobblestone());
    fs::write(sealed.join("other.enc"), bytes(1000)).unwrap();
    fs::write(sealed.join("notes"), "plain").unwrap();
    let long = sealed.join("long.enc");
    let mut damaged = fs::read(&long).unwrap();
    damaged[400_000] ^= 1;
    fs::write(&long, &damaged).unwrap();
    let planned = RekeyOptions { dry_run: true, ..RekeyOptions::default() };
    let planned = try_change(&sealed, &cobblestone(), &new(), &options(), &planned).unwrap();
    assert_eq!((planned.files, planned.left_out, planned.failures.len()), (5, 1, 1));
    let report = change(&sealed, &cobblestone(), &new(), &options());
    assert_eq!((report.files, report.left_out), (4, 1));
    let failed: Vec<_> = report.failures.iter().map(|it| (&*it.path, &it.error)).collect();
    assert!(
        matches!(
            &failed[..],
            [
                (one, FileError::Rejected { chunk: 24, .. }),
                (other, FileError::Format(FormatError::WrongKey)),
            ] if *one == long && *other == sealed.join("other.enc")
        ),
        "{failed:?}"
    );
    assert_eq!(report.notices[0].path, sealed.join("notes"));
    assert!(fs::read(&long).unwrap() == damaged);
    assert!(fs::read(sealed.join("other.enc")).unwrap() == bytes(1000));
}

#[test]
fn a_file_that_changes_meanwhile_is_not_lost() {
    let home = home();
    let (_, sealed) = fill(home.path(), &cobblestone());
    let long = sealed.join("long.enc");
    let before = fs::read(&long).unwrap();
    // Somebody appends to the file each time that another one is done.
    let (times, at) = (Arc::new(AtomicU32::new(0)), long.clone());
    let listening = options().with(|it| {
        let times = times.clone();
        it.run.listener = Some(Arc::new(move |_, _| {
            times.fetch_add(1, Ordering::Relaxed);
            let mut file = File::options().append(true).open(&at).unwrap();
            file.write_all(b"x").unwrap();
        }));
    });
    let report = change(&sealed, &cobblestone(), &new(), &listening);
    let now = fs::read(&long).unwrap();
    // It was done before the first change, or not at all.
    match report.failures.is_empty() {
        true => assert!(now.ends_with(b"x")),
        false => assert!(now.starts_with(&before)),
    }
}

/// The work of a child: [`change`] for the tree at this path.
const TREE: &str = "EVENER_TEST_TREE";

#[test]
fn child() {
    let Some(tree) = std::env::var_os(TREE) else { return };
    let short = options().with(|it| it.run.memory = 4 * (70 << 10));
    let done =
        try_change(Path::new(&tree), &cobblestone(), &new(), &short, &RekeyOptions::default());
    std::process::exit(match done {
        Ok(report) => {
            report.failures.iter().for_each(|failure| eprintln!("{failure}"));
            i32::from(!report.is_success())
        }
        Err(failure) => {
            eprintln!("{failure}");
            2
        }
    });
}

/// Each call that it makes, with a fault that it may encounter.
const CALLS: &[(&str, &str)] = &[
    ("pread", "5"),
    ("pread", "4"),
    ("pread", "short"),
    ("pwrite", "28"),
    ("pwrite", "short"),
    ("openat", "24"),
    ("linkat", "28"),
    ("renameat", "5"),
    ("renameat2", "5"),
    ("futimens", "5"),
    ("fchmod", "5"),
    ("fchown", "1"),
    ("fsync", "5"),
    ("fstat", "5"),
    ("fstatat", "5"),
    ("readdir", "5"),
    ("syncfs", "5"),
    ("unlinkat", "5"),
];

fn run(tree: &Path, mark: &Path, (call, action): (&str, &str), nth: u32, tmpfile: bool) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture", "--quiet"])
        .env("RUST_BACKTRACE", "0")
        .env(TREE, tree)
        .env("LD_PRELOAD", shim())
        .env("EVENER_FAULT_BELOW", tree)
        .env("EVENER_FAULT_CALL", call)
        .env("EVENER_FAULT_NTH", nth.to_string())
        .env("EVENER_FAULT_DO", action)
        .env("EVENER_FAULT_MARK", mark);
    if !tmpfile {
        command.env("EVENER_FAULT_NO_TMPFILE", "1");
    }
    command.output().unwrap()
}

fn fail_everything(tmpfile: bool) {
    let home = home();
    let (plain, sealed) = fill(home.path(), &cobblestone());
    let (tree, mark) = (home.path().join("tree"), home.path().join("mark"));
    let both = || cobblestone().joined_by(new());
    let mut reached = 0;
    for &fault in CALLS {
        for nth in 1..200 {
            if nth > 4 && is_emulated() {
                break;
            }
            drop(fs::remove_dir_all(&tree));
            drop(fs::remove_file(&mark));
            let copy = Command::new("cp").arg("-a").args([&sealed, &tree]).status().unwrap();
            assert!(copy.success());
            let output = run(&tree, &mark, fault, nth, tmpfile);
            let errors = String::from_utf8_lossy(&output.stderr);
            let what = format!("tmpfile {tmpfile}, {fault:?} {nth}: {errors}");
            assert!(matches!(output.status.code(), Some(0..=2)), "{what}");
            let fired = mark.exists();
            assert!(fired || output.status.success(), "{what}");
            // Everything is there, under one key or the other.
            let opened = process(Operation::Verify, &both(), &tree, None, &options()).unwrap();
            assert!(opened.is_success() && opened.files == 5, "{what}: {:?}", opened.failures);
            let again = change(&tree, &cobblestone(), &new(), &options());
            assert!(again.is_success(), "{what}: {:?}", again.failures);
            if output.status.success() {
                assert_eq!(again.files, 0, "{what}");
            }
            let opened = process(Operation::Verify, &new(), &tree, None, &options()).unwrap();
            assert!(opened.is_success() && opened.files == 5, "{what}: {:?}", opened.failures);
            assert_eq!(shape(&tree).len(), shape(&sealed).len(), "{what}");
            if !fired {
                break;
            }
            reached += 1;
        }
    }
    assert!(reached > 40 || is_emulated(), "only {reached} faults were met");
    assert_opens(&tree, &new(), &plain);
}

#[test]
fn each_call_fails_once() {
    fail_everything(true);
}

#[test]
fn each_call_fails_once_without_nameless_files() {
    fail_everything(false);
}
