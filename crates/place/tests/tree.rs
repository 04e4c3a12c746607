//! Tests round trips of trees and files.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{
    Options, assert_same_tree, bytes, cobblestone, every_key_ring, home, options, process,
    round_trip, snapshot,
};
use evener_place::{Control, Existing, Failure, FileError, Operation, Report, has_files, measure};

fn encrypt(keys: &evener_place::KeyRing, from: &Path, to: &Path, options: &Options) -> Report {
    process(Operation::Encrypt, keys, from, Some(to), options).unwrap()
}

fn decrypt(keys: &evener_place::KeyRing, from: &Path, to: &Path, options: &Options) -> Report {
    process(Operation::Decrypt, keys, from, Some(to), options).unwrap()
}

/// Sizes around every boundary: chunks, segments, buffers.
const SIZES: &[usize] = &[
    0, 1, 15, 16, 17, 16_383, 16_384, 16_385, 32_768, 65_535, 65_536, 65_537, 262_144, 270_000,
    271_000, 1_048_576, 3_000_001,
];

fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("deep/er/est")).unwrap();
    fs::create_dir_all(root.join("empty")).unwrap();
    for &size in SIZES {
        fs::write(root.join(format!("size-{size}")), bytes(size)).unwrap();
    }
    for number in 0..100 {
        fs::write(root.join(format!("deep/er/{number}")), bytes(number * 37)).unwrap();
    }
    symlink("../size-1", root.join("deep/link")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    fs::hard_link(root.join("size-17"), root.join("deep/er/est/other-name")).unwrap();
    fs::set_permissions(root.join("size-16"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(root.join("size-15"), fs::Permissions::from_mode(0o1755)).unwrap();
    fs::set_permissions(root.join("empty"), fs::Permissions::from_mode(0o555)).unwrap();
}

#[test]
fn every_format_brings_a_tree_back_whole() {
    for (name, keys) in every_key_ring() {
        let home = tempfile::tempdir().unwrap();
        let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
        make_tree(&plain);
        let before = snapshot(&plain);

        let encrypted = encrypt(&keys, &plain, &sealed, &options());
        assert!(encrypted.is_success(), "{name}: {:?}", encrypted.failures);
        assert_eq!(encrypted.files as usize, SIZES.len() + 100, "{name}");
        assert_eq!((encrypted.hard_links, encrypted.symlinks), (1, 2), "{name}");

        let verified = process(Operation::Verify, &keys, &sealed, None, &options()).unwrap();
        assert!(verified.is_success(), "{name}: {:?}", verified.failures);
        assert_eq!(verified.files, encrypted.files + 1, "{name}: links are verified as files");

        let decrypted = decrypt(&keys, &sealed, &back, &options());
        assert!(decrypted.is_success(), "{name}: {:?}", decrypted.failures);
        assert_same_tree(&plain, &back);
        assert_eq!(snapshot(&plain), before, "{name}: the source was touched");
        let inode = |path: &str| fs::metadata(back.join(path)).unwrap().ino();
        assert_eq!(inode("size-17"), inode("deep/er/est/other-name"));
    }
}

#[test]
fn a_single_file_goes_to_a_file_or_into_a_directory() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::write(at("plain"), bytes(50_000)).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let keys = cobblestone();
    assert!(encrypt(&keys, &at("plain"), &at("sealed"), &options()).is_success());
    assert!(encrypt(&keys, &at("plain"), &at("directory"), &options()).is_success());
    assert!(decrypt(&keys, &at("sealed"), &at("back"), &options()).is_success());
    assert!(decrypt(&keys, &at("directory/plain.enc"), &at("directory"), &options()).is_success());
    assert_eq!(fs::read(at("back")).unwrap(), bytes(50_000));
    assert_eq!(fs::read(at("directory/plain")).unwrap(), bytes(50_000));
}

#[test]
fn existing_outputs_are_refused_skipped_or_replaced() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    make_tree(&plain);
    let keys = cobblestone();
    let first = encrypt(&keys, &plain, &sealed, &options());
    assert!(first.is_success(), "{:?}", first.failures);
    let content = fs::read(sealed.join("size-1.enc")).unwrap();

    let refused = encrypt(&keys, &plain, &sealed, &options());
    assert_eq!(refused.files, 0);
    assert_eq!(refused.failures.len() as u64, first.files + first.hard_links + first.symlinks);
    assert_eq!(fs::read(sealed.join("size-1.enc")).unwrap(), content);

    fs::remove_file(sealed.join("deep/er/7.enc")).unwrap();
    fs::write(plain.join("size-1"), b"newer and longer").unwrap();
    let resumed = encrypt(
        &keys,
        &plain,
        &sealed,
        &options().with(|it| it.tree.existing = Existing::resume()),
    );
    assert_eq!(resumed.files, 1);
    assert_eq!(resumed.files_skipped, first.files - 2);
    assert_eq!(resumed.failures.len(), 1, "{:?}", resumed.failures);
    assert!(resumed.failures[0].path.ends_with("size-1"));

    let both = options().with(|it| it.tree.existing = Existing::Resume { overwrite: true });
    let renewed = encrypt(&keys, &plain, &sealed, &both);
    assert!(renewed.is_success(), "{:?}", renewed.failures);
    assert_eq!(renewed.files, 1);
    let replaced = encrypt(
        &keys,
        &plain,
        &sealed,
        &options().with(|it| it.tree.existing = Existing::Overwrite),
    );
    assert!(replaced.is_success(), "{:?}", replaced.failures);
    assert_eq!(replaced.files, first.files);
}

