//! Links of sealed trees.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use common::bytes;
use common::child::shim;
use common::sealed::{ACTION, Scene, seal_in_child};

#[test]
fn child() {
    seal_in_child();
}

/// The output of a child, some of whose calls fail.
#[track_caller]
fn with_fault(scene: &Scene, action: &str, status: i32, fault: &[(&str, &str)]) -> String {
    let mut command = scene.seal_command("key", "a");
    command.env(ACTION, action).env("LD_PRELOAD", shim()).env("EVENER_FAULT_NTH", "0");
    let fault = fault.iter().map(|(name, value)| (format!("EVENER_FAULT_{name}"), value));
    let output = command.envs(fault).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{told}");
    told
}

#[test]
fn another_name_of_a_file_stands_for_one_that_fails() {
    let names = ["1-lost", "2-lost", "d/3-lost", "z"];
    for (failing, lost) in [("1-lost", 1), ("lost", 3)] {
        let scene = Scene::new();
        scene.write(names[0], &bytes(100));
        scene.write("z", b"z");
        fs::create_dir(scene.source().join("d")).unwrap();
        for name in &names[1..3] {
            fs::hard_link(scene.source().join(names[0]), scene.source().join(name)).unwrap();
        }
        scene.settle();
        let below = scene.source().display().to_string();
        let fault = [("CALL", "openat"), ("DO", "5"), ("BELOW", &below), ("NAME", failing)];
        let errors = with_fault(&scene, "", 1, &fault);
        let told = |name: &&&str| errors.lines().any(|line| line.contains(&format!("{name}: ")));
        assert_eq!(names.iter().filter(told).count(), lost, "{errors}");
        scene.open("out", &scene.with_key("a"));
        let out = names.map(|name| fs::metadata(scene.path("out").join(name)).ok());
        assert_eq!(out.iter().flatten().count(), names.len() - lost);
        let inode = |number: usize| out[number].as_ref().map(MetadataExt::ino);
        assert_eq!(inode(1), inode(2));
        scene.settle();
        scene.seal(&scene.with_key("a"));
        scene.open("all", &scene.with_key("a"));
        scene.assert_same("all");
    }
}

/// The fate of a first name whose further ones can't be read.
type Change = (&'static str, fn(&Path));

const CHANGES: [Change; 5] = [
    ("same", |_| {}),
    ("replaced", |first| replace(first, |new| fs::write(new, b"new").unwrap())),
    ("deleted", |first| fs::remove_file(first).unwrap()),
    ("a symlink", |first| replace(first, |new| symlink("nowhere", new).unwrap())),
    ("moved", |first| fs::rename(first, first.with_file_name("z")).unwrap()),
];

fn replace(path: &Path, make: impl Fn(&Path)) {
    let new = path.with_extension("new");
    make(&new);
    fs::rename(new, path).unwrap();
}

#[test]
fn links_in_a_directory_that_cannot_be_read_keep_their_content() {
    for (change, act) in CHANGES {
        for has_state in [true, false] {
            let scene = Scene::new();
            scene.write("a", b"old");
            fs::create_dir(scene.source().join("lost")).unwrap();
            for name in ["lost/b", "lost/c"] {
                fs::hard_link(scene.source().join("a"), scene.source().join(name)).unwrap();
            }
            scene.settle();
            scene.seal(&scene.with_key("a"));
            act(&scene.source().join("a"));
            if !has_state {
                fs::remove_dir_all(scene.path("state-a")).unwrap();
            }
            let case = format!("{change}, {has_state}");
            let below = scene.source().display().to_string();
            let fault = [("CALL", "openat"), ("DO", "13"), ("BELOW", &below), ("NAME", "lost")];
            let told = with_fault(&scene, "seal and read", 1, &fault);
            assert_eq!(scene.faults(&scene.with_key("a")), BTreeMap::new(), "{case}");
            scene.open("out", &scene.with_key("a"));
            let out = |name: &str| scene.path("out").join(name);
            let inode = |name: &str| fs::symlink_metadata(out(name)).map(|it| it.ino()).ok();
            assert_eq!(fs::read(out("lost/b")).unwrap(), b"old", "{case}: {told}");
            assert_eq!(inode("lost/b"), inode("lost/c"), "{case}");
            assert_eq!(inode("lost/b") == inode("a"), change == "same", "{case}");
            scene.settle();
            scene.seal(&scene.with_key("a"));
            scene.open("all", &scene.with_key("a"));
            scene.assert_same("all");
        }
    }
}

#[test]
fn links_that_cannot_be_read_keep_their_content() {
    for (change, act) in CHANGES {
        let scene = Scene::new();
        scene.write("a", b"old");
        for name in ["lost-b", "lost-c"] {
            fs::hard_link(scene.source().join("a"), scene.source().join(name)).unwrap();
        }
        scene.settle();
        scene.seal(&scene.with_key("a"));
        act(&scene.source().join("a"));
        // A file of its own.
        replace(&scene.source().join("lost-c"), |new| fs::write(new, b"other").unwrap());
        let below = scene.source().display().to_string();
        let fault = [("CALL", "openat"), ("DO", "13"), ("BELOW", &below), ("NAME", "lost")];
        let told = with_fault(&scene, "", 1, &fault);
        assert!(told.contains("lost-c: "), "{told}");
        assert_eq!(scene.faults(&scene.with_key("a")), BTreeMap::new(), "{change}");
        scene.open("out", &scene.with_key("a"));
        let read = |name: &str| fs::read(scene.path("out").join(name)).unwrap();
        assert_eq!([read("lost-b"), read("lost-c")], [b"old", b"old"], "{change}: {told}");
        scene.settle();
        scene.seal(&scene.with_key("a"));
        scene.open("all", &scene.with_key("a"));
        scene.assert_same("all");
    }
}

#[test]
fn a_file_that_gets_another_name_and_cannot_be_read_keeps_its_content() {
    let scene = Scene::new();
    scene.write("r-lost", b"r");
    // Without a stamp, nobody knows that the new name is the same file.
    scene.seal(&scene.with_key("a"));
    fs::hard_link(scene.source().join("r-lost"), scene.source().join("0-lost")).unwrap();
    let below = scene.source().display().to_string();
    let fault = [("CALL", "openat"), ("DO", "13"), ("BELOW", &below), ("NAME", "lost")];
    let told = with_fault(&scene, "", 1, &fault);
    assert!(told.contains("r-lost: ") && told.contains("0-lost: "), "{told}");
    scene.open("out", &scene.with_key("a"));
    assert_eq!(fs::read(scene.path("out").join("r-lost")).unwrap(), b"r");
    assert_eq!(scene.faults(&scene.with_key("a")), BTreeMap::new());
}

#[test]
fn the_times_of_links_are_not_those_of_files() {
    let scene = Scene::new();
    scene.write("a", b"a");
    symlink("a", scene.source().join("link")).unwrap();
    scene.settle();
    scene.seal(&scene.with_key("a"));
    let out = scene.path("out").display().to_string();
    let fault = [("CALL", "utimensat"), ("DO", "95"), ("BELOW", out.as_str())];
    let told = with_fault(&scene, "open", 0, &fault);
    assert!(told.contains("keeps no times of symbolic links"), "{told}");
    assert!(!told.contains("sets no times"), "{told}");
}
