//! Tests updating and deleting outputs.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use common::{
    Options, assert_same_tree, bytes, cobblestone, every_key_ring, home, options, process, tink,
};
use evener_core::Key;
use evener_format::{CobblestoneSuite, Recipe};
use evener_place::{
    Delete, Existing, FileError, KeyRing, Operation, Refusal, Report, Selection, Update,
};

fn run(operation: Operation, keys: &KeyRing, from: &Path, to: &Path, options: &Options) -> Report {
    process(operation, keys, from, Some(to), options).unwrap()
}

fn updating() -> Options {
    updating_with(Update::default())
}

fn updating_with(update: Update) -> Options {
    options().with(|it| it.tree.existing = Existing::Update(update))
}

fn deleting_with(agree: impl Fn(&[PathBuf]) -> bool + Send + Sync + 'static) -> Options {
    let delete = Some(Delete { agree: Arc::new(agree), unmounted: false });
    updating_with(Update { delete, ..Update::default() })
}

/// Waits until the filesystem's clock has advanced, so that later changes have newer times than
/// earlier ones.
fn let_time_pass(home: &Path) {
    let changed = |name: &str| {
        fs::write(home.join(name), "").unwrap();
        let status = fs::metadata(home.join(name)).unwrap();
        (status.ctime(), status.ctime_nsec())
    };
    let before = changed("before");
    while changed("after") <= before {
        sleep(Duration::from_millis(1));
    }
    fs::remove_file(home.join("before")).unwrap();
    fs::remove_file(home.join("after")).unwrap();
}

fn set_modified(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// The numbers of files done, updated, unchanged and deleted.
fn counts(report: &Report) -> [u64; 4] {
    [report.files, report.files_updated, report.files_unchanged, report.files_deleted]
}

#[test]
fn what_changed_is_replaced_and_the_rest_is_left() {
    for (name, keys) in every_key_ring() {
        let home = home();
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        fs::create_dir_all(plain.join("sub")).unwrap();
        for file in ["same", "longer", "other", "set-back", "closed", "sub/same", "one"] {
            fs::write(plain.join(file), bytes(5000)).unwrap();
        }
        fs::write(plain.join("large"), bytes(300_000)).unwrap();
        fs::hard_link(plain.join("one"), plain.join("two")).unwrap();
        symlink("same", plain.join("link")).unwrap();
        let_time_pass(home.path());
        let report = run(Operation::Encrypt, &keys, &plain, &sealed, &updating());
        assert!(report.is_success(), "{name}: {:?}", report.failures);
        assert_eq!(counts(&report), [8, 0, 0, 0], "{name}");
        let number = |file: &str| fs::metadata(sealed.join(file)).unwrap().ino();
        let same = [number("same.enc"), number("sub/same.enc"), number("one.enc")];
        let before = common::snapshot(&sealed);
        let report = run(Operation::Encrypt, &keys, &plain, &sealed, &updating());
        assert!(report.is_success(), "{name}: {:?}", report.failures);
        assert_eq!(counts(&report), [0, 0, 8, 0], "{name}");
        assert!(common::snapshot(&sealed) == before, "{name}");

        fs::write(plain.join("longer"), bytes(6000)).unwrap();
        fs::write(plain.join("other"), vec![1; 5000]).unwrap();
        let time = fs::metadata(plain.join("set-back")).unwrap().modified().unwrap();
        fs::write(plain.join("set-back"), vec![2; 5000]).unwrap();
        set_modified(&plain.join("set-back"), time);
        fs::set_permissions(plain.join("closed"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(plain.join("large"), vec![3; 300_000]).unwrap();
        fs::write(plain.join("sub/new"), bytes(10)).unwrap();
        fs::remove_file(plain.join("link")).unwrap();
        symlink("other", plain.join("link")).unwrap();
        fs::set_permissions(plain.join("sub"), fs::Permissions::from_mode(0o700)).unwrap();
        let before = common::snapshot(&sealed);
        let planning = updating().with(|it| it.tree.dry_run = true);
        let planned = run(Operation::Encrypt, &keys, &plain, &sealed, &planning);
        assert!(common::snapshot(&sealed) == before, "{name}");
        let report = run(Operation::Encrypt, &keys, &plain, &sealed, &updating());
        assert!(report.is_success(), "{name}: {:?}", report.failures);
        assert_eq!(counts(&report), [6, 5, 3, 0], "{name}");
        assert_eq!(counts(&planned), counts(&report), "{name}");
        assert_eq!([number("same.enc"), number("sub/same.enc"), number("one.enc")], same);
        assert_eq!(number("one.enc"), number("two.enc"), "{name}");
        assert!(run(Operation::Decrypt, &keys, &sealed, &back, &options()).is_success(), "{name}");
        assert_same_tree(&plain, &back);
    }
}

#[test]
fn a_mode_that_is_not_the_sources_is_carried_over_alone() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file"), bytes(5000)).unwrap();
    fs::set_permissions(plain.join("file"), fs::Permissions::from_mode(0o640)).unwrap();
    let_time_pass(home.path());
    run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &updating());
    let output = sealed.join("file.enc");
    let before = (fs::metadata(&output).unwrap().ino(), fs::read(&output).unwrap());
    fs::set_permissions(&output, fs::Permissions::from_mode(0o600)).unwrap();
    for (dry_run, mode) in [(true, 0o600), (false, 0o640)] {
        let options = updating().with(|it| it.tree.dry_run = dry_run);
        let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &options);
        assert_eq!(counts(&report), [0, 1, 0, 0]);
        assert_eq!(fs::metadata(&output).unwrap().mode() & 0o777, mode);
    }
    assert_eq!((fs::metadata(&output).unwrap().ino(), fs::read(&output).unwrap()), before);
    let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &updating());
    assert_eq!(counts(&report), [0, 0, 1, 0]);
}

