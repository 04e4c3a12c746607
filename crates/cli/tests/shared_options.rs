//! Options that several commands share, in use.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Ended, Fixture, RECIPIENT};

fn listed(ended: &Ended) -> Vec<String> {
    let document = ended.document();
    let files = document["files"].as_array().unwrap().iter();
    files.map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_part_of_a_tree_is_verified_and_listed_as_it_is_decrypted() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    fs::write(fixture.path("sealed/one.enc"), "this was damaged").unwrap();
    let key = ["-k", "my.key", "sealed"];
    fixture.expect(1, &[&["verify"], &key[..]].concat());
    let part = fixture.expect(0, &[&["verify", "--json", "--only", "deep"], &key[..]].concat());
    assert_eq!(part.document()["files"], 1);
    let only = |path| [&["list", "--json", "--only", path], &key[..]].concat();
    assert_eq!(listed(&fixture.expect(0, &only("deep"))), ["sealed/deep/two.enc"]);
    assert_eq!(listed(&fixture.expect(0, &only("one"))), ["sealed/one.enc"]);
    for command in ["verify", "list"] {
        let missing = [&[command, "--only", "two.enc"], &key[..]].concat();
        let told = fixture.expect(1, &missing).messages;
        let expected = "two.enc: nothing of this name was found in the source; files are chosen by \
                        the names that they had before, without `.enc`";
        assert!(told.contains(expected), "{told}");
        let told = fixture.expect(2, &[command, "--only", "x", "-k", "my.key", "sealed/one.enc"]);
        assert!(told.messages.contains("--only chooses a part of a tree"), "{}", told.messages);
        let told = fixture.expect(2, &[&[command, "--only", "../x"], &key[..]].concat());
        assert!(
            told.messages.contains("`..` has no place in a path below the source"),
            "{}",
            told.messages
        );
    }
    let told = fixture.expect(2, &["list", "--follow-symlinks", "sealed"]).messages;
    assert!(told.contains("--follow-symlinks is of no use: list shows the files"), "{told}");
}

#[test]
fn quiet_leaves_out_all_but_failures() {
    let fixture = Fixture::new();
    fixture.secret("odd", "open sesame\r\n");
    let odd = ["--passphrase-file", "odd"];
    let loud = fixture.expect(0, &[&["keygen", "-o", "loud.key"], &odd[..]].concat());
    assert!(loud.messages.contains("warning: the passphrase from `odd`"), "{}", loud.messages);
    let quiet = fixture.expect(0, &[&["keygen", "-q", "-o", "quiet.key"], &odd[..]].concat());
    assert_eq!(quiet.messages, "");
    let failed = fixture.expect(2, &["keygen", "--quiet", "-o", "quiet.key"]);
    assert!(failed.messages.contains("not overwriting"), "{}", failed.messages);

    let list = ["list", "--exclude", "nothing", "tree"];
    assert!(fixture.expect(0, &list).messages.contains("matches nothing here"));
    assert_eq!(fixture.expect(0, &[&list[..], &["-q"]].concat()).messages, "");

    let speed = ["speed", "aes-128-gcm", "--engine", "openssl", "--bytes", "16", "--time", "1"];
    assert!(fixture.expect(0, &speed).messages.contains("aes-128-gcm, encrypt"));
    assert_eq!(fixture.expect(0, &[&speed[..], &["-q"]].concat()).messages, "");
}

#[test]
fn a_key_is_made_from_files_that_others_may_change_only_on_request() {
    let fixture = Fixture::new();
    fs::write(fixture.path("team"), RECIPIENT).unwrap();
    fs::set_permissions(fixture.path("team"), fs::Permissions::from_mode(0o666)).unwrap();
    fixture.expect(2, &["keygen", "-R", "team", "-o", "team.key"]);
    let insecure = ["keygen", "--insecure-key-file", "-R", "team", "-o", "team.key"];
    let told = fixture.expect(0, &insecure).messages;
    assert!(told.contains("warning: others may change the recipients in team"), "{told}");
}

/// Runs a shell command line in the fixture as a user other than root; `None` if the tests do not
/// run as root.
fn as_nobody(fixture: &Fixture, line: &str) -> Option<Ended> {
    if !rustix::process::geteuid().is_root() || !common::has("setpriv") {
        evener_core::skipped!("another user's files: this is not root's process");
        return None;
    }
    let program =
        "cp $evener program && chmod 755 . program && chown nobody my.key && mkdir -p -m 777 out";
    assert_eq!(fixture.shell(program).status, Some(0));
    let user = "setpriv --reuid=nobody --regid=nogroup --clear-groups --bounding-set=-all";
    Some(fixture.shell(&format!("{user} sh -c '{line}'")))
}

#[test]
fn where_owners_cant_be_restored_the_option_to_leave_out_is_named() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    let decrypt = "HOME=/nowhere ./program decrypt -k my.key --owner";
    for (source, file) in
        [("sealed/one.enc out/one", "sealed/one.enc"), ("sealed out/tree", "sealed")]
    {
        let Some(ended) = as_nobody(&fixture, &format!("{decrypt} {source}")) else { return };
        assert_eq!(ended.status, Some(1), "{}", ended.messages);
        for told in [
            "can't set its owner: Operation not permitted",
            "; only root gives files to other users: leave --owner out\n",
        ] {
            assert!(ended.messages.contains(told), "{}", ended.messages);
        }
        assert!(ended.messages.contains(file), "{}", ended.messages);
    }
    let without = "HOME=/nowhere ./program decrypt -k my.key sealed out/without";
    let Some(ended) = as_nobody(&fixture, without) else { return };
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    fixture.assert_same_tree("tree", "out/without");
}
