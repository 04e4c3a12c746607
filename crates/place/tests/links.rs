//! Tests files with several names, symbolic links, and names that collide.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown, symlink};
use std::path::Path;
use std::sync::Arc;

use common::child::{Errand, Flags, serve, shim};
use common::{bytes, cobblestone, existing, home, options, process};
use evener_place::{Existing, FileError, FileOutcome, Listener, Operation, SealedNames};

#[test]
fn child() {
    serve();
}

#[test]
fn a_link_is_never_made_to_what_was_there_before() {
    for remove_source in [false, true] {
        let home = home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        fs::create_dir(&sealed).unwrap();
        fs::write(plain.join("one"), bytes(1000)).unwrap();
        fs::hard_link(plain.join("one"), plain.join("two")).unwrap();
        // Whichever name is taken, the other must not become a link to the file there.
        for (occupied, free) in [("one", "two"), ("two", "one")] {
            let occupied = sealed.join(format!("{occupied}.enc"));
            fs::write(&occupied, b"something else").unwrap();
            let options = options().with(|it| it.tree.remove_source = remove_source);
            let report =
                process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options)
                    .unwrap();
            assert!(!report.failures.is_empty());
            assert_eq!(fs::read(&occupied).unwrap(), b"something else");
            let other = sealed.join(format!("{free}.enc"));
            if other.exists() {
                let same = other.metadata().unwrap().ino() == occupied.metadata().unwrap().ino();
                assert!(!same, "linked to something else");
                fs::remove_file(&other).unwrap();
            }
            assert_eq!(fs::read(plain.join(occupied.file_stem().unwrap())).unwrap(), bytes(1000));
            fs::remove_file(&occupied).unwrap();
            let _ = fs::hard_link(plain.join("one"), plain.join("two"));
            let _ = fs::hard_link(plain.join("two"), plain.join("one"));
        }
    }
}

#[test]
fn resuming_links_what_an_earlier_run_made_apart() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("one"), bytes(1000)).unwrap();
    fs::hard_link(plain.join("one"), plain.join("two")).unwrap();
    for name in ["one", "two"] {
        let (from, to) = (plain.join(name), sealed.join(format!("{name}.enc")));
        fs::create_dir_all(&sealed).unwrap();
        process(Operation::Encrypt, &cobblestone(), &from, Some(&to), &options()).unwrap();
    }
    let resuming = options().with(|it| it.tree.existing = Existing::resume());
    let report =
        process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &resuming).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    let inode = |name: &str| fs::metadata(sealed.join(name)).unwrap().ino();
    assert_eq!(inode("one.enc"), inode("two.enc"));
    assert_eq!(fs::read_dir(&sealed).unwrap().count(), 2);

    // A file that is not an output of this source stays untouched.
    fs::remove_file(sealed.join("two.enc")).unwrap();
    fs::write(sealed.join("two.enc"), b"mine").unwrap();
    let report =
        process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &resuming).unwrap();
    let told = report.failures.iter().map(|failure| failure.error.to_string()).collect::<String>();
    assert!(
        told.contains(".enc` exists but has 4 bytes, not 1072, and was modified on "),
        "{told}"
    );
    assert_eq!(fs::read(sealed.join("two.enc")).unwrap(), b"mine");
}

#[test]
fn resuming_removes_the_sources_that_an_earlier_run_kept() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("one"), bytes(1000)).unwrap();
    fs::write(plain.join("two"), bytes(2000)).unwrap();
    process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options()).unwrap();
    fs::write(plain.join("two"), b"changed since").unwrap();
    let moving = options().with(|it| {
        it.tree.existing = Existing::resume();
        it.tree.remove_source = true;
    });
    let report =
        process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &moving).unwrap();
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    assert!(!plain.join("one").exists());
    assert_eq!(fs::read(plain.join("two")).unwrap(), b"changed since");
}

#[test]
fn links_are_made_where_only_the_sources_cant_be_removed() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("one"), bytes(1000)).unwrap();
    fs::hard_link(plain.join("one"), plain.join("two")).unwrap();
    process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options()).unwrap();
    let errand = Errand {
        operation: Operation::Decrypt,
        keys: "cobblestone-256",
        source: &sealed,
        target: &back,
        flags: Flags { remove_source: true, ..Flags::default() },
    };
    let mut command = errand.command();
    command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NTH", "0").env("EVENER_FAULT_DO", "30");
    command.env("EVENER_FAULT_CALL", "unlinkat").env("EVENER_FAULT_BELOW", &sealed);
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let told = ["one", "two"].map(|name| {
        let source = sealed.join(format!("{name}.enc"));
        format!("{}: can't remove the source: Read-only file system\n", source.display())
    });
    assert_eq!(errors, told.concat());
    let inode = |name: &str| fs::metadata(back.join(name)).unwrap().ino();
    assert_eq!(inode("one"), inode("two"));
    assert_eq!(fs::read(back.join("two")).unwrap(), bytes(1000));
    assert_eq!(fs::read_dir(&sealed).unwrap().count(), 2);
}

