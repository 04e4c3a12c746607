//! Tests trees and targets that another user can write to, and deceptive names.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::child::{Errand, Flags, serve, shim};
use common::meddler::meddling;
use common::{Options, bytes, cobblestone, existing, home, options, process};
use evener_place::{Existing, FileError, Operation, Protected, Report, SharedTarget};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, openat};

#[test]
fn child() {
    serve();
}

fn run(operation: Operation, from: &Path, to: &Path, options: &Options) -> Report {
    process(operation, &cobblestone(), from, Some(to), options).unwrap()
}

fn encrypt(from: &Path, to: &Path, options: &Options) -> Report {
    run(Operation::Encrypt, from, to, options)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn names_that_the_target_takes_for_one_lose_nothing() {
    for (remove_source, resume) in [(true, false), (false, false), (false, true), (true, true)] {
        let home = home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        // More than are synced at a time, so that some sources are gone when later ones come.
        fs::create_dir_all(plain.join("Sub")).unwrap();
        fs::create_dir_all(plain.join("sub")).unwrap();
        let names = (0..70).flat_map(|number| [format!("A{number}"), format!("a{number}")]);
        let names: Vec<_> = names.chain(["Sub/x".to_owned(), "sub/x".to_owned()]).collect();
        for name in &names {
            fs::write(plain.join(name), name).unwrap();
        }
        let errand = Errand {
            operation: Operation::Encrypt,
            keys: "cobblestone-256",
            source: &plain,
            target: &sealed,
            flags: Flags { overwrite: true, resume, remove_source, ..Flags::default() },
        };
        let mut command = errand.command();
        // No file system here folds names, so a library that intercepts the system calls does.
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_FOLD_BELOW", &sealed);
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        let told = |place: &str| {
            let is_of = |line: &&str| line.starts_with(&format!("{}/{place}", plain.display()));
            let told = errors.lines().filter(is_of);
            told.filter(|line| line.contains("takes their two names for one")).count()
        };
        // One of each two files, and the directories or the content of one of them.
        assert_eq!(told("A") + told("a"), 70, "{errors}");
        assert!(told("Sub") + told("sub") > 0, "{errors}");
        let back = home.path().join("back");
        assert!(run(Operation::Decrypt, &sealed, &back, &options()).is_success());
        for name in &names {
            let is_there = plain.join(name).exists();
            let output = fs::read_to_string(back.join(name.to_lowercase())).unwrap();
            assert!(is_there || output == *name, "{name} is lost");
        }
        assert_eq!(
            names.iter().filter(|name| plain.join(name).exists()).count(),
            match remove_source {
                true => 71,
                false => 142,
            }
        );
    }
}

#[test]
fn an_inode_that_is_used_again_is_no_hard_link() {
    // On a file system that reuses inode numbers at once.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [plain, others, sealed, back] =
        ["plain", "others", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::create_dir(&others).unwrap();
    let names: Vec<_> = (0..20).map(|number| number.to_string()).collect();
    for name in &names {
        fs::write(plain.join(name), format!("old {name}")).unwrap();
        fs::hard_link(plain.join(name), others.join(name)).unwrap();
    }
    let deed = {
        let [plain, others, sealed] = [&plain, &others, &sealed].map(|path| path.clone());
        let names = names.clone();
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let is_reused = AtomicBool::new(false);
        move || {
            if calls.fetch_add(1, Ordering::SeqCst) != 10 {
                return;
            }
            let is_done = |name: &&String| sealed.join(format!("{name}.enc")).exists();
            let (done, left): (Vec<_>, Vec<_>) = names.iter().partition(is_done);
            let mut freed = Vec::new();
            for name in done {
                freed.push(fs::metadata(plain.join(name)).unwrap().ino());
                fs::remove_file(others.join(name)).unwrap();
                fs::remove_file(plain.join(name)).unwrap();
            }
            for name in left {
                let fresh = others.join(format!("new {name}"));
                fs::write(&fresh, format!("new {name}")).unwrap();
                fs::hard_link(&fresh, others.join(format!("again {name}"))).unwrap();
                let reused = freed.contains(&fs::metadata(&fresh).unwrap().ino());
                is_reused.fetch_or(reused, Ordering::SeqCst);
                fs::rename(fresh, plain.join(name)).unwrap();
            }
            if !is_reused.load(Ordering::SeqCst) {
                evener_core::skipped!("this file system does not use a number again at once");
            }
        }
    };
    let report = encrypt(&plain, &sealed, &meddling(deed));
    assert_eq!(report.hard_links, 0, "{:?}", report.failures);
    assert!(run(Operation::Decrypt, &sealed, &back, &options()).is_success());
    for name in names {
        let Ok(content) = fs::read_to_string(back.join(&name)) else { continue };
        let expected = fs::read_to_string(plain.join(&name));
        let expected = expected.unwrap_or_else(|_| format!("old {name}"));
        assert_eq!(content, expected);
    }
}

#[test]
fn rewriting_a_file_shows_although_its_time_was_set_back() {
    for (length, skip_changing) in [(100, true), (2_000_000, true), (100, false)] {
        let home = home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        fs::create_dir(&plain).unwrap();
        fs::write(plain.join("file"), bytes(length)).unwrap();
        let path = plain.join("file");
        let deed = move || {
            let mut file = File::options().write(true).open(&path).unwrap();
            let before = file.metadata().unwrap().modified().unwrap();
            std::thread::sleep(Duration::from_millis(20));
            file.write_all(b"torn").unwrap();
            file.set_modified(before).unwrap();
        };
        let options = meddling(deed).with(|it| it.tree.skip_changing = skip_changing);
        let report = encrypt(&plain, &sealed, &options);
        assert_eq!(report.failures.len(), 1);
        let (error, outputs) = match skip_changing {
            true => (FileError::Changed, 0),
            false => (FileError::StoredChanging, 1),
        };
        assert_eq!(report.failures[0].error, error);
        assert_eq!(fs::read_dir(&sealed).unwrap().count(), outputs);
    }
}

#[test]
fn set_id_bits_need_the_owner() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("sub")).unwrap();
    for (name, bits) in [("setuid", 0o4755), ("setgid", 0o2755), ("both", 0o6711)] {
        fs::write(plain.join(name), bytes(100)).unwrap();
        set_mode(&plain.join(name), bits);
    }
    set_mode(&plain.join("sub"), 0o3775);
    assert!(encrypt(&plain, &sealed, &options()).is_success());
    let sealed_modes = |sealed: &Path| {
        ["setuid.enc", "setgid.enc", "both.enc", "sub"].map(|name| mode(&sealed.join(name)))
    };
    assert_eq!(sealed_modes(&sealed), [0o755, 0o755, 0o711, 0o1775]);
    // The owner of the sealed tree sets these modes.
    set_mode(&sealed.join("setuid.enc"), 0o4755);
    set_mode(&sealed.join("sub"), 0o6777);
    set_mode(&sealed, 0o2777);
    assert!(run(Operation::Decrypt, &sealed, &back, &options()).is_success());
    assert_eq!(mode(&back.join("setuid")), 0o755);
    assert_eq!((mode(&back.join("sub")), mode(&back)), (0o777, 0o777));
}

