//! Messages about sealed trees.

mod common;

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use common::Fixture;

/// A sealed tree of `one` and `deep/two`, with a further name of the first.
fn sealed() -> Fixture {
    let fixture = Fixture::new();
    fs::hard_link(fixture.path("tree/one"), fixture.path("tree/other")).unwrap();
    sleep(Duration::from_millis(60));
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    fixture
}

#[test]
fn what_is_wrong_is_named() {
    let fixture = sealed();
    fs::write(fixture.path("file"), "file").unwrap();
    let cases: [(&[&str], &str); 10] = [
        (
            &["diff", "-k", "my.key", "sealed", "nope"],
            "nope: there is no such directory, and it is not the number of a generation",
        ),
        (
            &["diff", "-k", "my.key", "sealed", "file"],
            "file: it is neither a directory nor the number of a generation",
        ),
        (
            &["decrypt", "-k", "my.key", "sealed", "sealed"],
            "sealed is a sealed tree; decrypt to another place",
        ),
        (
            &["clean", "--keep-within", "0s", "-k", "my.key", "sealed"],
            "invalid value '0s' for '--keep-within <TIME>': a time of 0 is too short",
        ),
        (
            &["list", "--generation", "0", "-k", "my.key", "sealed"],
            "invalid value '0' for '--generation <N>': 0 is not from 1 to",
        ),
        (
            &["list", "--generations", "-k", "my.key", "sealed", "one"],
            "--generations and [PATH]... exclude each other",
        ),
        (
            &["encrypt", "--sealed", "--delete-unmounted", "-k", "my.key", "tree", "sealed"],
            "--delete-unmounted: nothing is deleted; leave it out",
        ),
        (
            &["encrypt", "--delete-unmounted", "-k", "my.key", "tree", "plain"],
            "--delete-unmounted is a part of --delete: give both",
        ),
        (
            &["encrypt", "-k", "my.key", "tree/one", "file/"],
            "file/: it is a file, and the name is one of a directory",
        ),
        (&["list", "--at", "2026-11-28T23:59:60Z", "-k", "my.key", "sealed"], "not a time such as"),
    ];
    for (arguments, told) in cases {
        let messages = fixture.expect(2, arguments).messages;
        assert!(messages.contains(told), "{messages}");
    }
    let told = fixture.expect(2, &["cat", "-k", "my.key", "sealed", "gone"]).messages;
    assert!(told.contains("there is no file `gone`"), "{told}");
    let told = fixture.expect(1, &["decrypt", "-k", "my.key", "sealed", "/proc/nowhere"]).messages;
    assert!(told.contains("evener: /proc/nowhere: can't make its output directory"), "{told}");
}

#[test]
fn the_whole_tree_may_be_named() {
    let fixture = sealed();
    let all = fixture.expect(0, &["list", "-k", "my.key", "sealed"]).output;
    assert_eq!(fixture.expect(0, &["list", "-k", "my.key", "sealed", "."]).output, all);
    fixture.expect(0, &["decrypt", "-k", "my.key", "sealed", "out", "."]);
    fixture.assert_same_tree("tree", "out");
}

#[test]
fn all_commands_count_the_same_files_and_bytes() {
    let fixture = sealed();
    let counted = |arguments: &[&str]| {
        let told = fixture.expect(0, arguments).messages;
        let line = told.lines().last().unwrap().to_owned();
        let (_, numbers) = line.split_once("evener: ").unwrap();
        numbers.split_once(" in ").unwrap().0.to_owned()
    };
    assert_eq!(
        counted(&["encrypt", "--sealed", "-k", "my.key", "tree", "again"]),
        "sealed 2 files, 293.0 KiB"
    );
    assert_eq!(
        counted(&["decrypt", "-k", "my.key", "sealed", "out"]),
        "decrypted 2 files, 293.0 KiB"
    );
    assert_eq!(counted(&["verify", "-k", "my.key", "sealed"]), "verified 2 files, 293.0 KiB");
    assert_eq!(
        counted(&["verify", "--quick", "-k", "my.key", "sealed"]),
        "looked at 2 files, 293.0 KiB"
    );
}

#[test]
fn signers_are_printed_without_what_is_not_asked_for() {
    let fixture = sealed();
    let own = fixture.expect(0, &["signers", "--own", "sealed"]);
    assert!(own.output.starts_with(b"ssh-ed25519 ") && own.messages.is_empty(), "{}", own.messages);
    let quiet = fixture.expect(0, &["signers", "-q", "-k", "my.key", "sealed"]);
    assert_eq!(quiet.messages, "");
}