/// As on exFAT and on file systems behind FUSE.
#[test]
fn each_name_is_a_file_of_its_own_where_outputs_cant_be_linked() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("below")).unwrap();
    fs::write(plain.join("one"), bytes(1000)).unwrap();
    fs::write(plain.join("long"), bytes(300_000)).unwrap();
    fs::hard_link(plain.join("one"), plain.join("two")).unwrap();
    fs::hard_link(plain.join("one"), plain.join("below/three")).unwrap();
    fs::hard_link(plain.join("long"), plain.join("below/long")).unwrap();
    let names = ["one", "two", "below/three", "long", "below/long"];
    let [fresh, update, resume, overwrite, moving] = [Flags::FRESH; 5];
    let rounds = [
        fresh,
        Flags { update: true, ..update },
        Flags { resume: true, ..resume },
        Flags { overwrite: true, ..overwrite },
        Flags { overwrite: true, remove_source: true, ..moving },
    ];
    for flags in rounds {
        let keys = "cobblestone-256";
        let errand =
            Errand { operation: Operation::Encrypt, keys, source: &plain, target: &sealed, flags };
        let mut command = errand.command();
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NO_LINKS", "1");
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{flags:?}: {told}");
        let notices: Vec<_> = told.lines().filter(|line| line.contains("hard link")).collect();
        let notice = "3 hard links are stored as files of their own, since the outputs can't be linked: \
                      Operation not permitted";
        assert_eq!(notices, [format!("{}: {notice}", plain.display())], "{flags:?}");
        let numbers =
            names.map(|name| sealed.join(format!("{name}.enc")).metadata().unwrap().ino());
        let numbers: std::collections::HashSet<_> = numbers.into_iter().collect();
        assert_eq!(numbers.len(), names.len());
    }
    assert!(names.iter().all(|name| !plain.join(name).exists()));
    process(Operation::Decrypt, &cobblestone(), &sealed, Some(&back), &options()).unwrap();
    for (name, length) in names.into_iter().zip([1000, 1000, 1000, 300_000, 300_000]) {
        assert_eq!(fs::read(back.join(name)).unwrap(), bytes(length), "{name}");
    }
}

#[test]
fn a_linked_source_that_changes_before_the_end_is_kept_with_all_its_names() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("one"), bytes(1000)).unwrap();
    fs::hard_link(plain.join("one"), plain.join("two")).unwrap();
    fs::write(plain.join("other"), bytes(1000)).unwrap();
    let one = plain.join("one");
    // The run reports the other files when their sources are gone.
    let listener: Listener = Arc::new(move |path: &Path, outcome| {
        if outcome == FileOutcome::Done && path.ends_with("other") {
            fs::write(&one, "written to after its output was made").unwrap();
        }
    });
    let moving = options().with(|it| {
        it.tree.remove_source = true;
        it.run.listener = Some(listener);
    });
    let report =
        process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &moving).unwrap();
    let kept: Vec<_> = report.failures.iter().map(|failure| &failure.error).collect();
    assert_eq!(kept, [&FileError::ChangedSince; 2]);
    assert!(plain.join("one").exists() && plain.join("two").exists());
    assert!(!plain.join("other").exists());
}

#[test]
fn a_symbolic_link_never_takes_the_place_of_an_output() {
    for overwrite in [false, true] {
        let home = home();
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        for number in 0..80 {
            fs::write(plain.join(number.to_string()), bytes(number)).unwrap();
            symlink("elsewhere", plain.join(format!("{number}.enc"))).unwrap();
        }
        let options = options().with(|it| it.tree.existing = existing(overwrite, false));
        let run = |operation, from, to| {
            process(operation, &cobblestone(), from, Some(to), &options).unwrap()
        };
        let report = run(Operation::Encrypt, &plain, &sealed);
        assert_eq!((report.files, report.symlinks, report.failures.len()), (80, 0, 80));
        assert!(report.failures.iter().all(|f| f.path.extension().is_some()));

        for number in 0..80 {
            symlink("elsewhere", sealed.join(number.to_string())).unwrap();
        }
        let report = run(Operation::Decrypt, &sealed, &back);
        assert_eq!((report.files, report.symlinks, report.failures.len()), (80, 0, 80));
        for number in 0..80 {
            assert_eq!(fs::read(back.join(number.to_string())).unwrap(), bytes(number));
        }
    }
}

