//! Tests outputs in directories that give new entries a group or an access list.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use common::{Options, bytes, cobblestone, home, options, process};
use evener_place::{Existing, Operation};
use rustix::fs::{XattrFlags, getxattr, setxattr};

const STRANGER: u32 = 12_345;
const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A tree whose files and directory their group may also use, and a target for it.
struct Scene {
    home: tempfile::TempDir,
    plain: PathBuf,
    target: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let home = home();
        let [plain, target] = ["plain", "target"].map(|name| home.path().join(name));
        fs::create_dir_all(plain.join("sub")).unwrap();
        fs::create_dir(&target).unwrap();
        for (name, length) in [("file", 100), ("sub/long", 2_000_000)] {
            fs::write(plain.join(name), bytes(length)).unwrap();
            set_mode(&plain.join(name), 0o664);
        }
        set_mode(&plain.join("sub"), 0o775);
        Scene { home, plain, target }
    }

    /// Encrypts into `target`, and returns the group and mode of each output.
    fn encrypt(&self, target: &Path, options: &Options) -> Vec<(u32, u32)> {
        let report =
            process(Operation::Encrypt, &cobblestone(), &self.plain, Some(target), options);
        let report = report.unwrap();
        assert!(report.is_success(), "{:?}", report.failures);
        ["file.enc", "sub", "sub/long.enc"].map(|name| group_and_mode(&target.join(name))).into()
    }
}

fn group_and_mode(path: &Path) -> (u32, u32) {
    let status = fs::metadata(path).unwrap();
    (status.gid(), status.mode() & 0o7777)
}

#[test]
fn a_directorys_group_gets_nothing_that_was_not_meant_for_it() {
    let scene = Scene::new();
    if chown(&scene.target, None, Some(STRANGER)).is_err() {
        evener_core::skipped!("only root can give a directory to any group");
        return;
    }
    set_mode(&scene.target, 0o2777);
    let own = rustix::process::getegid().as_raw();
    let expected = [(own, 0o664), (own, 0o775), (own, 0o664)];
    assert_eq!(scene.encrypt(&scene.target, &options()), expected);
    // A target created there, and a single file's target.
    let below = scene.target.join("new");
    assert_eq!(scene.encrypt(&below, &options()), expected);
    assert_eq!(group_and_mode(&below), (own, 0o755));
    let alone = scene.target.join("alone");
    let file = scene.plain.join("file");
    let one = process(Operation::Encrypt, &cobblestone(), &file, Some(&alone), &options());
    assert!(one.unwrap().is_success());
    assert_eq!(group_and_mode(&alone), (own, 0o664));
    // An output whose source has the target's group keeps that group.
    for name in ["file", "sub", "sub/long"] {
        chown(scene.plain.join(name), None, Some(STRANGER)).unwrap();
    }
    let options = options().with(|it| it.tree.existing = Existing::Overwrite);
    fs::remove_dir_all(scene.target.join("sub")).unwrap();
    let expected = [(STRANGER, 0o664), (STRANGER, 0o775), (STRANGER, 0o664)];
    assert_eq!(scene.encrypt(&scene.target, &options), expected);
}

#[test]
fn a_directorys_access_list_gives_nobody_more_than_the_mode() {
    let scene = Scene::new();
    // Version 2; then a tag, permissions and a user for each entry.
    let entry = |tag: u16, permissions: u16, id: u32| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let nobody = u32::MAX;
    let entries =
        [(1, 7, nobody), (2, 7, STRANGER), (4, 7, nobody), (0x10, 7, nobody), (0x20, 7, nobody)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    list.extend(entries.into_iter().flat_map(|(tag, bits, id)| entry(tag, bits, id)));
    if setxattr(&scene.target, DEFAULT_LIST, &list, XattrFlags::empty()).is_err() {
        evener_core::skipped!("this file system has no access lists");
        return;
    }
    let has_list = |path: &Path, name: &str| getxattr(path, name, &mut [0_u8; 0][..]).is_ok();
    let own = rustix::process::getegid().as_raw();
    for xattrs in [false, true] {
        let target = scene.target.join(format!("below-{xattrs}"));
        let options = options().with(|it| it.tree.xattrs = xattrs);
        let expected = [(own, 0o664), (own, 0o775), (own, 0o664)];
        assert_eq!(scene.encrypt(&target, &options), expected);
        for name in ["", "file.enc", "sub", "sub/long.enc"] {
            let output = target.join(name);
            assert!(!has_list(&output, ACCESS_LIST), "{name}");
            assert!(!has_list(&output, DEFAULT_LIST), "{name}");
        }
    }
    let options = options().with(|it| {
        it.tree.existing = Existing::Overwrite;
        it.tree.xattrs = true;
    });
    scene.encrypt(&scene.target, &options);
    assert!(!has_list(&scene.target.join("file.enc"), ACCESS_LIST));
    assert!(has_list(&scene.target, DEFAULT_LIST), "the directory keeps its own");
    // The source's own list is restored on request.
    setxattr(scene.plain.join("file"), ACCESS_LIST, &list, XattrFlags::empty()).unwrap();
    for xattrs in [true, false] {
        scene.encrypt(&scene.target, &options.clone().with(|it| it.tree.xattrs = xattrs));
        assert_eq!(has_list(&scene.target.join("file.enc"), ACCESS_LIST), xattrs);
    }
    assert!(scene.home.path().exists());
}