#[test]
fn files_that_become_links_of_each_other_stay_what_they_are() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    for name in ["a", "b", "c", "d"] {
        fs::write(plain.join(name), name).unwrap();
    }
    fs::remove_file(plain.join("d")).unwrap();
    fs::hard_link(plain.join("c"), plain.join("d")).unwrap();
    let_time_pass(home.path());
    run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &updating());
    // Two files become one, and one becomes two.
    fs::remove_file(plain.join("b")).unwrap();
    fs::hard_link(plain.join("a"), plain.join("b")).unwrap();
    fs::remove_file(plain.join("d")).unwrap();
    fs::write(plain.join("d"), "another").unwrap();
    let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &updating());
    assert!(report.is_success(), "{:?}", report.failures);
    assert!(run(Operation::Decrypt, &cobblestone(), &sealed, &back, &options()).is_success());
    assert_same_tree(&plain, &back);
    let number = |name: &str| fs::metadata(back.join(name)).unwrap().ino();
    assert_eq!(number("a"), number("b"));
    assert_ne!(number("c"), number("d"));
}

/// Replacing one name of an output changes the status of the file that keeps the other names.
#[test]
fn a_changed_file_is_found_after_another_name_of_its_output_was_replaced() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    let keys = cobblestone();
    fs::create_dir_all(plain.join("sub")).unwrap();
    fs::write(plain.join("a"), "A").unwrap();
    for name in ["b", "sub/c", "sub/d"] {
        fs::hard_link(plain.join("a"), plain.join(name)).unwrap();
    }
    let_time_pass(home.path());
    assert!(run(Operation::Encrypt, &keys, &plain, &sealed, &updating()).is_success());
    assert!(run(Operation::Decrypt, &keys, &sealed, &back, &updating()).is_success());
    let_time_pass(home.path());
    let time = fs::metadata(plain.join("a")).unwrap().modified().unwrap();
    fs::remove_file(plain.join("a")).unwrap();
    fs::write(plain.join("a"), "another").unwrap();
    fs::write(plain.join("b"), "B").unwrap();
    set_modified(&plain.join("b"), time);
    // Only one name at first, so that the other names' outputs have a later status than their
    // source.
    let_time_pass(home.path());
    let selection = Selection::new(&[], &["b", "sub"]).unwrap();
    let first = updating().with(|it| it.tree.selection = selection);
    assert!(run(Operation::Encrypt, &keys, &plain, &sealed, &first).is_success());
    for (operation, from, to) in
        [(Operation::Encrypt, &plain, &sealed), (Operation::Decrypt, &sealed, &back)]
    {
        let_time_pass(home.path());
        let report = run(operation, &keys, from, to, &updating());
        assert!(report.is_success(), "{:?}", report.failures);
        let report = run(operation, &keys, from, to, &updating());
        assert_eq!(counts(&report), [0, 0, 2, 0], "{operation:?}");
    }
    assert_same_tree(&plain, &back);
}

