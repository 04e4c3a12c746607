//! Tests outputs that exist already, and dry runs, which report what a run would do.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::{Options, bytes, cobblestone, every_key_ring, existing, home, options, process, tink};
use evener_core::Key;
use evener_format::{CobblestoneSuite, Recipe};
use evener_keys::Fingerprint;
use evener_place::{Existing, FileError, KeyRing, Operation, Refusal, Report};

fn run(operation: Operation, keys: &KeyRing, from: &Path, to: &Path, options: &Options) -> Report {
    process(operation, keys, from, Some(to), options).unwrap()
}

/// Two keys of each format that can identify its key.
fn pairs() -> Vec<[KeyRing; 2]> {
    let cobblestone = |byte, context: &[u8]| {
        let key = Key::new(&[byte; 32]).unwrap();
        KeyRing::new(Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, context).unwrap())
    };
    let tink = |byte| KeyRing::new(tink(byte, 4096));
    vec![
        [cobblestone(1, b""), cobblestone(2, b"")],
        [cobblestone(1, b"one"), cobblestone(1, b"two")],
        [tink(3), tink(4)],
        [tink(3).with(common::tink(5, 1 << 20)), tink(4)],
    ]
}

#[test]
fn resuming_under_another_key_leaves_no_file_out() {
    let resuming = options().with(|it| it.tree.existing = Existing::resume());
    for [first, second] in pairs() {
        let home = home();
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        for length in [0, 1, 5000, 300_000] {
            fs::write(plain.join(length.to_string()), bytes(length)).unwrap();
        }
        assert!(run(Operation::Encrypt, &first, &plain, &sealed, &options()).is_success());
        let report = run(Operation::Encrypt, &first, &plain, &sealed, &resuming);
        assert!(report.is_success() && report.files_skipped == 4, "{:?}", report.failures);

        let report = run(Operation::Encrypt, &second, &plain, &sealed, &resuming);
        assert_eq!((report.files_skipped, report.failures.len()), (0, 4), "{report:?}");
        let other = |error: &FileError| matches!(error, FileError::OtherKey(_));
        assert!(report.failures.iter().all(|failure| other(&failure.error)), "{report:?}");
        // The mismatch does not remove a source either.
        let removing = resuming.clone().with(|it| it.tree.remove_source = true);
        assert_eq!(run(Operation::Encrypt, &second, &plain, &sealed, &removing).failures.len(), 4);

        assert!(run(Operation::Decrypt, &first, &sealed, &back, &options()).is_success());
        let report = run(Operation::Decrypt, &second, &sealed, &back, &resuming);
        assert_eq!((report.files_skipped, report.failures.len()), (0, 4), "{report:?}");

        let replacing =
            resuming.clone().with(|it| it.tree.existing = Existing::Resume { overwrite: true });
        let report = run(Operation::Encrypt, &second, &plain, &sealed, &replacing);
        assert!(report.is_success() && report.files == 4, "{:?}", report.failures);
        assert!(
            process(Operation::Verify, &second, &sealed, None, &options()).unwrap().is_success()
        );
    }
}