#[test]
fn a_directory_that_was_there_keeps_its_mode_and_times() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("sub")).unwrap();
    fs::create_dir_all(plain.join("empty")).unwrap();
    fs::create_dir_all(plain.join("new")).unwrap();
    fs::write(plain.join("sub/file"), bytes(100)).unwrap();
    for (name, bits) in [("sub", 0o750), ("empty", 0o755), ("new", 0o500), ("", 0o700)] {
        set_mode(&plain.join(name), bits);
    }
    for (name, bits) in [("", 0o1777), ("sub", 0o700), ("empty", 0o2700)] {
        fs::create_dir_all(sealed.join(name)).unwrap();
        set_mode(&sealed.join(name), bits);
    }
    let modes = || ["", "sub", "empty", "new"].map(|name| mode(&sealed.join(name)));
    let modified = || fs::metadata(sealed.join("empty")).unwrap().modified().unwrap();
    let before = modified();
    for overwrite in [false, true] {
        let report = encrypt(
            &plain,
            &sealed,
            &options().with(|it| it.tree.existing = existing(overwrite, false)),
        );
        assert_eq!(report.is_success(), overwrite || report.files == 0 || modes()[3] == 0o500);
        assert!(report.notices.is_empty(), "{:?}", report.notices);
        assert_eq!(modes(), [0o1777, 0o700, 0o2700, 0o500]);
        assert_eq!(modified(), before);
    }
    // The run can't know whether an interrupted run made those.
    let report =
        encrypt(&plain, &sealed, &options().with(|it| it.tree.existing = Existing::resume()));
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!(report.notices.len(), 3, "{:?}", report.notices);
    assert!(report.notices[0].reason.contains("there before with another mode"));
    assert_eq!((modes(), modified()), ([0o1777, 0o700, 0o2700, 0o500], before));
}