#[test]
fn symbolic_links_are_replaced_at_once() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::create_dir(&sealed).unwrap();
    symlink("new", plain.join("link")).unwrap();
    symlink("old", sealed.join("link")).unwrap();
    // Leftovers of a killed process, and names that only resemble them.
    symlink("new", sealed.join(".evener-0123456789abcdef.part")).unwrap();
    fs::write(sealed.join(".evener-fedcba9876543210.part"), b"half").unwrap();
    fs::write(sealed.join(".evener-notes.part"), b"mine").unwrap();
    let run = |options| {
        process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options).unwrap()
    };
    assert!(matches!(run(options()).failures[0].error, FileError::Taken(_)));
    assert_eq!(fs::read_link(sealed.join("link")).unwrap(), Path::new("old"));
    assert!(run(options().with(|it| it.tree.existing = Existing::Overwrite)).is_success());
    assert_eq!(fs::read_link(sealed.join("link")).unwrap(), Path::new("new"));
    let mut left: Vec<_> =
        fs::read_dir(&sealed).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".evener-notes.part", "link"]);
}

#[test]
fn a_symbolic_link_replaces_nothing_but_links() {
    let home = home();
    let [plain, sealed, file] = ["plain", "sealed", "file"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::create_dir_all(sealed.join("directory")).unwrap();
    fs::write(&file, bytes(100)).unwrap();
    fs::write(sealed.join("file.enc"), "the output of another source").unwrap();
    let fifo = sealed.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for name in ["file.enc", "fifo", "directory"] {
        symlink("elsewhere", plain.join(name)).unwrap();
    }
    for dry_run in [true, false] {
        let options = options().with(|it| {
            it.tree.existing = Existing::Overwrite;
            it.tree.dry_run = dry_run;
        });
        let keys = cobblestone();
        let report = process(Operation::Encrypt, &keys, &plain, Some(&sealed), &options).unwrap();
        let mut told: Vec<_> = report.failures.iter().map(|f| f.error.to_string()).collect();
        told.sort();
        for (told, kind) in told.iter().zip(["directory` is a d", "fifo` is a F", "enc` is a file"])
        {
            assert!(told.contains(kind) && told.contains("not replaced by a link"), "{told}");
        }
        assert_eq!((told.len(), report.symlinks), (3, 0));
    }
    let there = fs::read(sealed.join("file.enc")).unwrap();
    assert_eq!(there, b"the output of another source");
}

#[test]
fn nothing_takes_the_place_of_a_wrapped_key() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("deep")).unwrap();
    fs::create_dir(&sealed).unwrap();
    let key = b"age-encryption.org/v1\n-> a key";
    fs::write(sealed.join("evener-key.age"), key).unwrap();
    fs::write(sealed.join("evener-key-2.age"), key).unwrap();
    fs::write(plain.join("evener-key"), bytes(9)).unwrap();
    symlink("elsewhere", plain.join("evener-key-2.age")).unwrap();
    for name in ["evener-keynote", "evener-key-x", "deep/evener-key"] {
        fs::write(plain.join(name), bytes(100)).unwrap();
    }
    let options = options().with(|it| {
        it.tree.names = SealedNames::new(".age").unwrap();
        it.tree.existing = Existing::Overwrite;
    });
    let run =
        |operation, from, to| process(operation, &cobblestone(), from, Some(to), &options).unwrap();
    let report = run(Operation::Encrypt, &plain, &sealed);
    assert_eq!((report.files, report.failures.len()), (3, 2), "{:?}", report.failures);
    assert_eq!(fs::read(sealed.join("evener-key.age")).unwrap(), key);
    assert_eq!(fs::read(sealed.join("evener-key-2.age")).unwrap(), key);
    let report = run(Operation::Decrypt, &sealed, &back);
    assert_eq!((report.files, report.failures.len()), (3, 0), "{:?}", report.failures);
    assert_eq!(report.left_out, 2);
    assert_eq!(fs::read(back.join("evener-keynote")).unwrap(), bytes(100));
}

#[test]
fn a_symbolic_link_has_an_owner_of_its_own() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    symlink("nowhere", plain.join("link")).unwrap();
    if lchown(plain.join("link"), Some(1234), Some(1234)).is_err() {
        evener_core::skipped!("only root gives files away");
        return;
    }
    // This includes a link that a run without owners has made.
    for owner in [false, true] {
        let options = options().with(|it| {
            it.tree.owner = owner;
            it.tree.existing = Existing::resume();
        });
        let report = process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options);
        assert!(report.unwrap().is_success());
        let there = fs::symlink_metadata(sealed.join("link")).unwrap();
        assert_eq!(there.uid() == 1234 && there.gid() == 1234, owner);
    }
}
