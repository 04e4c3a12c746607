//! Tests walks through local trees and memory: their order, the stamps of entries, and listings of
//! single directories.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use common::{bytes, cobblestone, home, options};
use evener_place::{
    Entry, Fault, Kind, Local, Memory, Name, Operation, Origin, Stamp, TreeOptions, transfer,
};

fn name(path: impl AsRef<Path>) -> Name {
    Name::new(path).unwrap()
}

fn local(path: &Path) -> Local {
    Local::new(path, &TreeOptions::default())
}

fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

fn paths(entries: impl IntoIterator<Item = Entry>) -> Vec<PathBuf> {
    entries.into_iter().map(|entry| entry.name.path().to_owned()).collect()
}

fn walked(origin: &dyn Origin) -> Vec<PathBuf> {
    assert!(origin.abilities().is_sorted());
    paths(origin.walk().map(Result::unwrap))
}

fn listed(origin: &dyn Origin, directory: &Name) -> Vec<PathBuf> {
    let mut paths = paths(origin.list(directory).unwrap());
    paths.sort();
    paths
}

/// In the order of a walk; those with a slash at the end are directories.
const ODD_NAMES: [&[u8]; 22] = [
    b"\x01",
    b" ",
    b"-/",
    b".a",
    b"A",
    b"a/",
    b"a\x01/",
    b"a-b/",
    b"a.b",
    b"a0/",
    b"\xC3\xA9",
    b"\xFF/",
    b"-/z",
    b"a/b/",
    b"a/b-",
    b"a/b0",
    b"a/\xFF",
    b"a/b/c",
    b"a\x01/b",
    b"a-b/a",
    b"a0/1",
    b"\xFF/\xFE",
];

fn fill(root: &Path) {
    for name in ODD_NAMES {
        match name.strip_suffix(b"/") {
            Some(directory) => fs::create_dir_all(root.join(path(directory))).unwrap(),
            None => {
                let file = root.join(path(name));
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, name).unwrap();
            }
        }
    }
}

fn expected() -> Vec<PathBuf> {
    let odd = ODD_NAMES.map(|name| path(name.strip_suffix(b"/").unwrap_or(name)));
    [PathBuf::new()].into_iter().chain(odd).collect()
}

#[test]
fn a_walk_is_sorted_by_directory_and_then_by_name() {
    let home = home();
    fill(home.path());
    assert_eq!(walked(&local(home.path())), expected());
    let memory = Memory::new();
    let (run, transferred) = (options().run, options().transfer);
    let operation = Operation::Encrypt;
    transfer(operation, &cobblestone(), &local(home.path()), Some(&memory), &run, &transferred)
        .unwrap();
    let key =
        |path: &PathBuf| (path.parent().map(Path::to_owned), path.file_name().map(OsStr::to_owned));
    let there = walked(&memory);
    assert!(there.is_sorted_by_key(key), "{there:?}");
    assert_eq!(there.len(), expected().len());
}

#[test]
fn a_directory_of_many_names_is_sorted_too() {
    let home = home();
    let file = |number: usize| home.path().join(format!("many/{}", number * 7919 % 5000));
    fs::create_dir(home.path().join("many")).unwrap();
    (0..5000).for_each(|number| drop(File::create(file(number)).unwrap()));
    let walked = walked(&local(home.path()));
    assert_eq!(walked.len(), 5002);
    assert!(walked.is_sorted());
}

#[test]
fn what_goes_during_a_walk_does_not_end_it() {
    let home = home();
    fill(home.path());
    let place = local(home.path());
    let mut walk = place.walk();
    let mut seen = paths(walk.by_ref().take(6).map(Result::unwrap));
    assert_eq!(seen[5], Path::new("A"));
    // This directory was not returned yet, nor was the file.
    fs::remove_dir_all(home.path().join("a-b")).unwrap();
    fs::remove_file(home.path().join("a.b")).unwrap();
    // This one was.
    fs::remove_dir_all(home.path().join("-")).unwrap();
    let mut faults = Vec::new();
    for entry in walk {
        match entry {
            Ok(entry) => seen.push(entry.name.path().to_owned()),
            Err(fault) => faults.push(fault),
        }
    }
    let is_gone = |path: &PathBuf| {
        path.starts_with("a-b") || *path == Path::new("a.b") || *path == Path::new("-/z")
    };
    let rest: Vec<_> = expected().into_iter().filter(|path| !is_gone(path)).collect();
    assert_eq!(seen, rest);
    let [Fault::Entry { name: gone, reason }] = &faults[..] else { panic!("{faults:?}") };
    assert_eq!(gone.path(), Path::new("-"));
    assert!(reason.contains("open the directory"), "{reason}");
}

