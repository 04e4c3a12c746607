//! Tests unusual trees.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use common::child::{Errand, Flags, serve, shim};
use common::meddler::meddling;
use common::{
    Options, assert_same_tree, bytes, cobblestone, existing, home, options, process, round_trip,
    snapshot,
};
use evener_keys::KeyFile;
use evener_place::{Existing, FileError, Operation, Report, TreeOptions, list, random_access};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

#[test]
fn child() {
    serve();
}

fn encrypt(from: &Path, to: &Path, options: &Options) -> Report {
    process(Operation::Encrypt, &cobblestone(), from, Some(to), options).unwrap()
}

#[test]
fn a_file_that_changes_while_it_is_read_is_reported() {
    for length in [0, 100, 2_000_000] {
        for grows in [true, false] {
            let home = home();
            let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
            fs::create_dir(&plain).unwrap();
            fs::write(plain.join("file"), bytes(length)).unwrap();
            let file = File::options().write(true).open(plain.join("file")).unwrap();
            // It shrinks only while some content is left.
            let shrunk = |length: u64| if length > 8 { length - 8 } else { length + 1 };
            let options = meddling(move || {
                let length = file.metadata().unwrap().len();
                file.set_len(if grows { length + 1 } else { shrunk(length) }).unwrap();
            });
            let options = options.with(|it| it.tree.skip_changing = true);
            let report = encrypt(&plain, &sealed, &options);
            assert_eq!(report.failures.len(), 1, "{length} {grows}");
            let error = &report.failures[0].error;
            assert!(matches!(error, FileError::Changed | FileError::Refused(_)), "{error}");
            assert_eq!(report.failures[0].path, plain.join("file"));
            assert_eq!(fs::read_dir(&sealed).unwrap().count(), 0);
        }
    }
}

#[test]
fn a_file_that_becomes_a_link_is_refused() {
    let home = home();
    let [plain, sealed, secret] = ["plain", "sealed", "secret"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(&secret, b"secret").unwrap();
    for name in ["one", "two"] {
        fs::write(plain.join(name), bytes(10)).unwrap();
    }
    // Whichever is read first, the other becomes a link before it is opened.
    let swap = {
        let plain = plain.clone();
        move || {
            for name in ["one", "two"] {
                let _ = fs::remove_file(plain.join(name));
                symlink(&secret, plain.join(name)).unwrap();
            }
        }
    };
    let report = encrypt(&plain, &sealed, &meddling(swap));
    let causes: Vec<_> = report.failures.iter().map(|f| f.error.to_string()).collect();
    assert!(causes.iter().any(|cause| cause.contains("symbolic links")), "{causes:?}");
    assert!(fs::read_dir(&sealed).unwrap().count() <= 1);
}

#[test]
fn a_size_that_is_not_that_of_the_content_is_told() {
    let home = home();
    let sealed = home.path().join("sealed");
    // The first file shows no size, the second always a page's size.
    for source in ["/proc/version", "/sys/kernel/uevent_seqnum"].map(Path::new) {
        let (shown, content) = (fs::metadata(source).map(|it| it.len()), fs::read(source));
        let differs = shown.is_ok_and(|shown| content.is_ok_and(|it| it.len() as u64 != shown));
        if !differs {
            evener_core::skipped!("there is no special file {}", source.display());
            continue;
        }
        for remove_source in [false, true] {
            let report = encrypt(
                source,
                &sealed,
                &options().with(|it| it.tree.remove_source = remove_source),
            );
            let told: Vec<_> = report.failures.iter().map(|it| it.error.to_string()).collect();
            assert_eq!(told.len(), 1, "{report:?}");
            assert!(told[0].contains("a size that is not its content's"), "{told:?}");
            assert!(!sealed.exists());
        }
    }
}

#[test]
fn what_can_no_more_be_opened_is_named_on_its_own_side() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    for (vanishes, is_update) in
        [(&plain, false), (&sealed, false), (&plain, true), (&sealed, true)]
    {
        fs::create_dir_all(plain.join("sub")).unwrap();
        fs::write(plain.join("sub/file"), bytes(100)).unwrap();
        if is_update {
            assert!(encrypt(&plain, &sealed, &options()).is_success());
            fs::write(plain.join("sub/file"), bytes(101)).unwrap();
        }
        let directory = vanishes.join("sub");
        let deed = {
            let directory = directory.clone();
            move || {
                let _ = fs::rename(&directory, directory.with_extension("away"));
            }
        };
        let existing = if is_update { Existing::update() } else { Existing::Refuse };
        let report =
            encrypt(&plain, &sealed, &meddling(deed).with(|it| it.tree.existing = existing));
        let told: Vec<_> = report.failures.iter().map(ToString::to_string).collect();
        assert!(!told.is_empty());
        for failure in &report.failures {
            assert_eq!(failure.path, directory, "{told:?}");
            let error = failure.error.to_string();
            assert!(error.contains("No such file or directory"), "{told:?}");
        }
        let _ = fs::remove_dir_all(&plain);
        let _ = fs::remove_dir_all(&sealed);
    }
}