#[test]
fn sources_are_removed_only_when_asked() {
    for (name, keys) in every_key_ring() {
        let home = tempfile::tempdir().unwrap();
        let [plain, copy, sealed, back] =
            ["plain", "copy", "sealed", "back"].map(|name| home.path().join(name));
        make_tree(&plain);
        make_tree(&copy);
        let removing = options().with(|it| it.tree.remove_source = true);
        let encrypted = encrypt(&keys, &plain, &sealed, &removing);
        assert!(encrypted.is_success(), "{name}: {:?}", encrypted.failures);
        if !keys.primary().cipher().is_authenticated() {
            // A wrong key would go unnoticed, and the only copy would be lost.
            let before = snapshot(&sealed);
            let refused = process(Operation::Decrypt, &keys, &sealed, Some(&back), &removing);
            assert!(matches!(refused.unwrap_err().error, FileError::Refused(_)), "{name}");
            assert_eq!(snapshot(&sealed), before, "{name}");
            continue;
        }
        let decrypted = decrypt(&keys, &sealed, &back, &removing);
        assert!(decrypted.is_success(), "{name}: {:?}", decrypted.failures);
        for gone in [&plain, &sealed] {
            assert!(snapshot(gone).values().all(|entry| !entry.is_file()), "{name}");
        }
        let contents = |root: &Path| {
            snapshot(root)
                .into_iter()
                .map(|(path, entry)| (path, entry.content))
                .collect::<Vec<_>>()
        };
        assert_eq!(contents(&copy), contents(&back), "{name}");
    }
}

#[test]
fn a_stopped_operation_leaves_only_whole_files() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    make_tree(&plain);
    let control = Arc::new(Control::default());
    control.stop();
    let stopping = options().with(|it| it.run.control = control);
    let report = encrypt(&cobblestone(), &plain, &sealed, &stopping);
    assert!(report.interrupted && report.failures.is_empty());
    assert_eq!(report.files, 0);
    assert!(snapshot(&sealed).values().all(|entry| !entry.is_file()));
}