#[test]
fn resuming_replaces_no_output_of_a_source_that_is_gone() {
    let removing = options().with(|it| it.tree.remove_source = true);
    let resuming = removing.clone().with(|it| it.tree.existing = Existing::resume());
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let pairs = [5, 900_000]
        .into_iter()
        .flat_map(|length| pairs().into_iter().map(move |keys| (keys, length)));
    for ([keys, fresh], length) in pairs {
        let home = home();
        let [one, two, sealed, both] =
            ["one", "two", "sealed", "both"].map(|name| home.path().join(name));
        for (plain, byte) in [(&one, b'1'), (&two, b'2')] {
            fs::create_dir(plain).unwrap();
            fs::write(plain.join("file"), vec![byte; length]).unwrap();
            fs::File::open(plain.join("file")).unwrap().set_modified(time).unwrap();
        }
        assert!(run(Operation::Encrypt, &keys, &two, &both, &options()).is_success());
        fs::copy(one.join("file"), home.path().join("copy")).unwrap();
        assert!(run(Operation::Encrypt, &keys, &one, &sealed, &removing).is_success());
        let refused = |operation, keys: &KeyRing, from: &Path, to: &Path, options: &Options| {
            let report = run(operation, keys, from, to, options);
            assert_eq!((report.files, report.failures.len()), (0, 1), "{report:?}");
            report.failures[0].error.clone()
        };
        let error = refused(Operation::Encrypt, &keys, &two, &sealed, &resuming);
        let differs =
            |error: &FileError| matches!(error, FileError::Refused(Refusal::OutputDiffers(_)));
        assert!(differs(&error), "{error}");
        // A key that was made for this run opens no earlier output.
        let has_closed_keys = resuming.clone().with(|it| it.tree.program.has_closed_keys = true);
        let error = refused(Operation::Encrypt, &fresh, &two, &sealed, &has_closed_keys);
        assert!(matches!(error, FileError::Refused(Refusal::OutputUnopened(_))), "{error}");
        // Its own output is made again.
        assert!(run(Operation::Encrypt, &keys, &two, &both, &resuming).is_success());

        let back = home.path().join("back");
        assert!(run(Operation::Decrypt, &keys, &sealed, &back, &removing).is_success());
        let error = refused(Operation::Decrypt, &keys, &both, &back, &resuming);
        assert!(differs(&error), "{error}");
        assert_eq!(fs::read(back.join("file")).unwrap(), vec![b'1'; length]);
    }
}

#[test]
fn directories_get_their_times_where_outputs_are_replaced() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (name, mode) in [("below", 0o755), ("read-only", 0o555), ("other", 0o750)] {
        let [from, to] = [&plain, &sealed].map(|tree| tree.join(name));
        fs::create_dir_all(&from).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(from.join("file"), name).unwrap();
        fs::set_permissions(&from, fs::Permissions::from_mode(mode)).unwrap();
        let mode = if name == "other" { 0o700 } else { mode };
        fs::set_permissions(&to, fs::Permissions::from_mode(mode)).unwrap();
        fs::File::open(&from).unwrap().set_modified(time).unwrap();
    }
    fs::File::open(&plain).unwrap().set_modified(time).unwrap();
    for (existing, notices) in [(Existing::Overwrite, 0), (Existing::resume(), 1)] {
        let options = options().with(|it| it.tree.existing = existing);
        let report = run(Operation::Encrypt, &cobblestone(), &plain, &sealed, &options);
        assert!(report.is_success(), "{:?}", report.failures);
        assert_eq!(report.notices.len(), notices, "{:?}", report.notices);
        for name in ["", "below", "read-only", "other"] {
            let found = fs::metadata(sealed.join(name)).unwrap();
            assert_eq!(found.modified().unwrap() == time, name != "other", "{name}");
            fs::File::open(sealed.join(name)).unwrap().set_modified(SystemTime::now()).unwrap();
        }
    }
}

/// The content of a report except times and sums.
fn told(report: &Report) -> (u64, u64, u64, u64, Vec<String>, Vec<String>) {
    let failures = report.failures.iter().map(ToString::to_string).collect();
    let notices = report.notices.iter().map(|notice| notice.reason.clone()).collect();
    let Report { files, files_skipped, hard_links, symlinks, .. } = report;
    (*files, *files_skipped, *hard_links, *symlinks, failures, notices)
}

