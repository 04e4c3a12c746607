//! age's own format: files that the program `age` opens, and those that it has encrypted.

mod common;

use std::fs;

use common::{Fixture, RECIPIENT, has};

/// A fixture with `plain.age` and `armoured.age`, which `age` has made of `tree/one`.
fn fixture() -> Option<Fixture> {
    if !has("age") {
        evener_core::lacking!("there is no program `age`");
        return None;
    }
    let fixture = Fixture::new();
    for line in [
        &format!("age -r {RECIPIENT} -o plain.age tree/one"),
        &format!("age -a -r {RECIPIENT} -o armoured.age tree/one"),
        "(printf '\\357\\273\\277\\r\\n'; cat armoured.age) > marked.age",
    ] {
        assert_eq!(fixture.shell(line).status, Some(0), "{line}");
    }
    Some(fixture)
}

fn done(fixture: &Fixture, line: &str) {
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(0), "{line}: {}", ended.messages);
}

fn refused(fixture: &Fixture, line: &str, told: &str) {
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(2), "{line}: {}", ended.messages);
    assert_eq!(ended.messages, format!("evener: {told}\n"), "{line}");
    assert!(ended.output.is_empty() && !fixture.path("out").exists(), "{line}");
}

#[test]
fn evener_opens_what_age_has_encrypted() {
    let Some(fixture) = fixture() else { return };
    // A wrapped key in the same directory belongs to other files.
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree", "sealed"]);
    for name in ["plain.age", "armoured.age", "marked.age"] {
        fs::copy(fixture.path(name), fixture.path("sealed").join(name)).unwrap();
        for path in [name.to_owned(), format!("sealed/{name}")] {
            done(&fixture, &format!("$evener decrypt -i identity {path} out && cmp out tree/one"));
            fs::remove_file(fixture.path("out")).unwrap();
            done(&fixture, &format!("$evener verify -i identity {path}"));
            let listed = fixture.shell(&format!("$evener list -i identity {path}"));
            let listed = String::from_utf8_lossy(&listed.output).into_owned();
            let bytes = if name == "plain.age" { "             14 age " } else { " - age " };
            assert!(listed.contains(bytes), "{listed}");
        }
    }
    for name in ["plain.age", "armoured.age", "marked.age"] {
        for line in [
            format!("$evener decrypt -i identity - - < {name} | cmp - tree/one"),
            format!("cat {name} | $evener decrypt -i identity - out; cmp out tree/one"),
            format!("cat {name} | $evener decrypt --format age -i identity - - | cmp - tree/one"),
            format!("cat {name} | $evener verify -i identity -"),
            format!("mkfifo f; cat {name} > f & $evener verify -i identity f; s=$?; rm f; exit $s"),
        ] {
            done(&fixture, &line);
            let _ = fs::remove_file(fixture.path("out"));
        }
    }
    fs::create_dir(fixture.path("into")).unwrap();
    fixture.expect(0, &["decrypt", "-i", "identity", "plain.age", "into"]);
    assert_eq!(fixture.names("into"), ["plain"]);
}

#[test]
fn age_opens_what_evener_has_encrypted() {
    let Some(fixture) = fixture() else { return };
    let encrypt = format!("$evener encrypt -q --format age -r {RECIPIENT}");
    for line in [
        format!(
            "{encrypt} tree/deep/two two.age && age -d -i identity two.age | cmp - tree/deep/two"
        ),
        format!(
            "{encrypt} -a tree/deep/two a.txt && age -d -i identity a.txt | cmp - tree/deep/two"
        ),
        format!("{encrypt} - - < tree/one | age -d -i identity | cmp - tree/one"),
        format!("{encrypt} -a - - < tree/one | age -d -i identity | cmp - tree/one"),
        "head -n 1 a.txt | grep -qx -- '-----BEGIN AGE ENCRYPTED FILE-----'".to_owned(),
        format!(
            "{encrypt} tree sealed && age -d -i identity sealed/deep/two.age | cmp - tree/deep/two"
        ),
    ] {
        done(&fixture, &line);
    }
    assert_eq!(fixture.names("sealed"), ["deep", "one.age"]);
    for line in [
        "$evener verify -i identity sealed",
        "$evener decrypt -i identity sealed out",
        "$evener decrypt --only deep -i identity sealed part && cmp part/deep/two tree/deep/two",
        "$evener decrypt -i identity sealed/one.age two.age into/ && ls into/one into/two",
    ] {
        done(&fixture, line);
    }
    fixture.assert_same_tree("tree", "out");
    let listed = fixture.expect(0, &["list", "sealed"]);
    let listed = String::from_utf8_lossy(&listed.output).into_owned();
    assert!(listed.contains("300000 age ") && listed.contains("14 age "), "{listed}");
}