/// Encrypts `plain` in a process in which calls on files below it fail.
fn encrypt_with_fault(plain: &Path, sealed: &Path, fault: &[(&str, &str)]) -> Output {
    with_fault(plain, sealed, Flags::default(), fault)
}

fn with_fault(plain: &Path, sealed: &Path, flags: Flags, fault: &[(&str, &str)]) -> Output {
    let errand = Errand {
        operation: Operation::Encrypt,
        keys: "cobblestone-256",
        source: plain,
        target: sealed,
        flags,
    };
    let mut command = errand.command();
    command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NTH", "0");
    command.envs(fault.iter().map(|(name, value)| (format!("EVENER_FAULT_{name}"), value)));
    command.output().unwrap()
}

#[test]
fn what_may_not_be_read_is_named_and_all_else_is_done() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    for name in ["secret-file", "secret-directory/inside", "open/file", "open/other"] {
        let path = plain.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes(100)).unwrap();
    }
    let below = plain.to_str().unwrap();
    let eacces = [("CALL", "openat"), ("BELOW", below), ("NAME", "secret"), ("DO", "13")];
    let output = encrypt_with_fault(&plain, &sealed, &eacces);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(lines[0].contains("secret-directory: can't open the directory: Permission denied"));
    assert!(lines[1].contains("secret-file: can't open it: Permission denied"));
    assert!(sealed.join("open/file.enc").exists() && sealed.join("open/other.enc").exists());
}

#[test]
fn a_target_that_is_read_only_is_named_for_every_file() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::create_dir(&sealed).unwrap();
    fs::create_dir(plain.join("sub")).unwrap();
    for name in ["one", "two"] {
        fs::write(plain.join("sub").join(name), bytes(100)).unwrap();
    }
    let below = format!("{}/sub/", sealed.display());
    for (errno, text) in [("30", "Read-only file system"), ("13", "Permission denied")] {
        let fault = [("CALL", "openat"), ("BELOW", below.as_str()), ("DO", errno)];
        let output = encrypt_with_fault(&plain, &sealed, &fault);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert_eq!(errors.lines().filter(|line| line.contains(text)).count(), 2, "{errors}");
        assert_eq!(fs::read_dir(sealed.join("sub")).unwrap().count(), 0);
    }
}

#[test]
fn an_update_with_nothing_to_do_writes_nothing() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("sub/empty")).unwrap();
    fs::write(plain.join("sub/file"), bytes(100)).unwrap();
    assert!(encrypt(&plain, &sealed, &options()).is_success());
    let before = snapshot(&sealed);
    let below = sealed.to_str().unwrap();
    for flags in
        [Flags { update: true, ..Flags::default() }, Flags { resume: true, ..Flags::default() }]
    {
        for call in ["futimens", "fchmod"] {
            let fault = [("CALL", call), ("BELOW", below), ("DO", "30")];
            let output = with_fault(&plain, &sealed, flags, &fault);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{flags:?} {call}");
        }
    }
    assert!(snapshot(&sealed) == before);
    // If an attribute must be set but can't be, the message names the directory that lacks it.
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::open(plain.join("sub/empty")).unwrap().set_modified(long_ago).unwrap();
    let fault = [("CALL", "futimens"), ("BELOW", below), ("DO", "30")];
    let output = with_fault(&plain, &sealed, Flags { update: true, ..Flags::default() }, &fault);
    let errors = String::from_utf8(output.stderr).unwrap();
    let directory = sealed.join("sub/empty");
    let told = format!("{}: can't set its times: Read-only file system\n", directory.display());
    assert_eq!((output.status.code(), errors), (Some(1), told));
}

