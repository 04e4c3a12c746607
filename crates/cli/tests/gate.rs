//! Processes take turns at an engine that serves one at a time.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::Fixture;
use serde_json::Value;

#[test]
fn the_second_waits_until_the_first_ends_in_whatever_way() {
    let fixture = Fixture::new();
    for killed in [false, true] {
        let mut first = encrypting_a_pipe(&fixture, &format!("pipe-{killed}"));
        let mut input = first.stdin.take().unwrap();
        // This is more than the workers hold at once, so they have begun; the input stays open.
        input.write_all(&vec![7; 4 << 20]).unwrap();
        wait_until(&fixture, "holders", &first);

        let sealed = format!("sealed-{killed}");
        let mut second = fixture
            .command(&[
                "encrypt",
                "-k",
                "my.key",
                "--engine",
                "openssl",
                "--permits",
                "1",
                "tree",
                &sealed,
            ])
            .spawn()
            .unwrap();
        wait_until(&fixture, "waiters", &second);
        assert!(second.try_wait().unwrap().is_none());

        if killed {
            first.kill().unwrap();
        }
        drop(input);
        assert_eq!(first.wait().unwrap().success(), !killed);
        assert!(second.wait().unwrap().success());
        assert!(fixture.path(&sealed).join("deep/two.enc").exists());
    }
}

#[test]
fn who_waits_says_so_and_ends_at_once_when_it_is_interrupted() {
    let fixture = Fixture::new();
    let mut first = encrypting_a_pipe(&fixture, "pipe");
    let mut input = first.stdin.take().unwrap();
    input.write_all(&vec![7; 4 << 20]).unwrap();
    wait_until(&fixture, "holders", &first);

    let arguments =
        ["encrypt", "-k", "my.key", "--engine", "openssl", "--permits", "1", "tree", "sealed"];
    let mut second = fixture.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(second.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for a permit of openssl"), "{line}");

    let number = second.id().to_string();
    assert!(Command::new("kill").args(["-INT", &number]).status().unwrap().success());
    let status = second.wait().unwrap();
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(rest.contains("interrupted") && !rest.contains("out of service"), "{rest}");
    assert!(!fixture.path("sealed/deep/two.enc").exists());

    drop(input);
    assert!(first.wait().unwrap().success());
}

#[test]
fn a_group_and_a_lease_make_a_gate_of_their_own() {
    let fixture = Fixture::new();
    let group = fixture.path("tree").metadata().unwrap().gid().to_string();
    let mut arguments = vec!["encrypt", "-k", "my.key", "--engine", "openssl", "--permits", "1"];
    arguments.extend(["--gate-lease", "5s", "--gate-group", &group, "tree", "sealed"]);
    let ran = fixture.run(&arguments);
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let shown = fixture.run(&["gate", "--group", &group]);
    let shown = String::from_utf8(shown.output).unwrap();
    assert!(shown.contains("openssl: fifo, 0 of 1 permits in use"), "{shown}");
    assert_eq!(fixture.run(&["gate", "reset", "--group", &group, "openssl"]).status, Some(0));
    assert_eq!(fixture.run(&["gate", "reset", "--group", &group, "openssl"]).status, Some(2));
}

#[test]
fn a_gate_that_is_cut_short_ends_a_process_with_a_message() {
    if !rustix::process::geteuid().is_root() {
        evener_core::skipped!("a group's gate: only root may give a file to any group");
        return;
    }
    const GROUP: &str = "54321";
    let fixture = Fixture::new();
    let arguments = ["encrypt", "-k", "my.key", "--engine", "openssl", "--permits", "1"];
    let arguments = [&arguments[..], &["--gate-group", GROUP, "-", "sealed"]].concat();
    let mut process =
        fixture.command(&arguments).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = process.stdin.take().unwrap();
    input.write_all(&vec![7; 4 << 20]).unwrap();
    let files = ["/run", "/dev/shm"].map(|parent| format!("{parent}/evener-group-{GROUP}"));
    let directory = files.iter().find(|path| std::path::Path::new(path).is_dir()).unwrap();
    let gate = std::path::Path::new(directory).join("openssl.gate");
    std::fs::File::options().write(true).open(&gate).unwrap().set_len(0).unwrap();
    // The process looks at the gate again when it is done.
    drop(input);
    let ended = process.wait_with_output().unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("cut the file of a gate short"), "{told}");
}

fn encrypting_a_pipe(fixture: &Fixture, target: &str) -> Child {
    fixture
        .command(&["encrypt", "-k", "my.key", "--engine", "openssl", "--permits", "1", "-", target])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until `evener gate` shows the process among the `holders` or `waiters` of openssl.
fn wait_until(fixture: &Fixture, role: &str, process: &Child) {
    loop {
        let shown = fixture.run(&["gate", "--json"]);
        assert_eq!(shown.status, Some(0), "{shown:?}");
        let document: Value = serde_json::from_slice(&shown.output).unwrap();
        let gates = document["gates"].as_array().unwrap();
        let is_there = gates
            .iter()
            .filter(|gate| gate["engine"] == "openssl")
            .flat_map(|gate| gate[role].as_array().unwrap())
            .any(|person| person["process"] == process.id());
        if is_there {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_no_gate_needs_is_refused() {
    let fixture = Fixture::new();
    for option in [["--permits", "4"], ["--gate-lease", "5s"], ["--gate-group", "0"]] {
        let arguments = ["encrypt", "-k", "my.key", "--gate", "none", "tree", "sealed"];
        let ended = fixture.expect(2, &[&arguments[..], &option].concat());
        assert!(ended.messages.contains("--gate none"), "{}", ended.messages);
        assert!(!fixture.path("sealed").exists());
    }
}