#[test]
fn every_byte_of_a_source_counts_as_progress() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed, back] = ["plain", "sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("long"), bytes(5_000_000)).unwrap();
    fs::write(plain.join("short"), bytes(100)).unwrap();
    for (name, keys) in every_key_ring() {
        for (operation, from, to) in [
            (Operation::Encrypt, &plain, Some(&sealed)),
            (Operation::Verify, &sealed, None),
            (Operation::Decrypt, &sealed, Some(&back)),
        ] {
            let control = Arc::new(Control::default());
            // Buffers so short that the long file has several segments.
            let memory = 8 << 20;
            let options = options().with(|it| {
                it.run.control = control.clone();
                it.run.memory = memory;
                it.tree.measure_total = true;
            });
            let report =
                process(operation, &keys, from, to.map(PathBuf::as_path), &options).unwrap();
            assert!(report.is_success(), "{name}: {:?}", report.failures);
            let progress = control.progress();
            assert_eq!(progress.done_bytes, progress.found_bytes, "{name} {operation:?}");
            assert_eq!(progress.done_bytes, report.bytes, "{name} {operation:?}");
        }
        fs::remove_dir_all(&sealed).unwrap();
        fs::remove_dir_all(&back).unwrap();
    }
}

#[test]
fn targets_inside_the_source_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let plain = home.path().join("plain");
    make_tree(&plain);
    symlink(&plain, home.path().join("alias")).unwrap();
    let keys = cobblestone();
    for target in ["plain", "plain/deep/new", "alias/deep", "plain/../plain/x"] {
        let target = home.path().join(target);
        let refused = process(Operation::Encrypt, &keys, &plain, Some(&target), &options());
        let error = refused.unwrap_err().error.to_string();
        let told = if target == plain { "is the source itself" } else { "inside the source" };
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn what_is_no_file_is_skipped_with_a_notice() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("file"), b"x").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(plain.join("socket")).unwrap();
    let report = encrypt(&cobblestone(), &plain, &sealed, &options());
    assert!(report.is_success());
    assert_eq!(report.notices.len(), 1);
    assert_eq!(report.notices[0].reason, "socket skipped");
}

#[test]
fn followed_links_may_not_loop() {
    let home = tempfile::tempdir().unwrap();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::create_dir_all(plain.join("a")).unwrap();
    fs::write(plain.join("a/file"), b"content").unwrap();
    symlink("..", plain.join("a/up")).unwrap();
    symlink("a/file", plain.join("link")).unwrap();
    let following = options().with(|it| it.tree.follow_symlinks = true);
    let report = encrypt(&cobblestone(), &plain, &sealed, &following);
    assert_eq!(report.files, 2);
    assert_eq!(report.failures.len(), 1);
    assert!(sealed.join("link.enc").metadata().unwrap().is_file());
}