#[test]
fn an_error_at_an_output_names_it() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("sub")).unwrap();
    for (name, length) in [("sub/small", 100), ("sub/large", 400_000)] {
        fs::write(plain.join(name), bytes(length)).unwrap();
    }
    fs::hard_link(plain.join("sub/small"), plain.join("sub/same")).unwrap();
    symlink("small", plain.join("sub/link")).unwrap();
    let directory = sealed.join("sub");
    let directory = directory.to_str().unwrap();
    let (fresh, durable) = (Flags::default(), Flags { durable: true, ..Flags::default() });
    let changed = Flags { update: true, ..Flags::default() };
    for (call, flags) in [
        ("openat", fresh),
        ("pwrite", fresh),
        ("linkat", fresh),
        ("mkdirat", fresh),
        ("symlinkat", fresh),
        ("futimens", fresh),
        ("utimensat", fresh),
        ("fstat", fresh),
        ("syncfs", durable),
        ("fchmod", changed),
    ] {
        if flags.update {
            assert!(encrypt(&plain, &sealed, &options()).is_success());
            let output = sealed.join("sub/small.enc");
            fs::set_permissions(output, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let inside = format!("{directory}/");
        let below = if matches!(call, "mkdirat" | "syncfs") { directory } else { &inside };
        let fault = [("CALL", call), ("BELOW", below), ("DO", "30")];
        let output = with_fault(&plain, &sealed, flags, &fault);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{call}: {told}");
        for line in told.lines().filter(|line| !line.contains("is a hard link to")) {
            assert!(line.contains("Read-only file system"), "{call}: {line}");
            assert!(line.contains(directory), "{call}: {line}");
        }
        let _ = fs::remove_dir_all(&sealed);
    }
}

#[test]
fn the_times_of_a_link_that_cant_be_set_are_told() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    symlink("nowhere", plain.join("link")).unwrap();
    let below = sealed.to_str().unwrap();
    let failed = "link: can't set the link's times: Input/output error (its output is";
    let notice = "link: this file system keeps no times of symbolic links\n";
    for (errno, status, told) in [("5", 1, failed), ("95", 0, notice), ("2", 0, notice)] {
        let fault = [("CALL", "utimensat"), ("BELOW", below), ("DO", errno)];
        let output = encrypt_with_fault(&plain, &sealed, &fault);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{errors}");
        assert!(errors.starts_with(&format!("{}/{told}", plain.display())), "{errors}");
        assert_eq!(fs::read_link(sealed.join("link")).unwrap(), Path::new("nowhere"));
        fs::remove_dir_all(&sealed).unwrap();
    }
}

#[test]
fn a_full_disk_stops_nothing_but_what_does_not_fit() {
    let home = home();
    let [plain, small] = ["plain", "small"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::create_dir(&small).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=400k,nr_inodes=100", "none"])
        .arg(&small)
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        evener_core::skipped!("no filesystem can be mounted here");
        return;
    }
    let mounted = Mounted(small.clone());
    fs::write(plain.join("large"), bytes(900_000)).unwrap();
    for number in 0..20 {
        fs::write(plain.join(number.to_string()), bytes(3000)).unwrap();
    }
    let sealed = small.join("sealed");
    let report = encrypt(&plain, &sealed, &options());
    assert_eq!(report.failures.len() as u64 + report.files, 21);
    assert!(report.failures.iter().any(|f| f.path.ends_with("large")));
    for failure in &report.failures {
        let text = failure.error.to_string();
        assert!(text.contains("No space left on device"), "{text}");
    }
    assert_eq!(fs::read_dir(&sealed).unwrap().count() as u64, report.files, "leftovers");
    fs::remove_file(plain.join("large")).unwrap();
    let resumed =
        encrypt(&plain, &sealed, &options().with(|it| it.tree.existing = Existing::resume()));
    assert!(resumed.is_success(), "{:?}", resumed.failures);
    drop(mounted);
}