#[test]
fn a_passphrase_is_for_one_file() {
    let Some(fixture) = fixture() else { return };
    fixture.secret("passphrase", "open sesame\n");
    let with = "--passphrase-file passphrase";
    done(&fixture, &format!("$evener encrypt -q --format age {with} tree/one one.age"));
    done(&fixture, &format!("$evener decrypt {with} one.age - | cmp - tree/one"));
    let ended = fixture.expect(2, &["verify", "-i", "identity", "one.age"]);
    assert!(ended.messages.contains("none was given (`--passphrase`"), "{}", ended.messages);
    fixture.secret("other", "close sesame\n");
    let ended = fixture.expect(2, &["verify", "--passphrase-file", "other", "one.age"]);
    assert!(ended.messages.contains("the passphrase does not open it"), "{}", ended.messages);
    let ended = fixture.shell(&format!("$evener encrypt --format age {with} tree out"));
    assert_eq!(ended.status, Some(2), "{}", ended.messages);
    assert!(ended.messages.contains("a second for the passphrase of each file"));
    assert!(!fixture.path("out").exists());
}

#[test]
fn a_lacking_identity_of_an_age_file_is_named() {
    let Some(fixture) = fixture() else { return };
    for name in ["plain.age", "armoured.age", "marked.age"] {
        let told = format!(
            "`{name}` is an age file; give an identity of one of its recipients, or its \
             passphrase (`-i`, `--passphrase`)"
        );
        refused(&fixture, &format!("$evener decrypt {name} out"), &told);
        refused(&fixture, &format!("$evener verify {name}"), &told);
    }
    fixture.secret(
        "stranger",
        "AGE-SECRET-KEY-1EGTZVFFV20835NWYV6270LXYVK2VKNX2MMDKWYKLMGR48UAWX40Q2P2LM0",
    );
    for name in ["plain.age", "armoured.age"] {
        let told = "it is encrypted for others: none of the identities opens it (`-i`)";
        let ended = fixture.expect(2, &["decrypt", "-i", "stranger", name, "out"]);
        assert!(ended.messages.contains(told), "{}", ended.messages);
        assert!(!fixture.path("out").exists());
    }
}

#[test]
fn with_a_key_the_format_is_named() {
    let Some(fixture) = fixture() else { return };
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    fixture.expect(0, &["keygen", "--format", "tink", "-o", "tink.key"]);
    let told = "it is an age file; an identity or its passphrase opens it, not a key";
    for name in ["plain.age", "armoured.age"] {
        for line in [
            format!("$evener decrypt -k my.key {name} out"),
            format!("$evener decrypt -k my.key - out < {name}"),
            format!("$evener verify -k my.key {name}"),
            format!("$evener verify -k tink.key {name}"),
            format!("$evener verify -k my.key -k tink.key {name}"),
        ] {
            let ended = fixture.shell(&line);
            assert_eq!(ended.status, Some(2), "{line}: {}", ended.messages);
            assert!(ended.messages.contains(told), "{line}: {}", ended.messages);
            assert!(!fixture.path("out").exists());
        }
        // A tree with such a file: the other files are decrypted.
        fs::copy(fixture.path(name), fixture.path("sealed/strange.enc")).unwrap();
        let ended = fixture.expect(1, &["decrypt", "-k", "my.key", "sealed", "out"]);
        let line = ended.messages.lines().find(|line| line.contains("strange.enc"));
        assert!(line.is_some_and(|line| line.ends_with(told)), "{}", ended.messages);
        fixture.assert_same_tree("tree", "out");
        fs::remove_dir_all(fixture.path("out")).unwrap();
    }
    let ended = fixture.shell("$evener encrypt --format age -k my.key tree/one out");
    assert_eq!(ended.status, Some(2), "{}", ended.messages);
    assert!(ended.messages.contains("--key does not go with --format age"), "{}", ended.messages);
}

