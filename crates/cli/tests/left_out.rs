//! Every entry that a command leaves out is named and counted, and nothing else is left out.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use common::{Ended, Fixture, RECIPIENT};

/// Names that Evener itself gives, and similar ones, as plain files.
const NAMES: [&str; 22] = [
    "evener-key",
    "evener-key-2",
    "evener-key.age",
    "evener-key-2.age",
    "b.evener-key",
    "b.evener-key-3",
    "b.evener-key.age",
    ".evener-key-0123456789abcdef",
    ".evener-mounts",
    "evener-key-",
    "evener-key-x",
    "evener-key-notes",
    "evener-keynote",
    "evener-key-2x",
    "Evener-key",
    "my-evener-key",
    ".evener-key",
    "b.evener-key-",
    "b.evener-keys",
    ".evener-0123456789abcdeg.part",
    "b.enc",
    "b",
];

/// The name of an unfinished output.
const UNFINISHED: &str = ".evener-0123456789abcdef.part";

/// Checks that the notices about left-out entries have exactly these paths, and their count.
fn assert_left_out(ended: &Ended, expected: &[String]) {
    let document = ended.document();
    let notices = document["notices"].as_array().unwrap().iter();
    let paths: BTreeSet<_> =
        notices.map(|notice| notice["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(paths, expected.iter().cloned().collect(), "{}", ended.messages);
    assert_eq!(document["left_out"], expected.len(), "{document}");
    for path in expected {
        assert!(ended.messages.contains(&format!("evener: {path}: ")), "{}", ended.messages);
    }
    let told = format!("{} left out", expected.len());
    assert_eq!(ended.messages.contains(&told), !expected.is_empty(), "{}", ended.messages);
}

#[test]
fn files_with_names_of_eveners_own_come_back_by_tree_by_name_and_by_several_sources() {
    for suffix in [".enc", ".age"] {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.path("plain/deep")).unwrap();
        for name in NAMES.iter().chain([&UNFINISHED]) {
            fs::write(fixture.path("plain").join(name), format!("content of {name}")).unwrap();
            fs::write(fixture.path("plain/deep").join(name), format!("deep {name}")).unwrap();
        }
        let key = ["-k", "my.key", "--suffix", suffix];
        let run = |command: &str, status: i32, words: &[&str]| {
            fixture.expect(status, &[&[command, "--json"], &key[..], words].concat())
        };
        // A file that would be taken for the tree's wrapped key is refused by name.
        let refused: &[&str] = if suffix == ".age" { &["evener-key", "evener-key-2"] } else { &[] };
        let ended = run("encrypt", i32::from(!refused.is_empty()), &["plain", "sealed"]);
        assert_left_out(&ended, &["", "deep/"].map(|at| format!("plain/{at}{UNFINISHED}")));
        let failures = ended.document()["failures"].clone();
        let failed: BTreeSet<_> = failures
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["path"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(failed, refused.iter().map(|it| format!("plain/{it}")).collect::<BTreeSet<_>>());

        // Alone, they are beside no key that they could be taken for.
        for name in refused {
            run("encrypt", 0, &[&format!("plain/{name}"), "sealed"]);
        }
        fs::remove_file(fixture.path("plain").join(UNFINISHED)).unwrap();
        fs::remove_file(fixture.path("plain/deep").join(UNFINISHED)).unwrap();

        let ended = run("verify", 0, &["sealed"]);
        assert_left_out(&ended, &[]);
        assert_eq!(ended.document()["files"], 2 * NAMES.len());
        let ended = run("decrypt", 0, &["sealed", "by-tree"]);
        assert_left_out(&ended, &[]);
        fixture.assert_same_tree("plain", "by-tree");

        let sealed: Vec<_> =
            fixture.names("sealed").iter().map(|it| format!("sealed/{it}")).collect();
        for source in &sealed {
            if source != "sealed/deep" {
                assert_left_out(&run("decrypt", 0, &[source, "by-name/"]), &[]);
            }
        }
        run("decrypt", 0, &["sealed/deep", "by-name/deep"]);
        fixture.assert_same_tree("plain", "by-name");

        let several: Vec<_> = sealed.iter().map(String::as_str).chain(["several/"]).collect();
        assert_left_out(&run("decrypt", 0, &several), &[]);
        fixture.assert_same_tree("plain", "several");

        let listing = fixture.expect(0, &["list", "--json", "--suffix", suffix, "sealed"]);
        assert_left_out(&listing, &[]);
        let files = listing.document()["files"].as_array().unwrap().len();
        assert_eq!(files, 2 * NAMES.len());
    }
}

#[test]
fn a_neighbour_of_a_wrapped_keys_name_is_no_wrapped_key() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("t")).unwrap();
    for name in ["evener-keys-notes", "b"] {
        fs::write(fixture.path("t").join(name), name).unwrap();
    }
    fixture.expect(0, &["encrypt", "-k", "my.key", "--suffix", ".age", "t", "e"]);
    let sources = ["e/evener-keys-notes.age", "e/b.age", "out/"];
    let ended = fixture
        .expect(0, &[&["decrypt", "-k", "my.key", "--suffix", ".age"], &sources[..]].concat());
    assert!(ended.messages.contains("decrypted 2 files"), "{}", ended.messages);
    fixture.assert_same_tree("t", "out");
}