/// Links to places around the source or its outputs, and into the kernel's file systems, under any
/// names and through any mounts.
#[test]
fn followed_links_lead_to_nothing_around_the_trees() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let (plain, sealed) = (at("outer/inner/plain"), at("other/place/sealed"));
    fs::create_dir_all(&plain).unwrap();
    fs::create_dir_all(sealed.parent().unwrap()).unwrap();
    for (name, content) in [("outer/around", "around"), ("other/place/beside", "beside")] {
        fs::write(at(name), content).unwrap();
    }
    fs::create_dir(at("fine")).unwrap();
    fs::write(at("fine/file"), "fine").unwrap();
    let loops = ["../..", "..", "."].map(Path::new);
    let outputs = [at("other"), at("other/place"), at("by-link/place")];
    symlink("other", at("by-link")).unwrap();
    let kernels = ["/proc", "/proc/self", "/proc/version", "/sys/kernel", "/proc/self/root/proc"];
    // As it is, and as `cp` copies it.
    let magic = PathBuf::from("/proc/self/root");
    let copied = fs::read_link(&magic).unwrap();
    let around = "leads to a directory that contains";
    let expected = [
        (vec![magic, copied, home.path().to_owned(), at("outer")], format!("{around} the source")),
        (outputs.to_vec(), format!("{around} its outputs")),
        (kernels.map(PathBuf::from).to_vec(), "leads into a file system of the kernel".to_owned()),
        (vec![loops[2].to_owned(), plain.clone()], "is a symbolic link to a directory".to_owned()),
        (vec![loops[0].to_owned(), loops[1].to_owned()], format!("{around} the source")),
    ];
    let mut told = Vec::new();
    for (texts, reason) in &expected {
        for text in texts {
            let name = format!("link{}", told.len());
            symlink(text, plain.join(&name)).unwrap();
            told.push((name, reason));
        }
    }
    symlink(at("fine"), plain.join("followed")).unwrap();
    symlink(at("fine/file"), plain.join("file")).unwrap();
    for dry_run in [true, false] {
        let following = options().with(|it| {
            it.tree.follow_symlinks = true;
            it.tree.dry_run = dry_run;
        });
        let total = measure(
            Operation::Encrypt,
            &cobblestone(),
            &plain,
            Some(&sealed),
            &following.tree,
            || false,
        );
        assert_eq!(total.unwrap().files, 2);
        let report = encrypt(&cobblestone(), &plain, &sealed, &following);
        assert_eq!(report.files, 2);
        assert_eq!(report.failures.len(), told.len(), "{:?}", report.failures);
        for (name, reason) in &told {
            let is_it = |failure: &&Failure| failure.path == plain.join(name);
            let error = report.failures.iter().find(is_it).unwrap().error.to_string();
            assert!(error.starts_with(*reason), "{dry_run} {name}: {error}");
        }
    }
    assert_eq!(fs::read_dir(&sealed).unwrap().count(), 2);
}

#[test]
fn a_tree_without_files_is_told_from_one_with_files() {
    let home = home();
    let at = |name: &str| home.path().join(name);
    let tree = at("tree");
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    for circle in ["deep/er/up", "deep/up"] {
        symlink("..", tree.join(circle)).unwrap();
    }
    assert!(!has_files(&at("none"), true, true) && !has_files(&tree, true, true));
    fs::write(tree.join("deep/.evener-mounts"), b"evener-mounts:v1:whole\n").unwrap();
    fs::write(tree.join("evener-key.age"), b"age-encryption.org/v1\n-> X25519 x\n").unwrap();
    assert!(!has_files(&tree, true, false) && has_files(&tree, false, true));
    fs::write(at("file"), b"content").unwrap();
    symlink(at("file"), tree.join("deep/er/link")).unwrap();
    assert!(!has_files(&tree, false, false) && has_files(&tree, true, false));
}

/// Enough directories that several threads finish them, and some that their owner can't write to:
/// they may get that mode only after everything below them is done.
#[test]
fn every_directory_gets_its_mode_and_times() {
    let home = home();
    let plain = home.path().join("plain");
    let mut made = Vec::new();
    for number in 0..300_u32 {
        let path = plain.join(format!("{}/{}/{number}", number % 3, number % 13));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("file"), bytes(number as usize)).unwrap();
        made.push((path, [0o755, 0o500, 0o711, 0o570][number as usize % 4]));
    }
    made.extend((0..3).map(|number| (plain.join(number.to_string()), 0o555)));
    let set_modes = |tree: &Path, mode_of: fn(u32) -> u32| {
        for (path, mode) in &made {
            let path = tree.join(path.strip_prefix(&plain).unwrap());
            fs::set_permissions(path, fs::Permissions::from_mode(mode_of(*mode))).unwrap();
        }
    };
    set_modes(&plain, |mode| mode);
    for seats in [1, 4] {
        let place = home.path().join(format!("by {seats}"));
        fs::create_dir(&place).unwrap();
        let engine = evener_engines::find("openssl").unwrap();
        let options = options().with(|it| it.run.seats = vec![engine; seats]);
        round_trip("directories", &cobblestone(), &plain, &place, &options);
        // Lets a user other than root remove it.
        set_modes(&place.join("sealed"), |_| 0o755);
        set_modes(&place.join("back"), |_| 0o755);
    }
    set_modes(&plain, |_| 0o755);
}