#[test]
fn a_resumed_run_ends_what_an_interrupted_one_left_of_directories() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("sub")).unwrap();
    set_mode(&plain.join("sub"), 0o1550);
    fs::create_dir_all(sealed.join("sub")).unwrap();
    // As a run creates it, before finishing its files.
    set_mode(&sealed.join("sub"), 0o750);
    let report =
        encrypt(&plain, &sealed, &options().with(|it| it.tree.existing = Existing::resume()));
    assert!(report.is_success() && report.notices.is_empty(), "{report:?}");
    assert_eq!(mode(&sealed.join("sub")), 0o1550);
    let modified = |tree: &Path| fs::metadata(tree.join("sub")).unwrap().modified().unwrap();
    assert_eq!(modified(&sealed), modified(&plain));

    // With owners, a run creates all directories for the user alone, and gives nobody else access
    // to a directory that may have existed before.
    set_mode(&plain.join("sub"), 0o755);
    set_mode(&sealed.join("sub"), 0o700);
    let report = encrypt(
        &plain,
        &sealed,
        &options().with(|it| {
            it.tree.existing = Existing::resume();
            it.tree.owner = true;
        }),
    );
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!((mode(&sealed.join("sub")), report.notices.len()), (0o700, 1));
}

#[test]
fn a_target_around_the_source_is_refused() {
    let home = home();
    let at = |name: &str| home.path().join(name);
    fs::create_dir_all(at("n/d/d/e")).unwrap();
    fs::create_dir_all(at("n/d/e")).unwrap();
    fs::write(at("n/d/d/e/x"), "x").unwrap();
    fs::write(at("n/d/e/x.enc"), "KEEP").unwrap();
    symlink("n/d", at("source")).unwrap();
    symlink("n", at("target")).unwrap();
    set_mode(&at("n"), 0o711);
    for dry_run in [true, false] {
        let options = options().with(|it| {
            it.tree.existing = Existing::Overwrite;
            it.tree.dry_run = dry_run;
        });
        for source in ["n/d", "source"] {
            for target in ["n", "target", "", "n/d/.."] {
                let (source, target) = (at(source), at(target));
                let keys = cobblestone();
                let refused = process(Operation::Encrypt, &keys, &source, Some(&target), &options);
                let refused = refused.unwrap_err();
                assert!(refused.error.to_string().starts_with("contains the source"), "{refused}");
                assert_eq!(refused.path, target);
            }
        }
    }
    assert_eq!(fs::read(at("n/d/e/x.enc")).unwrap(), b"KEEP");
    // A single file's output may go into the file's own directory.
    assert!(encrypt(&at("n/d/d/e/x"), &at("n/d/d/e"), &options()).is_success());
}

/// Below followed links, the two trees can meet in the middle of the walk.
#[test]
fn no_directory_is_of_the_source_and_the_target() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("a")).unwrap();
    fs::create_dir_all(sealed.join("link")).unwrap();
    fs::write(plain.join("a/x"), "x").unwrap();
    fs::write(sealed.join("link/x.enc"), "KEEP").unwrap();
    fs::write(sealed.join("x"), "x").unwrap();
    symlink(&sealed, plain.join("link")).unwrap();
    let following = options().with(|it| {
        it.tree.follow_symlinks = true;
        it.tree.existing = Existing::Overwrite;
    });
    let report = encrypt(&plain, &sealed, &following);
    let errors: Vec<_> = report.failures.iter().map(|f| f.error.to_string()).collect();
    assert!(errors.len() == 1 && errors[0].starts_with("holds outputs"), "{errors:?}");
    assert_eq!(fs::read(sealed.join("link/x.enc")).unwrap(), b"KEEP");

    // Here some directories are sources before an output would go to them, and some afterwards: the
    // walk takes them in reverse order of the system's listing.
    fs::remove_file(plain.join("link")).unwrap();
    let (from, to) = (plain.join("sub"), sealed.join("sub"));
    fs::create_dir(&from).unwrap();
    for number in 0..8 {
        let [real, link] = ["real", "link"].map(|name| from.join(format!("{name}{number}")));
        let there = to.join(format!("real{number}"));
        fs::create_dir_all(&there).unwrap();
        fs::write(there.join("x.enc"), "KEEP").unwrap();
        if number % 2 == 0 {
            symlink(&there, &link).unwrap();
        }
        fs::create_dir(&real).unwrap();
        fs::write(real.join("x"), "x").unwrap();
        if number % 2 == 1 {
            symlink(&there, &link).unwrap();
        }
    }
    let listed: Vec<_> = fs::read_dir(&from).unwrap().map(|it| it.unwrap().file_name()).collect();
    let place = |name: String| listed.iter().position(|it| **it == *name).unwrap();
    let report = encrypt(&plain, &sealed, &following);
    assert_eq!(report.failures.len(), 8, "{:?}", report.failures);
    let mut sources_first = 0;
    for number in 0..8 {
        let [real, link] = ["real", "link"].map(|name| format!("{name}{number}"));
        let content = fs::read(to.join(&real).join("x.enc")).unwrap();
        let (failed, why) = if place(link.clone()) > place(real.clone()) {
            sources_first += 1;
            assert_eq!(content, b"KEEP", "a source was replaced by an output");
            (&real, "its output directory is one of the source")
        } else {
            assert_ne!(content, b"KEEP");
            (&link, "holds outputs of this run")
        };
        let failure = report.failures.iter().find(|it| it.path == from.join(failed));
        let error = failure.map(|it| it.error.to_string()).unwrap_or_default();
        assert!(error.starts_with(why), "{number}: {:?}", report.failures);
    }
    println!("{sources_first} of 8 were sources first");
    assert!(sources_first > 0);
}

