//! Tests entries that a user who may write to the trees puts in place of directories and links.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::child::{Errand, Flags, serve, shim};
use common::{bytes, cobblestone, existing, home, options, process};
use evener_place::{Existing, Operation};

#[test]
fn child() {
    serve();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Encrypts a tree; an entry created with this name is at once exchanged with `other`.
fn encrypt(plain: &Path, sealed: &Path, name: &str, other: &Path, flags: Flags) -> Output {
    let keys = "cobblestone-256";
    let errand =
        Errand { operation: Operation::Encrypt, keys, source: plain, target: sealed, flags };
    let mut command = errand.command();
    command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NAME", name);
    command.env("EVENER_FAULT_SWAP", other).output().unwrap()
}

/// It keeps the mode that its owner gave it, regardless of the source's mode.
#[test]
fn a_directory_with_something_in_it_is_not_taken_for_a_new_one() {
    for name in ["/sealed", "/public"] {
        for flags in [Flags::default(), Flags { overwrite: true, ..Flags::default() }] {
            let home = home();
            let [plain, sealed, private] =
                ["plain", "sealed", "private"].map(|name| home.path().join(name));
            fs::create_dir_all(plain.join("public")).unwrap();
            fs::write(plain.join("public/file"), bytes(100)).unwrap();
            set_mode(&plain, 0o777);
            set_mode(&plain.join("public"), 0o777);
            fs::create_dir(&private).unwrap();
            fs::write(private.join("secret"), "secret").unwrap();
            set_mode(&private, 0o700);
            let inode = fs::metadata(&private).unwrap().ino();

            let ended = encrypt(&plain, &sealed, name, &private, flags);
            let place =
                home.path().join(if name == "/sealed" { "sealed" } else { "sealed/public" });
            let there = fs::metadata(&place).unwrap();
            assert_eq!(there.ino(), inode, "{ended:?}");
            assert_eq!(there.permissions().mode() & 0o777, 0o700, "{ended:?}");
            assert!(place.join("secret").exists());
        }
    }
}

#[test]
fn what_takes_the_place_of_a_link_is_told() {
    let home = home();
    let [plain, sealed, other] = ["plain", "sealed", "other"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    symlink("nowhere", plain.join("link")).unwrap();
    for is_link in [true, false] {
        match is_link {
            true => symlink("elsewhere", &other).unwrap(),
            false => fs::write(&other, "other").unwrap(),
        }
        let before = fs::symlink_metadata(&other).unwrap().mtime_nsec();
        let ended = encrypt(&plain, &sealed, "/sealed/link", &other, Flags::default());
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        let told = String::from_utf8(ended.stderr).unwrap();
        assert!(told.contains("link: its output was replaced meanwhile"), "{told}");
        let after = fs::symlink_metadata(sealed.join("link")).unwrap().mtime_nsec();
        assert_eq!(before, after);
        fs::remove_dir_all(&sealed).unwrap();
        fs::remove_file(&other).unwrap();
    }
}

/// Another process that may write to both trees swaps directories for links to other places as fast
/// as it can. Nothing outside is read, written or changed.
#[test]
fn swapped_directories_lead_nowhere() {
    let home = home();
    let [plain, sealed, outside] =
        ["plain", "sealed", "outside"].map(|name| home.path().join(name));
    for name in ["a", "b", "c"] {
        fs::create_dir_all(plain.join(name)).unwrap();
        fs::create_dir_all(outside.join(name)).unwrap();
        fs::write(outside.join(name).join("secret"), b"secret").unwrap();
        set_mode(&outside.join(name), 0o700);
        for number in 0..8 {
            fs::write(plain.join(name).join(number.to_string()), bytes(500)).unwrap();
        }
        fs::hard_link(plain.join(name).join("0"), plain.join(name).join("same")).unwrap();
        symlink("0", plain.join(name).join("link")).unwrap();
        set_mode(&plain.join(name), 0o777);
    }
    let seen = |directory: &Path| {
        let entries = common::snapshot(directory).into_iter();
        entries
            .map(|(path, entry)| (path, entry.mode, entry.modified, entry.content))
            .collect::<Vec<_>>()
    };
    let before = seen(&outside);
    let (end, rounds) = (Instant::now() + Duration::from_secs(3), AtomicBool::new(true));
    std::thread::scope(|scope| {
        for tree in [&plain, &sealed] {
            let (outside, rounds) = (&outside, &rounds);
            scope.spawn(move || {
                while rounds.load(Ordering::Relaxed) {
                    for name in ["a", "b", "c"] {
                        let (there, away) = (tree.join(name), tree.with_extension(name));
                        if fs::rename(&there, &away).is_ok() {
                            let _ = symlink(outside.join(name), &there);
                            std::thread::yield_now();
                            let _ = fs::remove_file(&there);
                            if fs::rename(&away, &there).is_err() {
                                let _ = fs::remove_dir_all(&away);
                            }
                        }
                    }
                }
            });
        }
        let mut done = 0;
        while Instant::now() < end && done < 300 {
            let (overwrite, resume) = (done % 2 == 0, done % 3 == 0);
            let options = options().with(|it| {
                it.tree.existing = existing(overwrite, resume);
                it.tree.xattrs = true;
            });
            let _ = process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options);
            done += 1;
        }
        rounds.store(false, Ordering::Relaxed);
    });
    assert!(seen(&outside) == before, "something outside was changed");
    let names: Vec<PathBuf> = common::snapshot(&sealed).into_keys().collect();
    assert!(!names.iter().any(|name| name.ends_with("secret.enc")), "{names:?}");
}

/// A directory that a killed run made for one source must not become another source's.
#[test]
fn an_unfinished_directory_that_was_moved_stays_private() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    // Other users can write to the last directory, and therefore mark it.
    for (name, mode, there) in
        [("own", 0o755, 0o700), ("other", 0o750, 0o700), ("shared", 0o755, 0o770)]
    {
        fs::create_dir_all(plain.join(name)).unwrap();
        set_mode(&plain.join(name), mode);
        fs::create_dir_all(sealed.join(name)).unwrap();
        set_mode(&sealed.join(name), there);
    }
    let status = fs::metadata(plain.join("own")).unwrap();
    let mark = format!("{}:{}:755", status.uid(), status.gid());
    let mode = |name: &str| fs::metadata(sealed.join(name)).unwrap().mode() & 0o7777;
    for name in ["own", "other", "shared"] {
        let directory = sealed.join(name);
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(&directory, "user.evener.unfinished", mark.as_bytes(), flags)
            .is_err()
        {
            evener_core::skipped!("attributes: this filesystem has none");
            return;
        }
    }
    let options = options().with(|it| {
        it.tree.owner = true;
        it.tree.existing = Existing::resume();
    });
    let report =
        process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    assert_eq!(["own", "other", "shared"].map(mode), [0o755, 0o700, 0o770]);
    let mut told: Vec<_> = report.notices.iter().map(|notice| notice.path.clone()).collect();
    told.sort();
    assert_eq!(told, ["other", "shared"].map(|name| plain.join(name)));
}

/// A killed run may leave a directory without its mark and its mode.
#[test]
fn a_directory_that_was_only_made_gets_its_mode() {
    for owner in [false, true] {
        let home = home();
        let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
        // A killed run leaves no such directory with content, and a user made one with more access
        // than its final mode.
        let cases = [("below", 0o755, 0o1700), ("full", 0o755, 0o1700), ("wide", 0o750, 0o1707)];
        for (name, mode, there) in cases {
            fs::create_dir_all(plain.join(name)).unwrap();
            set_mode(&plain.join(name), mode);
            fs::create_dir_all(sealed.join(name)).unwrap();
            set_mode(&sealed.join(name), there);
        }
        fs::write(sealed.join("full/of"), "something").unwrap();
        let options = options().with(|it| {
            it.tree.owner = owner;
            it.tree.existing = Existing::resume();
        });
        let report =
            process(Operation::Encrypt, &cobblestone(), &plain, Some(&sealed), &options).unwrap();
        assert!(report.is_success(), "{:?}", report.failures);
        let mode = |name: &str| fs::metadata(sealed.join(name)).unwrap().mode() & 0o7777;
        assert_eq!(["below", "full", "wide"].map(mode), [0o755, 0o1700, 0o1707]);
    }
}
