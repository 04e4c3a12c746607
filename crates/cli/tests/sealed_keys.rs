//! Recipients and signers of sealed trees that change.

mod common;

use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::{Fixture, RECIPIENT, has};

/// Makes the file `other`, an identity, and returns its recipient.
fn other(fixture: &Fixture) -> String {
    use age::secrecy::ExposeSecret as _;
    let identity = age::x25519::Identity::generate();
    fixture.secret("other", identity.to_string().expose_secret());
    identity.to_public().to_string()
}

/// Changes the source.
fn change(fixture: &Fixture, content: &str) {
    fs::write(fixture.path("tree/one"), content).unwrap();
    sleep(Duration::from_millis(60));
}

#[test]
fn recipients_change_in_two_steps() {
    let fixture = Fixture::new();
    let other = other(&fixture);
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-r", RECIPIENT, "tree", "sealed"]);
    let seal = ["encrypt", "--sealed", "-r", &other, "tree", "sealed"];
    let both = ["encrypt", "--sealed", "-r", RECIPIENT, "-r", &other, "tree", "sealed"];
    for seal in [&seal[..], &both] {
        let told = fixture.expect(2, seal).messages;
        assert!(told.contains("evener rewrap -i"), "{told}");
    }
    assert_eq!(fixture.names("sealed/keys").len(), 1);
    let rewrap = ["rewrap", "-i", "identity", "-i", "other", "-r", &other, "sealed"];
    fixture.expect(0, &rewrap);
    change(&fixture, "changed");
    fixture.expect(0, &seal);
    fixture.expect(0, &["verify", "-i", "other", "sealed"]);
    fixture.expect(0, &["verify", "-i", "other", "--generation", "1", "sealed"]);
    let back = ["encrypt", "-q", "--sealed", "--recipients-changed", "-r", RECIPIENT];
    fixture.expect(0, &[&back[..], &["tree", "sealed"]].concat());
    let plain = ["encrypt", "--recipients-changed", "-r", RECIPIENT, "tree", "plain"];
    assert!(fixture.expect(2, &plain).messages.contains("give --sealed too"));
}

#[test]
fn a_passphrase_does_not_give_way_to_recipients() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse battery staple\n");
    let passphrase = ["encrypt", "-q", "--sealed", "--passphrase-file", "passphrase"];
    fixture.expect(0, &[&passphrase[..], &["tree", "sealed"]].concat());
    let seal = ["encrypt", "--sealed", "-r", RECIPIENT, "tree", "sealed"];
    assert!(fixture.expect(2, &seal).messages.contains("evener rewrap"));
    fixture.expect(0, &["verify", "--passphrase-file", "passphrase", "sealed"]);
}

#[test]
fn generations_of_a_passphrase_share_a_key() {
    let fixture = Fixture::new();
    fixture.secret("passphrase", "correct horse battery staple\n");
    let passphrase = ["encrypt", "-q", "--sealed", "--passphrase-file", "passphrase"];
    for content in ["one", "other", "third"] {
        change(&fixture, content);
        fixture.expect(0, &[&passphrase[..], &["tree", "sealed"]].concat());
    }
    assert_eq!(fixture.names("sealed/tree").len(), 3);
    assert_eq!(fixture.names("sealed/keys").len(), 1);
    fixture.expect(0, &["verify", "--passphrase-file", "passphrase", "sealed"]);
}

#[test]
fn a_key_does_not_give_way_to_recipients() {
    let fixture = Fixture::new();
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-k", "my.key", "tree", "sealed"]);
    let told =
        fixture.expect(2, &["encrypt", "--sealed", "-r", RECIPIENT, "tree", "sealed"]).messages;
    assert!(told.contains("evener rekey"), "{told}");
    let told = fixture.expect(2, &["rewrap", "-k", "my.key", "-r", RECIPIENT, "sealed"]).messages;
    assert!(told.contains("evener rekey"), "{told}");
    fixture.expect(0, &["rekey", "-q", "-k", "my.key", "-r", RECIPIENT, "sealed"]);
    change(&fixture, "changed");
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-r", RECIPIENT, "tree", "sealed"]);
    fixture.expect(0, &["verify", "-i", "identity", "sealed"]);
}

#[test]
fn a_hidden_key_is_a_failure() {
    let fixture = Fixture::new();
    let seal = ["encrypt", "-q", "--sealed", "-r", RECIPIENT, "tree", "sealed"];
    fixture.expect(0, &seal);
    let first = fixture.names("sealed/keys").remove(0);
    change(&fixture, "changed");
    fixture.expect(0, &seal);
    fs::rename(fixture.path("sealed/keys").join(&first), fixture.path("held")).unwrap();
    let told = fixture.expect(1, &["rewrap", "-i", "identity", "-r", RECIPIENT, "sealed"]).messages;
    assert!(told.contains(&format!("the key {}, which", &first[..32])), "{told}");
}

#[test]
fn the_line_of_no_tree_is_refused() {
    let fixture = Fixture::new();
    let told = fixture.expect(2, &["signers", "--own", "nope"]).messages;
    assert!(told.contains("it is no sealed tree"), "{told}");
}

#[test]
fn a_key_that_can_not_sign_is_refused_before_the_work() {
    if !has("ssh-keygen") || !has("setsid") {
        evener_core::lacking!("there is no program `ssh-keygen` or `setsid`");
        return;
    }
    let fixture = Fixture::new();
    for (name, passphrase) in [("closed", "secret"), ("signer", "")] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", passphrase, "-f"])
            .arg(fixture.path(name))
            .status();
        assert!(made.unwrap().success());
    }
    let line = |signer| {
        format!(
            "env -u SSH_ASKPASS -u SSH_AUTH_SOCK setsid -w \"$evener\" encrypt --sealed \
             -r {RECIPIENT} {signer} tree sealed"
        )
    };
    let ended = fixture.shell(&line("--sign closed"));
    assert_eq!(ended.status, Some(2), "{ended:?}");
    assert!(!fixture.path("sealed").exists());
    assert_eq!(fixture.shell(&line("--sign signer")).status, Some(0));
    // The machine's own key is not the one that signs.
    change(&fixture, "changed");
    let ended = fixture.shell(&line(""));
    assert!(ended.messages.contains("give that one with --sign"), "{ended:?}");
}