/// A link can lead to the very directory that would hold its own outputs.
#[test]
fn no_directory_is_its_own_output() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(&plain).unwrap();
    fs::create_dir_all(sealed.join("own")).unwrap();
    fs::write(sealed.join("own/x"), "x").unwrap();
    symlink(sealed.join("own"), plain.join("own")).unwrap();
    for dry_run in [true, false] {
        let following = options().with(|it| {
            it.tree.follow_symlinks = true;
            it.tree.dry_run = dry_run;
        });
        let report = encrypt(&plain, &sealed, &following);
        assert_eq!(report.failures.len(), 1, "{report:?}");
        let error = report.failures[0].error.to_string();
        assert!(error.starts_with("its output directory is one of the source"), "{error}");
        assert_eq!(fs::read_dir(sealed.join("own")).unwrap().count(), 1);
    }
}

#[test]
fn links_of_strangers_in_common_directories_are_not_followed() {
    let home = home();
    let [common, plain, file, mine] =
        ["common", "plain", "file", "mine"].map(|name| home.path().join(name));
    for directory in [&common, &plain, &mine] {
        fs::create_dir(directory).unwrap();
    }
    set_mode(&common, 0o1777);
    fs::write(&file, bytes(100)).unwrap();
    fs::write(plain.join("file"), bytes(100)).unwrap();
    fs::write(mine.join("file"), "mine").unwrap();
    let planted = ["to-file", "to-tree", "to-nothing", "to-device"];
    let texts = ["../mine/file", "../mine", "../mine/new", "/dev/null"];
    for (name, text) in planted.iter().zip(texts) {
        symlink(text, common.join(name)).unwrap();
    }
    let overwriting = options().with(|it| it.tree.existing = Existing::Overwrite);
    let run = |source: &Path, name: &str| {
        let target = common.join(name);
        process(Operation::Encrypt, &cobblestone(), source, Some(&target), &overwriting)
    };
    let give = |owner| {
        planted
            .iter()
            .all(|name| std::os::unix::fs::lchown(common.join(name), Some(owner), None).is_ok())
    };
    if !give(12_345) {
        evener_core::skipped!("only root can make links of other users");
        return;
    }
    for (source, names) in [(&file, &planted[..]), (&plain, &["to-tree", "to-tree/", "to-nothing"])]
    {
        for name in names {
            let refused = run(source, name).unwrap_err().to_string();
            assert!(refused.contains("another user has put"), "{name}: {refused}");
        }
    }
    assert_eq!(fs::read(mine.join("file")).unwrap(), b"mine");
    assert_eq!(fs::read_dir(&mine).unwrap().count(), 1);
    // In a directory where not everybody can create links, their owner does not matter.
    set_mode(&common, 0o755);
    assert!(run(&file, "to-file").unwrap().is_success());
    set_mode(&common, 0o1777);
    assert!(give(0));
    assert!(run(&plain, "to-tree").unwrap().is_success());

    // A FIFO, from which its creator reads.
    let fifo = common.join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    // With a reader, opening it for writing does not wait.
    let reader = openat(CWD, &fifo, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    std::os::unix::fs::chown(&fifo, Some(12_345), None).unwrap();
    let refused = run(&file, "fifo").unwrap_err().to_string();
    assert!(refused.contains("another user has put"), "{refused}");
    assert_eq!(rustix::io::read(&reader, &mut [0; 8]).unwrap(), 0);
    std::os::unix::fs::chown(&fifo, Some(0), None).unwrap();
    assert!(run(&file, "fifo").unwrap().is_success());
    assert_eq!(rustix::io::read(&reader, &mut [0; 8]).unwrap(), 8);
}

#[test]
fn directories_of_strangers_in_common_directories_are_no_targets() {
    let home = home();
    let [common, plain] = ["common", "plain"].map(|name| home.path().join(name));
    let out = common.join("out");
    for directory in [&common, &plain, &out] {
        fs::create_dir(directory).unwrap();
    }
    set_mode(&common, 0o1777);
    set_mode(&out, 0o777);
    fs::write(plain.join("file"), bytes(100)).unwrap();
    if std::os::unix::fs::chown(&out, Some(12_345), None).is_err() {
        evener_core::skipped!("only root can make directories of other users");
        return;
    }
    let run = |source: &Path, target: &Path, options: &Options| {
        process(Operation::Encrypt, &cobblestone(), source, Some(target), options)
    };
    let file = plain.join("file");
    let shared = options().with(|it| it.tree.program.shared = Some(SharedTarget::default()));
    let planned = options().with(|it| it.tree.dry_run = true);
    let link = home.path().join("link");
    symlink(&out, &link).unwrap();
    let refused: [(&Path, &Path, &Options); 7] = [
        (&plain, &out, &options()),
        (&plain, &out.join(""), &options()),
        (&plain, &link, &options()),
        (&plain, &out, &planned),
        (&plain, &out.join("plain"), &shared),
        (&file, &out, &options()),
        (&file, &link, &planned),
    ];
    for (source, target, options) in refused {
        let refused = run(source, target, options).unwrap_err().to_string();
        assert!(refused.contains("another user has put"), "{target:?}: {refused}");
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    }
    // Entries that its owner, or the system, has made there are acceptable.
    for (source, common_of, out_of) in [(&plain, 0, 0), (&file, 12_345, 12_345)] {
        std::os::unix::fs::chown(&common, Some(common_of), None).unwrap();
        std::os::unix::fs::chown(&out, Some(out_of), None).unwrap();
        let overwriting = options().with(|it| it.tree.existing = Existing::Overwrite);
        assert!(run(source, &out, &overwriting).unwrap().is_success());
    }
}

#[test]
fn sources_below_followed_links_are_not_removed() {
    let home = home();
    let [plain, sealed, outside] =
        ["plain", "sealed", "outside"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), bytes(100)).unwrap();
    symlink(&outside, plain.join("link")).unwrap();
    let both = options().with(|it| {
        it.tree.follow_symlinks = true;
        it.tree.remove_source = true;
    });
    let refused = process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &both);
    assert!(matches!(refused.unwrap_err().error, FileError::Refused(_)));
    assert!(outside.join("file").exists() && !sealed.exists());

    // A single file behind a link is processed, but not removed.
    symlink("outside/file", home.path().join("alias")).unwrap();
    let alias = home.path().join("alias");
    assert!(encrypt(&alias, &sealed, &options()).is_success());
    let removing = options().with(|it| {
        it.tree.remove_source = true;
        it.tree.existing = Existing::Overwrite;
    });
    let refused = process(Operation::Encrypt, &cobblestone(), &alias, Some(&sealed), &removing);
    assert!(refused.is_err() && alias.exists());
}