/// `cp -al` makes snapshots so.
#[test]
fn a_new_link_to_a_source_is_no_change_where_times_of_change_are_ignored() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    let keys = cobblestone();
    fs::create_dir(&plain).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(plain.join(name), bytes(100)).unwrap();
    }
    let_time_pass(home.path());
    assert!(run(Operation::Encrypt, &keys, &plain, &sealed, &updating()).is_success());
    let_time_pass(home.path());
    fs::hard_link(plain.join("a"), home.path().join("snapshot")).unwrap();
    fs::write(plain.join("b"), bytes(101)).unwrap();
    let_time_pass(home.path());
    let ignoring = updating_with(Update { ignore_ctime: true, ..Update::default() });
    let report = run(Operation::Encrypt, &keys, &plain, &sealed, &ignoring);
    assert!(report.is_success() && report.notices.is_empty(), "{report:?}");
    assert_eq!(counts(&report), [1, 1, 2, 0]);
    let report = run(Operation::Encrypt, &keys, &plain, &sealed, &updating());
    assert_eq!(counts(&report), [1, 1, 2, 0]);
}

#[test]
fn what_evener_did_not_make_is_not_replaced() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(&plain).unwrap();
    fs::create_dir_all(&sealed).unwrap();
    fs::write(plain.join("file"), bytes(100)).unwrap();
    let other = |byte| {
        let key = Key::new(&[byte; 32]).unwrap();
        KeyRing::new(Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"").unwrap())
    };
    fs::write(sealed.join("file.enc"), b"a letter that somebody wrote").unwrap();
    for _ in 0..2 {
        let before = fs::read(sealed.join("file.enc")).unwrap();
        let report = run(Operation::Encrypt, &other(1), &plain, &sealed, &updating());
        let refused = FileError::OtherKey("file.enc".to_owned());
        assert_eq!(report.failures[0].error, refused, "{:?}", report.failures);
        assert_eq!(counts(&report), [0; 4]);
        assert!(fs::read(sealed.join("file.enc")).unwrap() == before);
        let replacing = options().with(|it| it.tree.existing = Existing::Overwrite);
        assert!(run(Operation::Encrypt, &other(2), &plain, &sealed, &replacing).is_success());
    }
    let replacing = updating_with(Update { overwrite: true, ..Update::default() });
    let report = run(Operation::Encrypt, &other(1), &plain, &sealed, &replacing);
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!(counts(&report), [1, 1, 0, 0]);
}

#[test]
fn a_restored_file_that_was_edited_is_kept() {
    let home = home();
    let keys = cobblestone();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    for name in ["same", "changed", "edited"] {
        fs::write(plain.join(name), bytes(100)).unwrap();
    }
    run(Operation::Encrypt, &keys, &plain, &sealed, &options());
    let_time_pass(home.path());
    run(Operation::Decrypt, &keys, &sealed, &back, &updating());
    fs::write(plain.join("changed"), bytes(200)).unwrap();
    set_modified(&plain.join("changed"), SystemTime::now() + Duration::from_secs(3600));
    run(Operation::Encrypt, &keys, &plain, &sealed, &updating());
    let_time_pass(home.path());
    fs::write(back.join("edited"), "by hand").unwrap();
    set_modified(&back.join("edited"), SystemTime::now() + Duration::from_secs(3600));
    let report = run(Operation::Decrypt, &keys, &sealed, &back, &updating());
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    assert_eq!(report.failures[0].error, FileError::Newer("edited".to_owned()));
    assert_eq!(counts(&report), [1, 1, 1, 0]);
    assert_eq!(fs::read(back.join("changed")).unwrap(), bytes(200));
    assert_eq!(fs::read(back.join("edited")).unwrap(), b"by hand");
    let replacing = updating_with(Update { overwrite: true, ..Update::default() });
    let report = run(Operation::Decrypt, &keys, &sealed, &back, &replacing);
    assert_eq!(counts(&report), [1, 1, 2, 0], "{:?}", report.failures);
    assert_same_tree(&plain, &back);
}

