//! Trust in sealed trees that this machine has seen.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::{Ended, Fixture, RECIPIENT};

/// A fixture with a sealed tree for a recipient.
fn sealed() -> Fixture {
    let fixture = Fixture::new();
    fixture.expect(0, &seal("tree"));
    fixture
}

fn seal(source: &'static str) -> [&'static str; 7] {
    ["encrypt", "-q", "--sealed", "-r", RECIPIENT, source, "sealed"]
}

#[test]
fn nothing_else_takes_the_place_of_a_tree_that_was_seen() {
    let fixture = sealed();
    let plain = ["encrypt", "-q", "-r", RECIPIENT, "tree", "elsewhere"];
    fixture.expect(0, &plain);
    fs::rename(fixture.path("sealed"), fixture.path("kept")).unwrap();
    let opening = ["-i", "identity"];
    let commands: [&[&str]; 12] = [
        &["decrypt", "sealed", "out"],
        &["decrypt", "elsewhere", "sealed", "out/"],
        &["verify", "sealed"],
        &["list", "sealed"],
        &["cat", "sealed", "one"],
        &["diff", "sealed", "tree"],
        &["clean", "sealed"],
        &["signers", "sealed"],
        &["rewrap", "-r", RECIPIENT, "sealed"],
        &["rekey", "-r", RECIPIENT, "sealed"],
        &["encrypt", "-r", RECIPIENT, "tree", "sealed"],
        &["encrypt", "--sealed", "-r", RECIPIENT, "tree", "sealed"],
    ];
    for remains in ["nothing", "empty", "plain"] {
        match remains {
            "empty" => fs::create_dir_all(fixture.path("sealed/d")).unwrap(),
            "plain" => {
                fs::remove_dir_all(fixture.path("sealed")).unwrap();
                fs::rename(fixture.path("elsewhere"), fixture.path("sealed")).unwrap();
                fs::create_dir(fixture.path("elsewhere")).unwrap();
            }
            _ => {}
        }
        for command in commands {
            let told = fixture.expect(2, &[command, &opening].concat()).messages;
            let is_told = told.contains("has seen the sealed tree") && told.contains("is gone");
            assert!(is_told && told.contains("--allow-rollback"), "{remains} {command:?}: {told}");
            assert!(!fixture.path("out").exists());
        }
    }
    // It is told aloud that it is accepted, and then it is.
    let accepting = ["verify", "-i", "identity", "--allow-rollback", "-q", "sealed"];
    let told = fixture.expect(0, &accepting).messages;
    assert!(told.starts_with("evener: warning: sealed: accepted that the sealed tree"), "{told}");
    fixture.expect(0, &["decrypt", "-i", "identity", "sealed", "out"]);
    let told = fixture.expect(2, &accepting).messages;
    assert!(told.contains("--allow-rollback is for sealed trees"), "{told}");
}

/// A path below the tree belongs to the tree, also under another name of the tree.
#[test]
fn a_path_below_a_tree_that_is_gone_is_refused() {
    let fixture = sealed();
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "plain"]);
    symlink(fixture.path(""), fixture.path("link")).unwrap();
    fs::rename(fixture.path("sealed"), fixture.path("away")).unwrap();
    fs::rename(fixture.path("plain"), fixture.path("sealed")).unwrap();
    let commands: [&[&str]; 8] = [
        &["decrypt", "-k", "my.key", "sealed/one.enc", "out"],
        &["decrypt", "-k", "my.key", "sealed/deep/two.enc", "out"],
        &["decrypt", "-k", "my.key", "link/sealed/deep", "out"],
        &["decrypt", "-k", "my.key", "sealed/deep/two.enc", "sealed/one.enc", "out/"],
        &["verify", "-k", "my.key", "tree/../sealed/deep"],
        &["list", "sealed/deep"],
        &["cat", "-k", "my.key", "sealed/one.enc"],
        &["encrypt", "-k", "my.key", "tree/one", "sealed/new"],
    ];
    for command in commands {
        let told = fixture.expect(2, command).messages;
        assert!(told.contains("sealed: this machine has seen the sealed tree"), "{told}");
        assert!(!fixture.path("out").exists() && !fixture.path("sealed/new").exists());
    }
    // A path beside it is not refused, nor is one below a tree that exists.
    fixture.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "plain"]);
    fixture.expect(0, &["verify", "-k", "my.key", "plain/one.enc"]);
    fixture.expect(0, &["verify", "-k", "my.key", "--allow-rollback", "sealed/one.enc"]);
    fixture.expect(0, &["verify", "-k", "my.key", "sealed/one.enc"]);
}