/// A mounted filesystem, unmounted on drop.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn names_are_bytes() {
    let home = home();
    let plain = home.path().join("plain");
    fs::create_dir(&plain).unwrap();
    for name in [&b"\xFF\xFE"[..], b"new\nline", b" ", b"-", b"--help", b"\x1B[31m", b"a.enc", b"*"]
    {
        fs::write(plain.join(OsStr::from_bytes(name)), bytes(name.len())).unwrap();
        let directory = [name, b"-directory\xC0"].concat();
        fs::create_dir(plain.join(OsStr::from_bytes(&directory))).unwrap();
    }
    symlink(OsStr::from_bytes(b"\xFF\xFE"), plain.join(OsStr::from_bytes(b"\x80link"))).unwrap();
    round_trip("names", &cobblestone(), &plain, home.path(), &options());
}

#[test]
fn a_name_that_is_too_long_with_the_suffix_is_named() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    for length in [251, 252, 255] {
        fs::write(plain.join("n".repeat(length)), bytes(length)).unwrap();
        fs::create_dir(plain.join("d".repeat(length))).unwrap();
        symlink("x", plain.join("l".repeat(length))).unwrap();
    }
    fs::write(plain.join("large").with_file_name("m".repeat(253)), bytes(900_000)).unwrap();
    for overwrite in [false, true] {
        let report = encrypt(
            &plain,
            &sealed,
            &options().with(|it| it.tree.existing = existing(overwrite, false)),
        );
        let failed: Vec<_> = report.failures.iter().map(|f| f.path.clone()).collect();
        let expected = ["m".repeat(253), "n".repeat(252), "n".repeat(255)];
        assert_eq!(failed, expected.map(|name| plain.join(name)));
        for failure in &report.failures {
            assert!(matches!(failure.error, FileError::NameTooLong { .. }), "{failure:?}");
            assert!(failure.error.to_string().contains("suffix"));
        }
        assert_eq!(fs::read_dir(&sealed).unwrap().count(), 7);
    }
}

#[test]
fn a_directory_in_the_place_of_an_output_and_the_reverse() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("a.enc")).unwrap();
    fs::write(plain.join("a.enc/inside"), bytes(1)).unwrap();
    fs::write(plain.join("a"), bytes(2)).unwrap();
    fs::create_dir_all(plain.join("b.enc")).unwrap();
    fs::write(plain.join("c"), bytes(3)).unwrap();
    fs::create_dir_all(&sealed).unwrap();
    fs::write(sealed.join("b.enc"), b"a file").unwrap();
    for overwrite in [false, true] {
        for remove_source in [false, true] {
            let options = options().with(|it| {
                it.tree.remove_source = remove_source;
                it.tree.existing = Existing::Resume { overwrite };
            });
            let report = encrypt(&plain, &sealed, &options);
            assert!(report.failures.iter().any(|f| f.path.ends_with("b.enc")), "{report:?}");
            // Either `a` or `a.enc` comes first; neither may harm the other.
            assert!(
                report.failures.iter().any(|f| f.path.starts_with(plain.join("a"))
                    || f.path.starts_with(plain.join("a.enc")))
            );
            assert_eq!(fs::read(sealed.join("b.enc")).unwrap(), b"a file");
            let inside = sealed.join("a.enc/inside.enc").exists();
            assert!(inside || plain.join("a.enc/inside").exists());
            assert!(!sealed.join("a.enc").is_dir() || plain.join("a").exists());
        }
    }
}

