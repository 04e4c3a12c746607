//! Bringing an encrypted tree up to date.

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use common::{Bench, RECIPIENT, has};

/// Waits until the filesystem's clock has gone on, so that what comes now is newer than what was.
fn let_time_pass(bench: &Bench) {
    let changed = |name: &str| {
        fs::write(bench.path(name), "").unwrap();
        let status = fs::metadata(bench.path(name)).unwrap();
        (status.ctime(), status.ctime_nsec())
    };
    let before = changed("before");
    while changed("after") <= before {
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_update_says_what_it_did() {
    let bench = Bench::new();
    let update = ["encrypt", "-k", "my.key", "--update"];
    let run = |options: &[&str]| {
        let ended = bench.expect(0, &[&update, options, &["tree", "sealed"]].concat());
        ended.messages.lines().last().unwrap_or_default().to_owned()
    };
    let_time_pass(&bench);
    assert!(run(&[]).starts_with("evener: encrypted 2 files, "));
    assert!(run(&[]).ends_with("; 2 unchanged"));
    fs::write(bench.path("tree/one"), "another content").unwrap();
    fs::write(bench.path("tree/new"), "new").unwrap();
    assert_eq!(run(&["-n"]), "evener: would encrypt 2 files, 18 B; 1 to update; 1 unchanged");
    let told = run(&[]);
    assert!(told.starts_with("evener: encrypted 2 files, 18 B in "), "{told}");
    assert!(told.ends_with("; 1 updated; 1 unchanged"), "{told}");
    let_time_pass(&bench);
    fs::remove_file(bench.path("tree/new")).unwrap();
    fs::remove_dir_all(bench.path("tree/deep")).unwrap();
    let ended = bench.expect(0, &[&update[..], &["--delete", "-n", "tree", "sealed"]].concat());
    let told = "evener: sealed/deep/two.enc: its source has gone, so it would be deleted\n\
                evener: sealed/new.enc: its source has gone, so it would be deleted\n\
                evener: would encrypt 0 files, 0 B; 1 unchanged; 2 to delete\n";
    // Whether the update before was in the same tick as its source is chance.
    let same = ended.messages.replace("would encrypt 1 file, 15 B; 1 to update", UNCHANGED);
    let same = same.replace("evener: would update tree/one\n", "");
    assert_eq!(same, told);
    let delete = [&update[..], &["--delete", "--yes", "--json", "tree", "sealed"]].concat();
    let document = bench.expect(0, &delete).document();
    assert_eq!(document["files_deleted"], 2);
    assert_eq!(document["update"], true);
    assert_eq!(bench.names("sealed"), ["one.enc"]);
    bench.expect(0, &["decrypt", "-q", "-k", "my.key", "sealed", "back"]);
    bench.assert_same_tree("tree", "back");
}

const UNCHANGED: &str = "would encrypt 0 files, 0 B; 1 unchanged";

#[test]
fn nothing_is_deleted_unasked() {
    let bench = Bench::new();
    bench.expect(0, &["encrypt", "-q", "-k", "my.key", "tree", "sealed"]);
    fs::remove_file(bench.path("tree/one")).unwrap();
    let delete = ["encrypt", "-k", "my.key", "--update", "--delete", "tree", "sealed"];
    let ended = bench.expect(2, &delete);
    assert!(ended.messages.contains("there is no terminal to ask on; --yes deletes"), "{ended:?}");
    for arguments in [
        &["--delete", "--yes"][..],
        &["--update", "--yes"],
        &["--update", "--resume"],
        &["--update", "--remove-source"],
    ] {
        bench.expect(2, &[&["encrypt", "-k", "my.key"], arguments, &["tree", "sealed"]].concat());
    }
    let decrypt = ["decrypt", "-k", "my.key", "--update", "--delete", "-y", "sealed", "back"];
    let ended = bench.expect(2, &decrypt);
    assert!(ended.messages.contains("only when a tree is encrypted"), "{}", ended.messages);
    let file = ["encrypt", "-k", "my.key", "--update", "--delete", "-y", "my.key", "sealed"];
    let ended = bench.expect(2, &file);
    assert!(ended.messages.contains("what has gone from a tree"), "{}", ended.messages);
    assert!(bench.path("sealed/one.enc").exists());
    if !has("python3") {
        evener_skipped::skipped!("there is no python3 to make a terminal");
        return;
    }
    let program = r#"
import os, pty, sys
for answer in [b"n\n", b"\n", b"\x04", b"y\n"]:
    assert os.path.exists("sealed/one.enc")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], sys.argv[1:])
    shown = b""
    while b"[y/N] " not in shown:
        shown += os.read(terminal, 1000)
    assert b"sealed/one.enc: its source has gone" in shown, shown
    assert b"delete 1 output? " in shown, shown
    os.write(terminal, answer)
    while True:
        try:
            shown += os.read(terminal, 1000)
        except OSError:
            break
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    said = b"; 1 deleted" if answer == b"y\n" else b"sealed: nothing was deleted"
    assert said in shown, (answer, shown)
assert not os.path.exists("sealed/one.enc")
"#;
    let mut command = Command::new("python3");
    command.args(["-c", program, env!("CARGO_BIN_EXE_evener")]).args(delete);
    let output = command.current_dir(bench.path(".")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_updated_tree_keeps_its_one_key() {
    let bench = Bench::new();
    let update = ["encrypt", "-q", "-r", RECIPIENT, "--update", "tree", "sealed"];
    bench.expect(0, &update);
    fs::write(bench.path("tree/one"), "another content").unwrap();
    let ended = bench.expect(2, &update);
    let told = "--update goes on with the key in sealed/evener-key.age, and does not add another";
    assert!(ended.messages.contains(told), "{}", ended.messages);
    for options in [&["-i", "identity"][..], &["-i", "identity", "-r", RECIPIENT]] {
        fs::write(bench.path("tree/deep/three"), options.len().to_string()).unwrap();
        let rest = ["--update", "--json", "tree", "sealed"];
        let document = bench.expect(0, &[&["encrypt"], options, &rest[..]].concat()).document();
        assert_ne!(document["files"], 0);
    }
    assert_eq!(bench.names("sealed"), ["deep", "evener-key.age", "one.enc"]);
    bench.expect(0, &["decrypt", "-q", "-i", "identity", "sealed", "back"]);
    bench.assert_same_tree("tree", "back");
}