/// Options that delete, and the paths that they asked about.
fn deleting(agrees: bool) -> (Options, Arc<Mutex<Vec<PathBuf>>>) {
    let asked: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let noted = asked.clone();
    let agree = move |paths: &[PathBuf]| {
        noted.lock().unwrap().extend(paths.iter().cloned());
        agrees
    };
    (deleting_with(agree), asked)
}

#[test]
fn outputs_whose_source_has_gone_are_deleted() {
    let rings = every_key_ring().into_iter().filter(|(name, _)| !name.starts_with("openssl"));
    for (name, keys) in rings {
        let home = home();
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        fs::create_dir_all(plain.join("gone/deep/empty")).unwrap();
        fs::create_dir_all(plain.join("mixed")).unwrap();
        for file in ["stays", "goes", "left-out", "becomes", "gone/a", "gone/deep/b", "mixed/c"] {
            fs::write(plain.join(file), bytes(5000)).unwrap();
        }
        symlink("stays", plain.join("link")).unwrap();
        run(Operation::Encrypt, &keys, &plain, &sealed, &options());
        // Files that Evener did not make, under names that it could give.
        let foreign = [&[40][..], &bytes(5000)].concat();
        for file in ["mixed/foreign.enc", "readme", "evener-key.age", "mixed/short.enc"] {
            let length = if file.contains("short") { 5 } else { 5000 };
            fs::write(sealed.join(file), &foreign[..length]).unwrap();
        }
        for file in ["goes", "becomes", "mixed/c", "link"] {
            fs::remove_file(plain.join(file)).unwrap();
        }
        fs::remove_dir_all(plain.join("gone")).unwrap();
        fs::remove_dir_all(plain.join("mixed")).unwrap();
        fs::create_dir(plain.join("becomes")).unwrap();
        let_time_pass(home.path());
        let without = |options: Options| {
            let selection = evener_place::Selection::new(&[], &["left-out"]).unwrap();
            options.with(|it| it.tree.selection = selection)
        };
        fs::remove_file(plain.join("left-out")).unwrap();
        let before = common::snapshot(&sealed);

        let (options, asked) = deleting(true);
        let planning = without(options.with(|it| it.tree.dry_run = true));
        let planned = run(Operation::Encrypt, &keys, &plain, &sealed, &planning);
        assert!(planned.is_success(), "{name}: {:?}", planned.failures);
        assert_eq!(planned.files_deleted, 5, "{name}");
        let would = planned.notices.iter().filter(|it| it.reason.contains("would be deleted"));
        assert_eq!(would.count(), 5, "{name}");
        assert!(asked.lock().unwrap().is_empty());
        assert!(common::snapshot(&sealed) == before, "{name}");

        let (options, asked) = deleting(false);
        let report = run(Operation::Encrypt, &keys, &plain, &sealed, &without(options));
        assert_eq!(report.files_deleted, 0, "{name}");
        // Five files and four directories.
        assert_eq!(asked.lock().unwrap().len(), 9, "{name}: {asked:?}");
        let files = |tree: &Path| {
            let entries = common::snapshot(tree).into_iter().filter(|(_, entry)| entry.is_file());
            entries.map(|(path, _)| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(files(&sealed).len(), 11, "{name}");

        let (options, _) = deleting(true);
        let report = run(Operation::Encrypt, &keys, &plain, &sealed, &without(options));
        assert!(report.is_success(), "{name}: {:?}", report.failures);
        assert_eq!(counts(&report)[3], 5, "{name}");
        let kept = ["evener-key.age", "left-out.enc", "mixed/foreign.enc", "mixed/short.enc"];
        let kept = [&[".evener-mounts"], &kept[..], &["readme", "stays.enc"]].concat();
        assert_eq!(files(&sealed), kept, "{name}");
        assert!(!sealed.join("gone").exists() && sealed.join("becomes").is_dir(), "{name}");
        // Nothing shows that this link is Evener's.
        assert!(fs::symlink_metadata(sealed.join("link")).is_ok(), "{name}");
        let of = |part: &str| report.notices.iter().filter(|it| it.reason.contains(part)).count();
        assert_eq!((of("was not made with this key"), of("source of this link")), (2, 1), "{name}");
        for foreign in ["mixed/foreign.enc", "mixed/short.enc"] {
            fs::remove_file(sealed.join(foreign)).unwrap();
        }
        assert!(run(Operation::Decrypt, &keys, &sealed, &back, &common::options()).is_success());
    }
}

#[test]
fn where_anything_was_not_done_nothing_is_deleted() {
    let keys = cobblestone();
    for obstacle in ["directory", "file", "interruption"] {
        let home = home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        fs::create_dir_all(plain.join("sub")).unwrap();
        for file in ["goes", "stays", "sub/other"] {
            fs::write(plain.join(file), bytes(100)).unwrap();
        }
        run(Operation::Encrypt, &keys, &plain, &sealed, &options());
        fs::remove_file(plain.join("goes")).unwrap();
        let (options, asked) = deleting(true);
        match obstacle {
            // A source directory that can't be entered.
            "directory" => {
                fs::remove_dir_all(sealed.join("sub")).unwrap();
                fs::write(sealed.join("sub"), "no directory").unwrap();
            }
            "file" => fs::write(sealed.join("stays.enc"), "not encrypted").unwrap(),
            _ => options.run.control.stop(),
        }
        let report = run(Operation::Encrypt, &keys, &plain, &sealed, &options);
        assert!(!report.is_success(), "{obstacle}");
        assert_eq!(report.files_deleted, 0, "{obstacle}");
        assert!(asked.lock().unwrap().is_empty(), "{obstacle}");
        assert!(sealed.join("goes.enc").exists(), "{obstacle}");
    }
}

/// An unmounted disk leaves an empty directory in its place.
#[test]
fn for_an_empty_source_nothing_is_deleted() {
    let keys = cobblestone();
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file"), bytes(100)).unwrap();
    run(Operation::Encrypt, &keys, &plain, &sealed, &options());
    fs::remove_file(plain.join("file")).unwrap();
    let (options, asked) = deleting(true);
    let report = run(Operation::Encrypt, &keys, &plain, &sealed, &options);
    let failure = report.failures.first().expect("a failure").to_string();
    assert!(failure.contains("the source is empty"), "{failure}");
    assert!(asked.lock().unwrap().is_empty());
    assert!(sealed.join("file.enc").exists() && report.files_deleted == 0);
}

#[test]
fn what_has_changed_since_the_question_is_kept() {
    let keys = KeyRing::new(tink(1, 4096));
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    for file in ["goes", "comes-back", "is-replaced", "stays"] {
        fs::write(plain.join(file), bytes(100)).unwrap();
    }
    run(Operation::Encrypt, &keys, &plain, &sealed, &options());
    for file in ["goes", "comes-back", "is-replaced"] {
        fs::remove_file(plain.join(file)).unwrap();
    }
    let (back, replaced) = (plain.join("comes-back"), sealed.join("is-replaced.enc"));
    let agree = move |_: &[PathBuf]| {
        fs::write(&back, "again").unwrap();
        fs::remove_file(&replaced).unwrap();
        fs::write(&replaced, "of somebody else").unwrap();
        true
    };
    let deleting = deleting_with(agree);
    let report = run(Operation::Encrypt, &keys, &plain, &sealed, &deleting);
    assert_eq!((report.files_deleted, report.failures.len()), (1, 2), "{:?}", report.failures);
    assert!(!sealed.join("goes.enc").exists() && sealed.join("comes-back.enc").exists());
    assert_eq!(fs::read(sealed.join("is-replaced.enc")).unwrap(), b"of somebody else");
}

#[test]
fn beside_a_single_file_nothing_is_deleted() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    for file in ["file", "gone"] {
        fs::write(plain.join(file), bytes(100)).unwrap();
    }
    run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &options());
    fs::remove_file(plain.join("gone")).unwrap();
    fs::write(plain.join("file"), bytes(200)).unwrap();
    let (deleting, asked) = deleting(true);
    let report = run(Operation::Encrypt, &cobblestone(), &plain.join("file"), &sealed, &deleting);
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!(counts(&report), [1, 1, 0, 0]);
    assert!(asked.lock().unwrap().is_empty() && sealed.join("gone.enc").exists());
}

