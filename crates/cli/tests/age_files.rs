//! Files that age itself has encrypted, which Evener does not read.

mod common;

use std::fs;

use common::{Fixture, RECIPIENT, has};

/// A fixture with `plain.age` and `armoured.age`.
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

fn refused(fixture: &Fixture, line: &str, told: &str) {
    let ended = fixture.shell(line);
    assert_eq!(ended.status, Some(2), "{line}: {}", ended.messages);
    assert_eq!(ended.messages, format!("evener: {told}\n"), "{line}");
    assert!(ended.output.is_empty() && !fixture.path("out").exists(), "{line}");
}

#[test]
fn a_file_of_age_is_named_with_what_opens_it() {
    let Some(fixture) = fixture() else { return };
    fixture.secret("passphrase", "open sesame\n");
    let opens = "is a file of age itself, which Evener does not read; `age -d -i IDENTITY` opens it, \
                 or `age -d` with its passphrase";
    // A wrapped key in the same directory belongs to other files.
    for place in [".", "sealed"] {
        fixture.expect(0, &["encrypt", "-q", "-r", RECIPIENT, "--overwrite", "tree", "sealed"]);
        for name in ["plain.age", "armoured.age", "marked.age"] {
            let _ = fs::copy(fixture.path(name), fixture.path("sealed").join(name));
            let path = if place == "." { name.to_owned() } else { format!("{place}/{name}") };
            for opener in ["-i identity", "--passphrase-file passphrase", ""] {
                let told = format!("`{path}` {opens}");
                refused(&fixture, &format!("$evener decrypt {opener} {path} out"), &told);
                refused(&fixture, &format!("$evener verify {opener} {path}"), &told);
                if !opener.is_empty() {
                    refused(&fixture, &format!("$evener list {opener} {path}"), &told);
                }
            }
        }
    }
    // A key that Evener wrapped counts too.
    let told = format!("`sealed/evener-key.age` {opens}");
    refused(&fixture, "$evener decrypt -i identity sealed/evener-key.age out", &told);
    let listed = fixture.expect(0, &["list", "plain.age"]);
    assert!(String::from_utf8_lossy(&listed.output).contains(" age "), "{listed:?}");
    for name in ["plain.age", "armoured.age"] {
        let told = format!("`standard input` {opens}");
        refused(&fixture, &format!("$evener decrypt -i identity - - < {name}"), &told);
        refused(&fixture, &format!("cat {name} | $evener verify -i identity -"), &told);
        let line = format!(
            "mkfifo fifo; cat {name} > fifo & $evener verify -i identity fifo; s=$?; rm fifo; exit $s"
        );
        refused(&fixture, &line, &format!("`fifo` {opens}"));
    }
}

#[test]
fn with_a_key_the_format_is_named() {
    let Some(fixture) = fixture() else { return };
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    fixture.expect(0, &["keygen", "--format", "tink", "-o", "tink.key"]);
    let told = "it is a file of age itself, which Evener does not read; `age -d` opens it";
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
    // A tree of such files, without a key.
    fs::create_dir(fixture.path("theirs")).unwrap();
    fs::copy(fixture.path("plain.age"), fixture.path("theirs/plain.age")).unwrap();
    let ended = fixture.expect(2, &["decrypt", "-i", "identity", "theirs", "out"]);
    let told = "; theirs/plain.age is a file of age itself, which `age -d` opens\n";
    assert!(ended.messages.ends_with(told), "{}", ended.messages);
}

#[test]
fn a_file_of_age_is_no_key() {
    let Some(fixture) = fixture() else { return };
    for name in ["plain.age", "armoured.age"] {
        let key = format!("-k {name} -i identity");
        let told = format!(
            "can't use `{name}` as a key: what age encrypted in it is no key, and Evener does not \
             read files of age itself; `age -d` does"
        );
        refused(&fixture, &format!("$evener decrypt {key} tree/one out"), &told);
        let told = format!(
            "can't read identities from `{name}`: age encrypted it for a recipient, and a file of \
             identities opens only with a passphrase; decrypt it with `age -d` first"
        );
        refused(&fixture, &format!("$evener decrypt -i {name} tree/one out"), &told);
    }
}
