//! Processes take turns at an engine that is to serve one at a time.

mod common;

use std::io::Write;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use common::Bench;
use serde_json::Value;

#[test]
fn the_second_waits_until_the_first_ends_in_whatever_way() {
    let bench = Bench::new();
    for killed in [false, true] {
        let mut first = encrypting_a_pipe(&bench, &format!("pipe-{killed}"));
        let mut input = first.stdin.take().unwrap();
        // More than the workers hold at once, so that they have begun; the input stays open.
        input.write_all(&vec![7; 4 << 20]).unwrap();
        wait_until(&bench, "holders", &first);

        let sealed = format!("sealed-{killed}");
        let mut second = bench
            .command(&["encrypt", "-k", "my.key", "--permits", "1", "tree", &sealed])
            .spawn()
            .unwrap();
        wait_until(&bench, "waiters", &second);
        assert!(second.try_wait().unwrap().is_none());

        if killed {
            first.kill().unwrap();
        }
        drop(input);
        assert_eq!(first.wait().unwrap().success(), !killed);
        assert!(second.wait().unwrap().success());
        assert!(bench.path(&sealed).join("deep/two.enc").exists());
    }
}

fn encrypting_a_pipe(bench: &Bench, target: &str) -> Child {
    bench
        .command(&["encrypt", "-k", "my.key", "--permits", "1", "-", target])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until `evener gate` shows the process among the `holders` or `waiters` of openssl.
fn wait_until(bench: &Bench, role: &str, process: &Child) {
    loop {
        let shown = bench.run(&["gate", "--json"]);
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
