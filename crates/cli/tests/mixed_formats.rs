//! Trees with files of age and of another format: nothing that somebody needs is lost or passed over.

mod common;

use std::fs;
use std::os::unix::fs::FileExt;

use common::{Ended, Fixture, RECIPIENT, has};

const OF_AGE: [&str; 5] = ["encrypt", "--format", "age", "-r", RECIPIENT];
const OTHERS: [&str; 3] = ["encrypt", "-r", RECIPIENT];
const DELETING: [&str; 5] = ["-i", "identity", "--update", "--delete", "--yes"];

/// A fixture with `vault`: a tree of age that also holds a file and a tree of another format, each
/// with its wrapped key.
fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.expect(0, &[&OF_AGE[..], &["tree", "vault"]].concat());
    fixture.expect(0, &[&OTHERS[..], &["tree/one", "vault/p.enc"]].concat());
    fixture.expect(0, &[&OTHERS[..], &["tree", "vault/other"]].concat());
    fixture
}

const KEYS: [&str; 2] = ["vault/p.enc.evener-key.age", "vault/other/evener-key.age"];

fn told(ended: &Ended, words: &str) {
    assert!(ended.messages.contains(words), "{words}: {}", ended.messages);
}

#[test]
fn wrapped_keys_are_never_deleted() {
    let fixture = fixture();
    fs::copy(fixture.path(KEYS[1]), fixture.path("vault/evener-key-2.age")).unwrap();
    fs::copy(fixture.path("vault/one.age"), fixture.path("vault/x.evener-key.age")).unwrap();
    fixture.expect(0, &[&OF_AGE[..], &DELETING, &["tree", "vault"]].concat());
    for key in KEYS.iter().chain(&["vault/evener-key-2.age"]) {
        assert!(fixture.path(key).exists(), "{key}");
    }
    // It has the name of a key, but is an output.
    assert!(!fixture.path("vault/x.evener-key.age").exists());
    fixture.expect(0, &["verify", "-i", "identity", "vault/p.enc"]);
}

#[test]
fn wrapped_keys_are_not_decrypted() {
    let fixture = fixture();
    fs::remove_dir_all(fixture.path("vault/deep")).unwrap();
    let excluding = ["--exclude", "*.enc"];
    for format in [&[][..], &["--format", "age"]] {
        let decrypt = [&["decrypt", "-i", "identity"], format, &excluding].concat();
        let ended = fixture.expect(0, &[&decrypt[..], &["vault", "out"]].concat());
        told(&ended, "evener-key.age: wrapped key skipped");
        assert_eq!(fixture.names("out"), ["one", "other"]);
        assert_eq!(fixture.names("out/other"), ["deep"]);
        fs::remove_dir_all(fixture.path("out")).unwrap();
    }
    let decrypt = ["decrypt", "-q", "-i", "identity", "--remove-source"];
    fixture.expect(0, &[&decrypt[..], &excluding, &["vault", "out"]].concat());
    assert!(KEYS.iter().all(|key| fixture.path(key).exists()));
    // At the root, too.
    let of_age = ["--format", "age", "vault/other", "part"];
    let ended = fixture.expect(1, &[&decrypt[..], &excluding, &of_age].concat());
    told(&ended, "age's in `.age`");
    assert!(!fixture.path("part/evener-key").exists() && fixture.path(KEYS[1]).exists());
    fixture.expect(0, &["verify", "-i", "identity", "vault/other"]);
}

#[test]
fn files_of_another_program_are_not_deleted() {
    if !has("age") {
        evener_core::lacking!("there is no program `age`");
        return;
    }
    let fixture = Fixture::new();
    fixture.expect(0, &[&OF_AGE[..], &["tree", "vault"]].concat());
    let age = format!("age -r {RECIPIENT} -o vault/diploma.age identity");
    assert_eq!(fixture.shell(&age).status, Some(0));
    fs::remove_dir_all(fixture.path("tree/deep")).unwrap();
    let ended = fixture.expect(0, &[&OF_AGE[..], &DELETING, &["tree", "vault"]].concat());
    told(&ended, "diploma.age: its source has gone, but another program of age made it");
    assert_eq!(fixture.names("vault"), [".evener-mounts", "diploma.age", "one.age"]);
}

#[test]
fn files_are_not_deleted_for_recipients_alone() {
    let fixture = Fixture::new();
    fixture.expect(0, &[&OF_AGE[..], &["tree", "vault"]].concat());
    fs::remove_file(fixture.path("tree/deep/two")).unwrap();
    let ended = fixture.expect(0, &[&OF_AGE[..], &DELETING[2..], &["tree", "vault"]].concat());
    told(&ended, "two.age: its source has gone, but recipients do not show that Evener made it");
    // A question names what the identity can't tell.
    let line = format!("$evener {} -i identity --update --delete tree vault", OF_AGE.join(" "));
    let ended = fixture.at_terminal("[y/N] ", "n", &line);
    let shown = String::from_utf8_lossy(&ended.output).into_owned();
    assert!(shown.contains("age files do not show who made them"), "{shown}");
    assert_eq!(fixture.names("vault/deep"), ["two.age"]);
}