#[test]
fn wrapped_keys_are_named_where_they_are_not_in_use() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree", "sealed"]);
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree/one", "sealed/deep/one"]);
    let key = "sealed/evener-key.age";
    let beside = "sealed/deep/one.evener-key.age";
    // The key in use is not a left-out file.
    let ended = fixture.run(&["verify", "--json", "-i", "identity", "sealed"]);
    assert_left_out(&ended, &["sealed/deep/one".to_owned(), beside.to_owned()]);
    let ended = fixture.run(&["verify", "--json", "-k", "my.key", "--suffix", ".age", "sealed"]);
    let others = ["sealed/one.enc", "sealed/deep/two.enc", "sealed/deep/one", key, beside];
    assert_left_out(&ended, &others.map(str::to_owned));
    // Among several sources it is always named.
    let sources = ["sealed/one.enc", key, "sealed/deep", "several/"];
    let ended = fixture
        .expect(0, &[&["decrypt", "--json", "-i", "identity", "-k", key], &sources[..]].concat());
    assert_left_out(&ended, &["sealed/deep/one", key, beside].map(str::to_owned));
    let ended = fixture.expect(2, &["decrypt", "-i", "identity", key, beside, "none/"]);
    assert!(ended.messages.contains("the sources are wrapped keys"), "{}", ended.messages);
}

#[test]
fn no_encrypted_file_takes_the_place_of_a_wrapped_key() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree/one", "sealed/"]);
    let key = "sealed/one.enc.evener-key.age";
    let before = fs::read(fixture.path(key)).unwrap();
    fs::write(fixture.path("one.enc.evener-key"), "a plain file").unwrap();
    let overwrite = ["encrypt", "-k", "my.key", "--overwrite"];
    for words in [
        &["--suffix", ".age", "one.enc.evener-key", "sealed/"][..],
        &["one.enc.evener-key", key],
        &["-n", "one.enc.evener-key", key],
    ] {
        let ended = fixture.expect(1, &[&overwrite, words].concat());
        assert!(ended.messages.contains("would replace a wrapped key"), "{}", ended.messages);
    }
    let ended = fixture.shell(&format!("echo x | $evener encrypt -k my.key --overwrite - {key}"));
    assert!(ended.messages.contains("would replace a wrapped key"), "{}", ended.messages);
    assert_eq!(fs::read(fixture.path(key)).unwrap(), before);
}

#[test]
fn what_is_no_file_is_named_by_every_command() {
    let fixture = Fixture::new();
    let is_made = |kind: &[&str], name: &str| {
        let made = Command::new(kind[0]).args(&kind[1..]).arg(fixture.path(name)).status();
        assert!(made.unwrap().success());
    };
    is_made(&["mkfifo"], "tree/fifo");
    symlink("one", fixture.path("tree/link")).unwrap();
    let ended = fixture.expect(0, &["encrypt", "--json", "-k", "my.key", "tree", "sealed"]);
    assert_left_out(&ended, &["tree/fifo".to_owned()]);
    // Excluded files were not left out.
    let ended = fixture
        .expect(0, &["encrypt", "--json", "-k", "my.key", "--exclude", "fifo", "tree", "other"]);
    assert_left_out(&ended, &[]);
    is_made(&["mkfifo"], "sealed/fifo");
    fs::write(fixture.path("sealed/readme"), "").unwrap();
    fs::write(fixture.path("sealed").join(UNFINISHED), "").unwrap();
    let unfinished = format!("sealed/{UNFINISHED}");
    let named = ["sealed/fifo".to_owned(), "sealed/readme".to_owned(), unfinished.clone()];
    for command in [
        &["verify", "--json", "-k", "my.key", "sealed"][..],
        &["decrypt", "--json", "-k", "my.key", "sealed", "back"],
    ] {
        assert_left_out(&fixture.expect(0, command), &named);
    }
    let ended = fixture.expect(0, &["list", "--json", "sealed"]);
    assert_left_out(&ended, &["sealed/fifo".to_owned(), "sealed/link".to_owned(), unfinished]);
}

#[test]
fn no_output_gets_a_name_that_later_runs_take_for_their_own() {
    let fixture = Fixture::new();
    for (name, suffix) in [(".evener-0123456789abcdef", ".part"), (".evener", "-mounts")] {
        let plain = fixture.path("plain");
        let _ = fs::remove_dir_all(&plain);
        fs::create_dir(&plain).unwrap();
        fs::write(plain.join(name), "precious").unwrap();
        for source in ["plain".to_owned(), format!("plain/{name}")] {
            let file = source.len() > "plain".len();
            if file && suffix == "-mounts" {
                continue;
            }
            let suffix = format!("--suffix={suffix}");
            let key = ["-k", "my.key", &suffix, "--remove-source"];
            let ended = fixture.run(&[&["encrypt"], &key[..], &[&source, "sealed"]].concat());
            assert_eq!(ended.status, Some(1), "{}", ended.messages);
            assert!(ended.messages.contains("its output would have"), "{}", ended.messages);
            assert!(plain.join(name).exists());
        }
    }
    // A storage service has renamed a file: the next run would remove its plaintext.
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree/one", "store.enc"]);
    let name = ".evener-0123456789abcdef.part.enc";
    fs::create_dir(fixture.path("store")).unwrap();
    fs::rename(fixture.path("store.enc"), fixture.path("store").join(name)).unwrap();
    let ended = fixture.expect(1, &["decrypt", "-k", "my.key", "--remove-source", "store", "back"]);
    assert!(ended.messages.contains("unfinished outputs"), "{}", ended.messages);
    assert!(fixture.path("store").join(name).exists());
}
