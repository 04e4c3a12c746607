//! Jobs for recipients: every attempt at a shard has a key of its own.
#![cfg(feature = "age")]

mod common;

use std::fs;

use common::{Ended, Fixture, IDENTITY, RECIPIENT};

impl Fixture {
    fn plan(&self, job: &str, more: &[&str]) -> Ended {
        let plan = ["job", "plan", "-k", "my.key", "--objects", "10", "--job", job];
        self.expect(0, &[&plan[..], more, &["tree", "vault"]].concat())
    }

    fn job(&self, status: i32, command: &str, more: &[&str]) -> Ended {
        self.expect(status, &[&["job", command, "-k", "my.key"], more].concat())
    }

    /// Decrypts the tree with the identity alone, and compares it with the source.
    fn compare(&self, back: &str) {
        self.expect(0, &["decrypt", "-i", "identity", "vault", back]);
        self.assert_same_tree("tree", back);
    }
}

fn with_files() -> Fixture {
    let fixture = Fixture::new();
    for number in 0..25 {
        fs::write(fixture.path(&format!("tree/deep/{number}")), vec![1; 100 * number]).unwrap();
    }
    fixture
}

#[test]
fn an_identity_alone_opens_the_generation() {
    let fixture = with_files();
    fixture.plan("J", &["-r", RECIPIENT]);
    fixture.job(0, "run", &["--shard", "2", "J"]);
    fixture.job(0, "run", &["--worker", "0/1", "J"]);
    let refused = fixture.job(2, "finish", &["--verify", "J"]).messages;
    assert!(refused.contains("--identity"), "{refused}");
    fixture.job(0, "finish", &["-i", "identity", "--verify", "J"]);
    fixture.compare("back");
    let key = fixture.expect(2, &["decrypt", "-k", "my.key", "vault", "not"]);
    assert!(key.messages.contains("key"), "{}", key.messages);
    // Later runs of this machine go on with the tree, and know its signer and its recipients.
    fs::write(fixture.path("tree/new"), "new").unwrap();
    fixture.expect(0, &["encrypt", "--sealed", "-r", RECIPIENT, "-i", "identity", "tree", "vault"]);
    fixture.compare("later");
    // A job adds to it, too.
    fixture.plan("K", &["-r", RECIPIENT, "-i", "identity"]);
    fixture.job(0, "run", &["--worker", "0/1", "K"]);
    fixture.job(0, "finish", &["-i", "identity", "K"]);
    fixture.compare("last");
    let listed = fixture.expect(0, &["list", "--generations", "-i", "identity", "vault", "--json"]);
    assert_eq!(listed.document()["generations"].as_array().unwrap().len(), 3);
}

#[test]
fn recipients_come_from_files_and_may_be_ssh_keys() {
    let fixture = with_files();
    let made = fixture.shell("ssh-keygen -q -t ed25519 -N '' -C '' -f ssh");
    assert_eq!(made.status, Some(0), "{}", made.messages);
    let ssh = fs::read_to_string(fixture.path("ssh.pub")).unwrap();
    fs::write(fixture.path("recipients.txt"), format!("# both\n{RECIPIENT}\n{ssh}")).unwrap();
    fixture.plan("J", &["-R", "recipients.txt"]);
    // Workers need the job alone.
    fs::remove_file(fixture.path("recipients.txt")).unwrap();
    fixture.job(0, "run", &["--worker", "0/1", "J"]);
    // Another machine finishes the job, and knows the tree then.
    let elsewhere = |arguments: &[&str]| {
        let mut command = fixture.command(arguments);
        let ended = Ended::of(command.env("XDG_STATE_HOME", fixture.path("elsewhere")));
        assert_eq!(ended.status, Some(0), "{arguments:?}: {}", ended.messages);
    };
    elsewhere(&["job", "finish", "-k", "my.key", "J"]);
    let both = ["-r", RECIPIENT, "-r", ssh.trim()];
    elsewhere(&[&["encrypt", "--sealed", "-i", "ssh"], &both[..], &["tree", "vault"]].concat());
    fixture.compare("back");
    fixture.expect(0, &["decrypt", "-i", "ssh", "vault", "by-ssh"]);
    fixture.assert_same_tree("tree", "by-ssh");
}

/// An own key signs, if the plan said so.
#[test]
fn a_key_of_the_users_signs() {
    let fixture = with_files();
    let made = fixture.shell("ssh-keygen -q -t ed25519 -N '' -C '' -f ssh");
    assert_eq!(made.status, Some(0), "{}", made.messages);
    fixture.plan("J", &["-r", RECIPIENT, "--sign", "ssh"]);
    fixture.job(0, "run", &["--worker", "0/1", "J"]);
    fixture.job(0, "finish", &["--sign", "ssh", "J"]);
    let signers = fixture.expect(0, &["signers", "-i", "identity", "vault"]);
    let public = fs::read_to_string(fixture.path("ssh.pub")).unwrap();
    let public = public.split(' ').nth(1).unwrap();
    assert!(String::from_utf8(signers.output).unwrap().contains(public));
    fixture.compare("back");
}

#[test]
fn wrong_recipients_are_refused() {
    let fixture = with_files();
    let plan = ["job", "plan", "-k", "my.key", "--job", "J", "-r", IDENTITY, "tree", "vault"];
    let words = fixture.expect(2, &plan).messages;
    assert!(!words.contains(IDENTITY), "{words}");
    assert!(!fixture.path("J").exists() && !fixture.path("vault").exists());
}