#[test]
fn two_formats_of_one_file_are_refused() {
    for (first, second, kept) in
        [(&OTHERS[..], &OF_AGE[..], "one.enc"), (&OF_AGE, &OTHERS, "one.age")]
    {
        let fixture = Fixture::new();
        fixture.expect(0, &[first, &["tree", "sealed"]].concat());
        let ended = fixture.expect(1, &[second, &["--update", "tree", "sealed"]].concat());
        told(
            &ended,
            &format!("tree/one: `{kept}`, in another format, would be decrypted to `one` too"),
        );
        // A single file can be added all the same.
        let other = if kept == "one.enc" { "one.age" } else { "one.enc" };
        fixture.expect(0, &[second, &["tree/one", &format!("sealed/{other}")]].concat());
        for line in [&["decrypt", "sealed", "out"][..], &["verify", "sealed"]] {
            let ended =
                fixture.expect(1, &[&line[..1], &["-q", "-i", "identity"], &line[1..]].concat());
            told(
                &ended,
                &format!("sealed/{kept}: `{other}`, in another format, would be decrypted to"),
            );
            told(&ended, &format!("sealed/{other}: is encrypted in another format"));
            assert!(!fixture.path("out/one").exists());
        }
        let ended = fixture.expect(2, &["cat", "-i", "identity", "sealed", "one"]);
        told(&ended, &format!("`sealed/{other}`, in another format"));
        let ended = fixture.expect(1, &["list", "-i", "identity", "sealed"]);
        told(&ended, &format!("`{other}`, in another format"));
        fixture.expect(1, &["decrypt", "-i", "identity", "--only", "one", "sealed", "out"]);
        let chosen = ["decrypt", "-q", "-i", "identity", "--exclude", other, "sealed", "whole"];
        fixture.expect(0, &chosen);
        fixture.assert_same_tree("tree", "whole");
    }
}

#[test]
fn files_of_another_format_are_not_passed_over() {
    let fixture = Fixture::new();
    fixture.expect(0, &[&OF_AGE[..], &["tree", "vault"]].concat());
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree/one", "vault/other.enc"]);
    for keys in [&["-i", "identity"][..], &["-k", "my.key"], &["-k", "my.key", "-i", "identity"]] {
        for line in [&["verify", "vault"][..], &["decrypt", "vault", "out"]] {
            let ended = fixture.expect(1, &[&line[..1], &["-q"], keys, &line[1..]].concat());
            told(&ended, ": is encrypted in another format than this run decrypts");
        }
        fs::remove_dir_all(fixture.path("out")).unwrap();
    }
}

#[test]
fn resuming_names_what_it_lacks_to_remove_sources() {
    let fixture = Fixture::new();
    let removing = ["--remove-source", "--resume", "tree", "sealed"];
    for encrypt in [&OF_AGE[..], &OTHERS] {
        fixture.expect(0, &[encrypt, &["tree", "sealed"]].concat());
        let ended = fixture.expect(1, &[encrypt, &removing].concat());
        told(&ended, "exists, and recipients do not show whether it holds this source");
        told(&ended, "give an identity (`-i`)");
        fs::remove_dir_all(fixture.path("sealed")).unwrap();
    }
    for keys in [&["--format", "age", "-r", RECIPIENT, "-i", "identity"][..], &["-k", "my.key"]] {
        fixture.expect(0, &[&["encrypt"], keys, &["tree", "sealed"]].concat());
        let name = if keys[0] == "-k" { "two.enc" } else { "two.age" };
        let path = fixture.path("sealed/deep").join(name);
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let damaged = fs::OpenOptions::new().write(true).open(&path).unwrap();
        damaged.write_all_at(b"damage", 200_000).unwrap();
        damaged.set_modified(time).unwrap();
        let ended = fixture.expect(1, &[&["encrypt"], keys, &removing].concat());
        told(
            &ended,
            &format!("the output `{name}` exists with other content than this source gives"),
        );
        assert_eq!(fixture.names("tree/deep"), ["two"]);
        fs::remove_dir_all(fixture.path("sealed")).unwrap();
        fs::write(fixture.path("tree/one"), "the first file").unwrap();
    }
}

#[test]
fn a_tree_without_files_needs_no_wrapped_key() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("links/empty")).unwrap();
    std::os::unix::fs::symlink("nowhere", fixture.path("links/link")).unwrap();
    fixture.expect(0, &[&OF_AGE[..], &["links", "sealed"]].concat());
    fixture.expect(0, &["decrypt", "-i", "identity", "sealed", "out"]);
    assert_eq!(fixture.names("out"), ["empty", "link"]);
}