#[test]
fn what_can_not_be_meant_is_refused() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file"), bytes(100)).unwrap();
    let (deleting, _) = deleting(true);
    let removing = updating().with(|it| it.tree.remove_source = true);
    let openssl = every_key_ring().into_iter().find(|(name, _)| name.starts_with("openssl"));
    let openssl = openssl.unwrap().1;
    let ours = cobblestone();
    for (operation, keys, source, options) in [
        (Operation::Encrypt, &ours, &plain, &removing),
        (Operation::Encrypt, &openssl, &plain, &deleting),
        (Operation::Decrypt, &ours, &plain, &deleting),
    ] {
        let refused = process(operation, keys, source, Some(&sealed), options).unwrap_err();
        assert!(matches!(refused.error, FileError::Refused(Refusal::Options(_))), "{refused}");
        assert!(!sealed.exists());
    }
}

#[test]
fn outputs_that_are_links_of_each_other_are_deleted_in_one_run() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    for name in ["keep", "x"] {
        fs::write(plain.join(name), name).unwrap();
    }
    for name in ["y", "z"] {
        fs::hard_link(plain.join("x"), plain.join(name)).unwrap();
    }
    let_time_pass(home.path());
    run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &options());
    for name in ["x", "y", "z"] {
        fs::remove_file(plain.join(name)).unwrap();
    }
    let_time_pass(home.path());
    let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &deleting(true).0);
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!(counts(&report), [0, 0, 1, 3]);
}