#[test]
fn a_plan_says_what_the_run_says() {
    let keys = every_key_ring().swap_remove(0).1;
    for (overwrite, resume) in [(false, false), (true, false), (false, true)] {
        let home = home();
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        for directory in ["sub", "other", "b.enc"] {
            fs::create_dir_all(plain.join(directory)).unwrap();
        }
        for name in ["a", "b", "sub/a", "sub/b", "other/a", "there"] {
            fs::write(plain.join(name), bytes(1000)).unwrap();
        }
        fs::write(plain.join("n".repeat(253)), bytes(10)).unwrap();
        fs::hard_link(plain.join("a"), plain.join("other/same")).unwrap();
        symlink("a", plain.join("link")).unwrap();
        symlink("a", plain.join("there.enc")).unwrap();
        fs::create_dir_all(sealed.join("sub")).unwrap();
        fs::create_dir_all(sealed.join("b.enc")).unwrap();
        fs::write(sealed.join("sub/a.enc"), b"something else").unwrap();
        fs::write(sealed.join("other"), b"no directory").unwrap();
        // Two sources for one output, in either order.
        for directory in ["two/y.enc", "three/z"] {
            fs::create_dir_all(plain.join(directory)).unwrap();
            fs::write(plain.join(directory).join("inside"), bytes(10)).unwrap();
        }
        fs::write(plain.join("two/y"), bytes(10)).unwrap();
        fs::write(plain.join("three/z.enc"), bytes(10)).unwrap();
        // Entries that no file may replace.
        fs::write(plain.join("linked"), bytes(10)).unwrap();
        symlink("nowhere", sealed.join("linked.enc")).unwrap();
        symlink("b", sealed.join("link")).unwrap();
        let working = options().with(|it| it.tree.existing = existing(overwrite, resume));
        let planning = working.clone().with(|it| it.tree.dry_run = true);
        let before = common::snapshot(home.path());
        let planned = run(Operation::Encrypt, &keys, &plain, &sealed, &planning);
        assert!(common::snapshot(home.path()) == before);
        let done = run(Operation::Encrypt, &keys, &plain, &sealed, &working);
        assert_eq!(told(&planned), told(&done));
        let two = |error: &FileError| error.to_string() == "has the name of the output of `y`";
        assert!(done.failures.iter().any(|f| f.path.ends_with("two/y.enc") && two(&f.error)));
        assert!(sealed.join("two/y.enc").is_file() && sealed.join("three/z.enc.enc").is_file());

        // Headers that do not match the key, and files that are not encrypted.
        fs::remove_file(sealed.join("other")).unwrap();
        fs::write(sealed.join("x.enc"), bytes(1000)).unwrap();
        fs::write(sealed.join("y.enc"), b"short").unwrap();
        let planned = run(Operation::Decrypt, &keys, &sealed, &back, &planning);
        assert!(!back.exists());
        let done = run(Operation::Decrypt, &keys, &sealed, &back, &working);
        assert_eq!(told(&planned), told(&done));
        assert!(done.failures.len() >= 2);
    }
}

#[test]
fn a_file_is_not_its_own_output() {
    let keys = every_key_ring().swap_remove(0).1;
    let home = home();
    let [file, other, link] = ["file", "other", "link"].map(|name| home.path().join(name));
    fs::write(&file, bytes(1000)).unwrap();
    fs::hard_link(&file, &other).unwrap();
    symlink("file", &link).unwrap();
    for target in [&file, &other, &link] {
        for (overwrite, dry_run) in [(true, false), (false, false), (true, true)] {
            let options = options().with(|it| {
                it.tree.existing = existing(overwrite, false);
                it.tree.dry_run = dry_run;
            });
            let refused = process(Operation::Encrypt, &keys, &file, Some(target), &options);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("is the source itself"), "{refused}");
            assert_eq!(fs::read(&file).unwrap(), bytes(1000));
        }
    }
}

#[test]
fn no_source_is_removed_once_the_wrapped_key_has_gone() {
    let keys = every_key_ring().swap_remove(0).1;
    let home = home();
    let [plain, sealed, key] = ["plain", "sealed", "key"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    for name in ["one", "two"] {
        fs::write(plain.join(name), bytes(1000)).unwrap();
    }
    fs::hard_link(plain.join("two"), plain.join("three")).unwrap();
    let moving = options().with(|it| {
        it.tree.remove_source = true;
        it.tree.existing = Existing::Overwrite;
        it.tree.program.wrapped_key = Some((key.clone(), Fingerprint::of(b"wrapped")));
    });
    let before = common::snapshot(&plain);
    for there in [None, Some("another")] {
        if let Some(there) = there {
            fs::write(&key, there).unwrap();
        }
        let report = run(Operation::Encrypt, &keys, &plain, &sealed, &moving);
        assert_eq!(report.files, 0, "{report:?}");
        let is_told = |error: &FileError| matches!(error, FileError::KeyGone(_));
        assert!(report.failures.iter().any(|failure| is_told(&failure.error)), "{report:?}");
        assert_eq!(common::snapshot(&plain), before);
    }
    fs::write(&key, "wrapped").unwrap();
    let report = run(Operation::Encrypt, &keys, &plain, &sealed, &moving);
    assert!(report.is_success() && report.files == 2, "{:?}", report.failures);
    assert_eq!(fs::read_dir(&plain).unwrap().count(), 0);
}