#[test]
fn recipients_alone_update_by_size_and_time() {
    let fixture = Fixture::new();
    let encrypt = |more: &[&str]| {
        let mut arguments = vec!["encrypt", "--format", "age", "-r", RECIPIENT, "--update"];
        arguments.extend_from_slice(more);
        arguments.extend_from_slice(&["tree", "sealed"]);
        fixture.expect(0, &arguments).messages
    };
    encrypt(&[]);
    let first = fs::read(fixture.path("sealed/one.age")).unwrap();
    let told = encrypt(&[]);
    assert!(
        told.contains("--update goes by size and time alone: recipients can't open files"),
        "{told}"
    );
    assert_eq!(fs::read(fixture.path("sealed/one.age")).unwrap(), first);
    let told = encrypt(&["-i", "identity"]);
    assert!(!told.contains("alone"), "{told}");
    assert_eq!(fs::read(fixture.path("sealed/one.age")).unwrap(), first);
    fs::write(fixture.path("tree/one"), "another content").unwrap();
    encrypt(&[]);
    assert_ne!(fs::read(fixture.path("sealed/one.age")).unwrap(), first);
    fixture.expect(0, &["decrypt", "-i", "identity", "sealed", "out"]);
    fixture.assert_same_tree("tree", "out");
    // A file that is none of age's is not replaced.
    fs::write(fixture.path("sealed/one.age"), "my notes").unwrap();
    let ended =
        fixture.run(&["encrypt", "--format", "age", "-r", RECIPIENT, "--update", "tree", "sealed"]);
    assert_eq!(ended.status, Some(1), "{}", ended.messages);
    assert_eq!(fs::read(fixture.path("sealed/one.age")).unwrap(), b"my notes");
}

#[test]
fn a_file_of_age_is_no_key() {
    let Some(fixture) = fixture() else { return };
    for name in ["plain.age", "armoured.age"] {
        let key = format!("-k {name} -i identity");
        let told = format!("can't use `{name}` as a key: the age file holds no key");
        refused(&fixture, &format!("$evener decrypt {key} tree/one out"), &told);
        let told = format!(
            "can't read identities from `{name}`: age encrypted it for a recipient, and a file of \
             identities opens only with a passphrase; decrypt it with `age -d` first"
        );
        refused(&fixture, &format!("$evener decrypt -i {name} tree/one out"), &told);
    }
}

#[test]
fn files_named_as_wrapped_keys_are_decrypted_one_by_one() {
    let fixture = Fixture::new();
    for name in ["notes.evener-key", "deep/evener-key", "deep/evener-key-2"] {
        fs::write(fixture.path("tree").join(name), name).unwrap();
    }
    fs::create_dir(fixture.path("tree/empty")).unwrap();
    fs::remove_file(fixture.path("tree/deep/two")).unwrap();
    let encrypt = ["encrypt", "-q", "--format", "age", "-r", RECIPIENT];
    fixture.expect(0, &[&encrypt[..], &["tree", "sealed"]].concat());
    done(&fixture, "$evener decrypt -i identity sealed/* out/");
    fixture.assert_same_tree("tree", "out");
    fs::remove_dir_all(fixture.path("out")).unwrap();
    // Wrapped keys alone are keys.
    for source in ["sealed/deep", "sealed/deep/*"] {
        let ended = fixture.shell(&format!("$evener decrypt -i identity {source} out/"));
        assert_eq!(ended.status, Some(2), "{}", ended.messages);
        assert!(ended.messages.ends_with(" files of age, give --format age\n"), "{ended:?}");
        done(&fixture, &format!("$evener decrypt --format age -i identity {source} out/"));
        fixture.assert_same_tree("tree/deep", "out");
        fs::remove_dir_all(fixture.path("out")).unwrap();
    }
    // A tree of another format has the key at its root.
    fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "tree", "other"]);
    fs::copy(fixture.path("sealed/one.age"), fixture.path("other/one.age")).unwrap();
    let decrypt = ["decrypt", "-i", "identity", "--exclude", "*.age", "other", "out"];
    fixture.expect(0, &decrypt);
    fixture.assert_same_tree("tree", "out");
}

#[test]
fn a_file_with_the_name_of_the_trees_key_takes_another_suffix() {
    let fixture = Fixture::new();
    fs::write(fixture.path("tree/evener-key"), "no key").unwrap();
    let encrypt = ["encrypt", "-q", "--format", "age", "-r", RECIPIENT];
    let ended = fixture.expect(1, &[&encrypt[..], &["tree", "sealed"]].concat());
    let told = "tree/evener-key: its output would have the name of the tree's wrapped key; rename it, \
                or choose another suffix (see --suffix)\n";
    assert!(ended.messages.ends_with(told), "{}", ended.messages);
    let other = ["--suffix", ".sealed", "tree", "other"];
    fixture.expect(0, &[&encrypt[..], &other].concat());
    let decrypt = ["decrypt", "-i", "identity", "--suffix", ".sealed", "other", "out"];
    let ended = fixture.expect(2, &decrypt);
    assert!(ended.messages.ends_with(": --format age opens it\n"), "{}", ended.messages);
    fixture.expect(0, &[&decrypt[..], &["--format", "age"]].concat());
    fixture.assert_same_tree("tree", "out");
    // Another program can make such a tree.
    let one = [&encrypt[..], &["tree/evener-key", "sealed/evener-key.age"]].concat();
    fixture.expect(0, &one);
    fixture.expect(0, &["decrypt", "-i", "identity", "sealed", "again"]);
    fixture.assert_same_tree("tree", "again");
}