/// As when `photos/*` is to be encrypted and the disk with the photos is not mounted.
#[test]
fn where_none_of_the_outputs_is_of_the_source_nothing_is_deleted() {
    let home = home();
    let [plain, other, sealed] = ["plain", "other", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("photos")).unwrap();
    fs::write(plain.join("photos/one"), "1").unwrap();
    fs::write(plain.join("notes"), "n").unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("new"), "new").unwrap();
    run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &options());
    fs::remove_file(plain.join("photos/one")).unwrap();
    let selection = evener_place::Selection::new(&["photos/*"], &[]).unwrap();
    let choosing = deleting(true).0.with(|it| it.tree.selection = selection);
    for (source, options) in [(&plain, choosing), (&other, deleting(true).0)] {
        for dry_run in [true, false] {
            let options = options.clone().with(|it| it.tree.dry_run = dry_run);
            let report = run(Operation::Encrypt, &cobblestone(), source, &sealed, &options);
            let failure = report.failures.first().expect("a failure").to_string();
            assert!(failure.contains("none of the outputs here is of this source"), "{failure}");
            assert_eq!(report.files_deleted, 0);
            assert!(sealed.join("photos/one.enc").exists() && sealed.join("notes.enc").exists());
        }
    }
}

#[test]
fn what_has_become_of_another_kind_does_not_stay_beside_its_old_output() {
    let make = |kind: &str, path: &Path| match kind {
        "link" => symlink("y", path).unwrap(),
        "directory" => {
            fs::create_dir(path).unwrap();
            fs::write(path.join("f"), "in it").unwrap();
        }
        _ => fs::write(path, kind).unwrap(),
    };
    for (before, after) in
        [("link", "file"), ("file", "link"), ("directory", "file"), ("file", "directory")]
    {
        let what = format!("{before} to {after}");
        let home = home();
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        fs::write(plain.join("y"), "y").unwrap();
        make(before, &plain.join("x"));
        run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &options());
        match before {
            "directory" => fs::remove_dir_all(plain.join("x")).unwrap(),
            _ => fs::remove_file(plain.join("x")).unwrap(),
        }
        make(after, &plain.join("x"));
        let_time_pass(home.path());
        let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &updating());
        let [failure] = &*report.failures else { panic!("{what}: {:?}", report.failures) };
        let failure = failure.to_string();
        assert!(failure.contains("`x` and `x.enc` among the outputs"), "{what}: {failure}");
        let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &deleting(true).0);
        assert!(report.is_success(), "{what}: {:?}", report.failures);
        assert_eq!(report.files_deleted, 1, "{what}");
        let report = run(Operation::Decrypt, &cobblestone(), &sealed, &back, &options());
        assert!(report.is_success(), "{what}: {:?}", report.failures);
        assert_same_tree(&plain, &back);
    }
}