#[test]
fn protected_files_are_no_sources_under_any_name() {
    for (remove_source, follow_symlinks) in [(true, false), (false, false), (false, true)] {
        let home = home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        fs::create_dir_all(plain.join("sub")).unwrap();
        fs::write(plain.join("my.key"), b"the key").unwrap();
        fs::write(plain.join("file"), bytes(100)).unwrap();
        fs::hard_link(plain.join("my.key"), plain.join("sub/other")).unwrap();
        symlink("my.key", plain.join("link")).unwrap();
        let mut protected = Protected::default();
        protected.add(&plain.join("my.key"));
        let options = options().with(|it| {
            it.tree.remove_source = remove_source;
            it.tree.follow_symlinks = follow_symlinks;
            it.tree.protected = protected;
        });
        let report = encrypt(&plain, &sealed, &options);
        assert!(report.is_success() && report.files == 1, "{:?}", report.failures);
        assert_eq!(report.notices.len(), if follow_symlinks { 3 } else { 2 });
        assert_eq!(fs::read(plain.join("my.key")).unwrap(), b"the key");
        assert!(plain.join("sub/other").exists() && !sealed.join("my.key.enc").exists());
        let alone = plain.join("my.key");
        assert!(
            process(Operation::Encrypt, &cobblestone(), &alone, Some(&sealed), &options).is_err()
        );
    }
}