#[test]
fn pipes_sockets_and_devices_are_skipped_with_a_notice() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file"), bytes(10)).unwrap();
    let make = |arguments: &[&str]| {
        let status = Command::new(arguments[0]).args(&arguments[1..]).current_dir(&plain).output();
        status.is_ok_and(|output| output.status.success())
    };
    let mut expected = vec!["FIFO skipped", "socket skipped"];
    assert!(make(&["mkfifo", "fifo"]));
    let _socket = std::os::unix::net::UnixListener::bind(plain.join("socket")).unwrap();
    match make(&["mknod", "null", "c", "1", "3"]) {
        true => expected.insert(1, "device skipped"),
        false => evener_core::skipped!("devices: this user may not make them"),
    }
    for follow_symlinks in [false, true] {
        let options = options().with(|it| {
            it.tree.follow_symlinks = follow_symlinks;
            it.tree.existing = Existing::Overwrite;
        });
        let report = encrypt(&plain, &sealed, &options);
        assert!(report.is_success() && report.files == 1, "{:?}", report.failures);
        let notices: Vec<_> = report.notices.iter().map(|notice| &*notice.reason).collect();
        assert_eq!(notices, expected);
    }
    // Named alone, it is refused, without waiting for its writer.
    for name in ["fifo", "socket"] {
        let (keys, path) = (cobblestone(), plain.join(name));
        for operation in [Operation::Encrypt, Operation::Decrypt, Operation::Verify] {
            let target = Some(&*sealed).filter(|_| operation != Operation::Verify);
            let refused = process(operation, &keys, &path, target, &options()).unwrap_err();
            assert!(refused.to_string().contains("is neither a file nor a tree"), "{refused}");
        }
        let refused = list(&path, None, &TreeOptions::default()).unwrap_err();
        assert!(refused.to_string().contains("is neither a file nor a tree"), "{refused}");
        let engine = options().run.reference.unwrap();
        assert!(random_access(&path, &keys, engine.clone()).is_err());
        assert!(KeyFile::read(&path).is_err());
    }
    let listing = list(&plain, None, &TreeOptions::default()).unwrap();
    assert_eq!((listing.files.len(), listing.failures.len()), (1, 0));
}

#[test]
fn holes_come_back_when_asked_for() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    let file = File::create(plain.join("sparse")).unwrap();
    for at in [0, 700_001, 3_000_000] {
        file.write_all_at(&bytes(10_000), at).unwrap();
    }
    file.set_len(4_000_001).unwrap();
    File::create(plain.join("all hole")).unwrap().set_len(1 << 20).unwrap();
    File::create(plain.join("small hole")).unwrap().set_len(8192).unwrap();
    assert!(encrypt(&plain, &sealed, &options()).is_success());
    for remove_source in [false, true] {
        let _ = fs::remove_dir_all(&back);
        let options = options().with(|it| {
            it.tree.sparse = true;
            it.tree.existing = Existing::Overwrite;
            it.tree.remove_source = remove_source;
        });
        let report =
            process(Operation::Decrypt, &cobblestone(), &sealed, Some(&back), &options).unwrap();
        assert!(report.is_success(), "{:?}", report.failures);
        assert_same_tree(&plain, &back);
        let blocks = |name: &str| fs::metadata(back.join(name)).unwrap().blocks() * 512;
        let taken = ["sparse", "all hole", "small hole"].map(blocks);
        assert!(taken[0] < 200_000 && taken[1..] == [0, 0], "{taken:?}");
    }
}