#[test]
fn a_link_takes_the_place_of_a_directory_that_was_deleted() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("x/deep")).unwrap();
    fs::write(plain.join("x/deep/file"), "in it").unwrap();
    fs::write(plain.join("y"), "y").unwrap();
    let encrypt =
        |options: &Options| run(Operation::Encrypt, &cobblestone(), &plain, &sealed, options);
    encrypt(&options());
    fs::remove_dir_all(plain.join("x")).unwrap();
    symlink("y", plain.join("x")).unwrap();
    let planned = encrypt(&deleting(true).0.with(|it| it.tree.dry_run = true));
    assert!(planned.is_success() && planned.symlinks == 1, "{:?}", planned.failures);
    for (agrees, links) in [(false, 0), (true, 1), (true, 1)] {
        let report = encrypt(&deleting(agrees).0);
        assert_eq!((report.is_success(), report.symlinks), (agrees, links), "{report:?}");
    }
    let report = run(Operation::Decrypt, &cobblestone(), &sealed, &back, &options());
    assert!(report.is_success(), "{:?}", report.failures);
    assert_same_tree(&plain, &back);
}

#[test]
fn a_directory_in_the_place_of_a_further_name_is_told_of() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("x"), "x").unwrap();
    fs::hard_link(plain.join("x"), plain.join("y")).unwrap();
    for name in ["x.enc", "y.enc"] {
        fs::create_dir_all(sealed.join(name)).unwrap();
        for dry_run in [true, false] {
            for overwrite in [true, false] {
                let options = updating_with(Update { overwrite, ..Update::default() })
                    .with(|it| it.tree.dry_run = dry_run);
                let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &options);
                let told = report.failures.iter().map(|failure| failure.error.to_string());
                let told: Vec<_> = told.filter(|it| it.contains("is a directory")).collect();
                assert_eq!(told.len(), 1, "{name} {dry_run}: {:?}", report.failures);
            }
        }
        let _ = fs::remove_file(sealed.join("x.enc"));
        let _ = fs::remove_file(sealed.join("y.enc"));
        let _ = fs::remove_dir(sealed.join(name));
    }
}

#[test]
fn extended_attributes_that_are_asked_for_later_are_carried_over() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file"), "content").unwrap();
    let set = |path: &Path, value: &[u8]| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "user.evener", value, flags)
    };
    if set(&plain.join("file"), b"value").is_err() {
        evener_core::skipped!("the filesystem keeps no extended attributes");
        return;
    }
    let_time_pass(home.path());
    run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &options());
    let content = fs::read(sealed.join("file.enc")).unwrap();
    let asking = |dry_run| {
        updating().with(|it| {
            it.tree.xattrs = true;
            it.tree.dry_run = dry_run;
        })
    };
    for (dry_run, expected) in [(true, [0, 1, 0, 0]), (false, [0, 1, 0, 0]), (false, [0, 0, 1, 0])]
    {
        let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &asking(dry_run));
        assert_eq!(counts(&report), expected, "{:?}", report.failures);
    }
    let mut value = [0; 5];
    rustix::fs::getxattr(sealed.join("file.enc"), "user.evener", &mut value).unwrap();
    assert_eq!(&value, b"value");
    assert_eq!(fs::read(sealed.join("file.enc")).unwrap(), content);

    // The output loses attributes that the source no longer has, even those that a user added.
    set(&sealed, b"value").unwrap();
    fs::create_dir(plain.join("sub")).unwrap();
    fs::create_dir(sealed.join("sub")).unwrap();
    set(&sealed.join("sub"), b"value").unwrap();
    rustix::fs::removexattr(plain.join("file"), "user.evener").unwrap();
    for _ in 0..2 {
        let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &asking(false));
        assert!(report.is_success(), "{:?}", report.failures);
    }
    let has = |path: &Path| rustix::fs::getxattr(path, "user.evener", &mut [0_u8; 5]).is_ok();
    assert_eq!([has(&sealed.join("file.enc")), has(&sealed.join("sub"))], [false, false]);
    // The root of a tree belongs to the user.
    assert!(has(&sealed));
}