#[test]
fn a_link_in_its_place_is_no_new_place() {
    let fixture = sealed();
    let copied =
        Command::new("cp").args(["-a", "sealed", "older"]).current_dir(fixture.path("")).status();
    assert!(copied.unwrap().success());
    sleep(Duration::from_millis(60));
    fs::write(fixture.path("tree/one"), "newer").unwrap();
    sleep(Duration::from_millis(60));
    fixture.expect(0, &[&seal("tree")[..], &["-i", "identity"]].concat());
    fs::remove_dir_all(fixture.path("sealed")).unwrap();
    symlink("older", fixture.path("sealed")).unwrap();
    for name in ["sealed", "./sealed/", "tree/../sealed"] {
        let told = fixture.expect(2, &["verify", "-i", "identity", name]).messages;
        assert!(told.contains("rolled back"), "{name}: {told}");
    }
    // Another tree behind the link.
    fixture.expect(0, &["encrypt", "-q", "--sealed", "-r", RECIPIENT, "tree", "forged"]);
    fs::remove_file(fixture.path("sealed")).unwrap();
    symlink("forged", fixture.path("sealed")).unwrap();
    let told = fixture.expect(2, &["cat", "-i", "identity", "sealed", "one"]).messages;
    assert!(told.contains("has seen the tree"), "{told}");
    let accepting = ["cat", "-q", "-i", "identity", "--allow-rollback", "sealed", "one"];
    let told = fixture.expect(0, &accepting).messages;
    assert!(told.contains("in place of the tree") && told.contains("SHA256:"), "{told}");
}

#[test]
fn without_a_state_it_is_said_that_nothing_is_remembered() {
    let fixture = Fixture::new();
    for arguments in [
        &["encrypt", "--sealed", "-k", "my.key", "tree", "sealed"][..],
        &["verify", "-k", "my.key", "sealed"],
        &["list", "-k", "my.key", "sealed"],
        &["cat", "-k", "my.key", "sealed", "one"],
        &["clean", "-k", "my.key", "sealed"],
    ] {
        let mut command = fixture.command(arguments);
        let ended = Ended::of(command.env_remove("XDG_STATE_HOME").env_remove("HOME"));
        assert_eq!(ended.status, Some(0), "{ended:?}");
        let warning = "warning: without XDG_STATE_HOME and HOME, nothing is remembered";
        assert_eq!(ended.messages.matches(warning).count(), 1, "{arguments:?}: {ended:?}");
    }
}

#[test]
fn files_of_allowed_signers_are_read_as_ssh_keygen_reads_them() {
    let fixture = Fixture::new();
    let keygen = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(fixture.path("signer"))
        .status();
    assert!(keygen.unwrap().success());
    fixture.expect(0, &[&seal("tree")[..], &["--sign", "signer"]].concat());
    let key = fs::read_to_string(fixture.path("signer.pub")).unwrap();
    let verify = ["verify", "-i", "identity", "--signers", "allowed", "sealed"];
    for (before, reason) in [
        ("", None),
        ("\u{feff}", None),
        ("# comment\n\nme ", None),
        ("* ", None),
        ("me,\"you and me\" namespaces=\"git,evener-tree-v1\" ", None),
        ("me namespaces=\"git\" ", Some("allowed has no public key of a signer")),
        ("me cert-authority ", Some("can't honour the option `cert-authority`")),
        ("me valid-before=\"20300101\" ", Some("can't honour the option `valid-before`")),
    ] {
        fs::write(fixture.path("allowed"), format!("{before}{key}")).unwrap();
        let told = fixture.expect(if reason.is_some() { 2 } else { 0 }, &verify).messages;
        assert!(reason.is_none_or(|reason| told.contains(reason)), "{before}: {told}");
    }
}