#[test]
fn a_link_in_the_place_of_a_directory_is_not_followed() {
    let home = home();
    let [tree, outside] = ["tree", "outside"].map(|name| home.path().join(name));
    fs::create_dir_all(tree.join("directory")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), b"secret").unwrap();
    let place = local(&tree);
    let mut walk = place.walk();
    assert_eq!(walk.by_ref().take(2).filter(Result::is_ok).count(), 2);
    fs::remove_dir(tree.join("directory")).unwrap();
    symlink(&outside, tree.join("directory")).unwrap();
    let rest: Vec<_> = walk.collect();
    assert!(matches!(&rest[..], [Err(Fault::Entry { .. })]), "{rest:?}");
}

fn stamps(place: &Local) -> Vec<(PathBuf, Stamp)> {
    let entries = place.walk().map(Result::unwrap);
    entries.map(|entry| (entry.name.path().to_owned(), entry.stamp.unwrap())).collect()
}

fn stamp_of(place: &Local, path: &str) -> Stamp {
    stamps(place).into_iter().find(|(it, _)| it == Path::new(path)).unwrap().1
}

#[test]
fn stamps_are_those_of_the_system() {
    let home = home();
    fs::create_dir_all(home.path().join("below")).unwrap();
    fs::write(home.path().join("below/file"), b"content").unwrap();
    symlink("nowhere", home.path().join("link")).unwrap();
    let stamps = stamps(&local(home.path()));
    assert_eq!(stamps.len(), 4);
    for (path, stamp) in stamps {
        let there = fs::symlink_metadata(home.path().join(&path)).unwrap();
        let changed = (there.ctime(), there.ctime_nsec() as u32);
        let expected = Stamp { device: there.dev(), inode: there.ino(), changed };
        assert_eq!(stamp, expected, "{path:?}");
    }
}

#[test]
fn a_stamp_tells_a_moved_file_and_one_whose_time_was_set_back() {
    let home = home();
    let file = home.path().join("file");
    fs::write(&file, bytes(100)).unwrap();
    let place = local(home.path());
    let before = stamp_of(&place, "file");
    assert_eq!(stamp_of(&place, "file"), before);
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    while stamp_of(&place, "file").changed == before.changed {
        fs::write(&file, bytes(100)).unwrap();
        let opened = File::options().write(true).open(&file).unwrap();
        opened.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), time);
    fs::rename(&file, home.path().join("moved")).unwrap();
    let moved = stamp_of(&place, "moved");
    assert_eq!((moved.device, moved.inode), (before.device, before.inode));
}

#[test]
fn one_directory_is_listed_alone() {
    let home = home();
    fill(home.path());
    symlink("a", home.path().join("link")).unwrap();
    fs::hard_link(home.path().join("A"), home.path().join("B")).unwrap();
    let place = local(home.path());
    let within = |directory: &[u8]| {
        let path = path(directory);
        let of = |it: &PathBuf| it.parent() == Some(&path) && it.file_name().is_some();
        let mut expected: Vec<_> = expected().into_iter().filter(of).collect();
        expected.sort();
        expected
    };
    let mut root = within(b"");
    root.extend(["link", "B"].map(PathBuf::from));
    root.sort();
    assert_eq!(listed(&place, &Name::root()), root);
    for directory in [&b"a"[..], b"a/b", b"\xFF", b"a0"] {
        assert_eq!(listed(&place, &name(path(directory))), within(directory));
    }
    assert!(listed(&place, &name("none")).is_empty());
    assert!(listed(&place, &name("none/at/all")).is_empty());
    for no_directory in ["A", "link", "A/b"] {
        assert!(place.list(&name(no_directory)).is_err(), "{no_directory}");
    }
    let entries = place.list(&Name::root()).unwrap();
    let entry = |path: &str| entries.iter().find(|it| it.name == name(path)).unwrap();
    assert_eq!((&entry("B").kind, entry("B").length), (&Kind::Object, Some(1)));
    assert_eq!(entry("B").stamp, entry("A").stamp);
    assert_eq!(entry("link").kind, Kind::SymbolicLink("a".into()));
    assert!(entry("a").metadata.modified.is_some());
}

#[test]
fn a_listing_is_of_the_directory_that_is_there_now() {
    let home = home();
    let (place, directory) = (local(home.path()), home.path().join("directory"));
    for round in 0..3 {
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join(round.to_string()), b"").unwrap();
        assert_eq!(
            listed(&place, &name("directory")),
            [Path::new("directory").join(round.to_string())]
        );
        fs::remove_dir_all(&directory).unwrap();
        assert!(listed(&place, &name("directory")).is_empty());
    }
}

#[test]
fn memory_lists_a_directory() {
    let memory = Memory::new();
    for path in ["tree/2", "tree/1", "tree/1-/deep", "tree-/3", "other"] {
        memory.insert(name(path), b"");
    }
    assert_eq!(listed(&memory, &name("tree")), ["tree/1", "tree/2"].map(PathBuf::from));
    assert_eq!(listed(&memory, &Name::root()), [PathBuf::from("other")]);
    assert!(listed(&memory, &name("none")).is_empty());
}