#[test]
fn owners_and_attributes_are_kept_when_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("sub")).unwrap();
    fs::write(plain.join("sub/file"), bytes(10)).unwrap();
    fs::write(plain.join("setuid"), bytes(10)).unwrap();
    let large = vec![b'x'; 3000];
    let set = |path: &str, name: &str, value: &[u8]| {
        rustix::fs::setxattr(plain.join(path), name, value, rustix::fs::XattrFlags::empty())
    };
    let xattrs = set("sub", "user.colour", b"blue").is_ok()
        && set("sub/file", "user.empty", b"").is_ok()
        && set("sub/file", "user.large", &large).is_ok();
    if !xattrs {
        evener_core::skipped!("attributes: this filesystem has none");
    }
    let owner = std::os::unix::fs::chown(plain.join("setuid"), Some(1234), Some(2345)).is_ok();
    if owner {
        fs::set_permissions(plain.join("setuid"), fs::Permissions::from_mode(0o6755)).unwrap();
    } else {
        evener_core::skipped!("owners: this user may not give files away");
    }
    let options = options().with(|it| {
        it.tree.owner = owner;
        it.tree.xattrs = xattrs;
    });
    assert!(encrypt(&plain, &sealed, &options).is_success());
    let report =
        process(Operation::Decrypt, &cobblestone(), &sealed, Some(&back), &options).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    assert_same_tree(&plain, &back);
    let read = |path: &str, name: &str| {
        let mut value = vec![0; 4000];
        let length = rustix::fs::getxattr(back.join(path), name, &mut *value).unwrap();
        value.truncate(length);
        value
    };
    if xattrs {
        assert_eq!(read("sub", "user.colour"), b"blue");
        assert_eq!(read("sub/file", "user.empty"), b"");
        assert_eq!(read("sub/file", "user.large"), large);
    }
    if owner {
        let metadata = fs::metadata(back.join("setuid")).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 2345));
    }
}

/// A chain of directories, each created below the previous one since its path is too long for one
/// call.
fn make_deep(root: &Path, levels: usize) {
    fs::create_dir(root).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&at, "down", Mode::RWXU).unwrap();
        at = openat(&at, "down", flags, Mode::empty()).unwrap();
    }
    let file = openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    rustix::io::write(&file, b"deep down").unwrap();
}

#[test]
fn a_very_deep_tree_is_done() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    make_deep(&plain, 2000);
    fs::write(plain.join("shallow"), bytes(10)).unwrap();
    let report = encrypt(&plain, &sealed, &options());
    assert!(report.is_success(), "{:?}", report.failures.first());
    let report =
        process(Operation::Decrypt, &cobblestone(), &sealed, Some(&back), &options()).unwrap();
    assert!(report.is_success(), "{:?}", report.failures.first());
    assert_eq!(report.files, 2);
    let listing = list(&sealed, Some(&cobblestone()), &TreeOptions::default()).unwrap();
    assert_eq!((listing.files.len(), listing.failures.len()), (2, 0), "{:?}", listing.failures);
    assert!(listing.files.iter().all(|file| file.certain));
}

#[test]
fn few_open_files_are_enough_for_many_directories() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    for number in 0..1000 {
        let directory = plain.join(number.to_string());
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), bytes(number)).unwrap();
    }
    make_deep(&plain.join("deep"), 1200);
    for durable in [false, true] {
        let errand = Errand {
            operation: Operation::Encrypt,
            keys: "cobblestone-256",
            source: &plain,
            target: &sealed,
            flags: Flags { durable, overwrite: true, ..Flags::default() },
        };
        let mut limited = errand.command();
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 1024 && exec \"$0\" \"$@\""]);
        command.arg(limited.get_program()).args(limited.get_args());
        command.envs(limited.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.env_clear();
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "durable {durable}: {errors}");
    }
}

#[test]
fn a_directory_of_many_files() {
    let home = home();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    for number in 0..5000 {
        fs::write(plain.join(format!("{number:06}")), b"x").unwrap();
    }
    let report = encrypt(&plain, &sealed, &options());
    assert!(report.is_success() && report.files == 5000);
    let report =
        process(Operation::Decrypt, &cobblestone(), &sealed, Some(&back), &options()).unwrap();
    assert!(report.is_success() && report.files == 5000);
    assert_same_tree(&plain, &back);
}

#[test]
fn planning_writes_nothing() {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file"), bytes(10)).unwrap();
    let before = snapshot(home.path());
    for remove_source in [false, true] {
        let planning = options().with(|it| {
            it.tree.dry_run = true;
            it.tree.remove_source = remove_source;
        });
        let report = encrypt(&plain, &sealed, &planning);
        assert!(report.is_success() && report.dry_run);
        assert_eq!(snapshot(home.path()), before);
    }
}
