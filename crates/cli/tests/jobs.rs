//! Jobs: several workers make one generation of a sealed tree.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Ended, Fixture};
use rustix::process::{Pid, Signal, kill_process};

/// A fixture whose tree has 40 more files, links, an empty directory and a name that is not UTF-8.
fn with_files() -> Fixture {
    let fixture = Fixture::new();
    for number in 0..40 {
        let file = fixture.path(&format!("tree/deep/{number}"));
        fs::write(file, vec![number as u8; 100 * number]).unwrap();
    }
    fs::create_dir(fixture.path("tree/empty")).unwrap();
    std::os::unix::fs::symlink("one", fixture.path("tree/link")).unwrap();
    fs::write(odd(&fixture), "not UTF-8").unwrap();
    fixture
}

/// A file whose name is not UTF-8.
fn odd(fixture: &Fixture) -> PathBuf {
    fixture.path("tree").join(OsStr::from_bytes(b"odd-\xff"))
}

const PLAN: [&str; 9] =
    ["job", "plan", "-k", "my.key", "--job", "jobs/1", "--objects", "10", "tree"];

impl Fixture {
    fn plan(&self) -> Ended {
        fs::create_dir_all(self.path("jobs")).unwrap();
        self.expect(0, &[&PLAN[..], &["vault", "--json"]].concat())
    }

    fn job(&self, status: i32, command: &str, more: &[&str]) -> Ended {
        self.expect(status, &[&["job", command, "-k", "my.key", "jobs/1"], more].concat())
    }

    fn finish_and_compare(&self) {
        self.job(0, "finish", &["--verify"]);
        self.expect(0, &["decrypt", "-k", "my.key", "vault", "back"]);
        self.assert_same_tree("tree", "back");
    }
}

#[test]
fn shards_are_run_in_any_order_and_finished_once() {
    let fixture = with_files();
    let planned = fixture.plan().document();
    assert_eq!((&planned["shards"], &planned["generation"]), (&5.into(), &1.into()));
    for shard in ["4", "1", "3", "0"] {
        fixture.job(0, "run", &["--shard", shard]);
    }
    let again = fixture.job(3, "run", &["--shard", "3"]);
    assert!(again.messages.contains("shard 3 done by another worker"), "{}", again.messages);
    let unfinished = fixture.job(1, "finish", &[]);
    assert!(unfinished.messages.contains("1 of 5 shards have no receipt yet (2)"));
    let status = fixture.job(0, "status", &["--json"]).document();
    assert_eq!((&status["missing"], &status["finished"]), (&serde_json::json!([2]), &false.into()));
    assert_eq!((&status["done"], &status["objects"]), (&4.into(), &43.into()));
    assert!(fixture.job(0, "clean", &[]).messages.contains("not finished, so its files stay"));
    let last = fixture.job(0, "run", &["--shard", "2", "--json"]).document();
    assert_eq!(last["shards"]["done"], serde_json::json!([2]));
    fixture.finish_and_compare();
    let again = fixture.job(0, "finish", &["--json"]).document();
    assert_eq!((&again["is_new"], &again["generation"]), (&false.into(), &1.into()));
    assert!(fixture.job(0, "status", &[]).messages.is_empty());
    fixture.job(0, "clean", &[]);
    assert_eq!(fixture.names("jobs/1"), [""; 0]);
    // This machine knows the tree.
    fixture.expect(0, &["encrypt", "--sealed", "-k", "my.key", "tree", "vault"]);
    fixture.expect(0, &["verify", "-k", "my.key", "vault"]);
}

#[test]
fn workers_share_the_shards() {
    let fixture = with_files();
    fixture.plan();
    let worker = |share| {
        let arguments = ["job", "run", "-k", "my.key", "jobs/1", "--json", "--worker", share];
        fixture.command(&arguments).stdout(Stdio::piped()).spawn().unwrap()
    };
    let both = [worker("0/2"), worker("1/2")].map(|child| child.wait_with_output().unwrap());
    let mut done = Vec::new();
    for ended in both {
        assert!(ended.status.success());
        let document: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        done.extend(document["shards"]["done"].as_array().unwrap().clone());
    }
    done.sort_by_key(|number| number.as_u64());
    assert_eq!(done, [0, 1, 2, 3, 4].map(serde_json::Value::from));
    // Nothing is left to do.
    fixture.job(0, "run", &["--worker", "0/1"]);
    fixture.finish_and_compare();
}

#[test]
fn changed_objects_are_sealed_as_they_are_and_gone_ones_named() {
    let fixture = with_files();
    fixture.plan();
    fs::write(fixture.path("tree/deep/7"), "changed since").unwrap();
    fs::write(odd(&fixture), "changed too").unwrap();
    fs::remove_file(fixture.path("tree/deep/8")).unwrap();
    // The source may only be out of reach.
    let failed = fixture.job(1, "run", &["--worker", "0/1"]).messages;
    assert!(failed.contains("deep/8: it was there when the job was planned"), "{failed}");
    fixture.job(0, "run", &["--worker", "0/1", "--skip-gone"]);
    let finished = fixture.job(1, "finish", &["--verify"]);
    let words = finished.messages;
    let gone = fixture.path("tree/deep/8");
    assert!(words.contains(&format!("{}: it was gone", gone.display())), "{words}");
    assert!(words.contains("deep/7: changed since the plan"), "{words}");
    let line = String::from_utf8(finished.output).unwrap();
    assert!(line.contains("2 changed since the plan; 1 gone"), "{line}");
    fixture.expect(0, &["decrypt", "-k", "my.key", "vault", "back"]);
    fixture.assert_same_tree("tree", "back");
    let again = fixture.job(1, "finish", &["--json"]).document();
    assert_eq!(again["failures"].as_array().unwrap().len(), 1);
    assert_eq!(again["gone"], serde_json::json!([{ "path": "deep/8" }]));
    assert_eq!(again["changed"].as_array().unwrap().len(), 2);
    assert!(again["changed"].to_string().contains("\"path_hex\":\"6f64642dff\""), "{again}");
}

#[test]
fn wrong_usage_is_refused() {
    let fixture = with_files();
    let plan = |job: &str, source: &str, target: &str| {
        fixture.expect(2, &["job", "plan", "-k", "my.key", "--job", job, source, target]).messages
    };
    fs::create_dir(fixture.path("jobs")).unwrap();
    std::os::unix::fs::symlink("../tree", fixture.path("jobs/way")).unwrap();
    for (job, source, target, names) in [
        ("tree/J", "tree", "vault", "SRC"),
        ("jobs/way/J", "tree", "vault", "SRC"),
        ("vault/J", "tree", "vault", "DST"),
        ("jobs", "tree", "jobs/vault", "DST"),
        ("jobs", "tree", "tree/deep/new/vault", "SRC"),
        ("jobs", "tree", ".", "SRC"),
        ("jobs", "tree", "tree", "SRC"),
    ] {
        let words = plan(job, source, target);
        assert!(words.contains("overlap") && words.contains(names), "{words}");
    }
    for [job, source, target] in [["", "tree", "v"], ["-", "tree", "v"], ["J", "tree", "-"]] {
        assert!(plan(job, source, target).contains("is a directory or an object store"));
    }
    assert!(plan("J", "tree/one", "v").contains("tree/one"));
    assert!(plan("J", "nothing", "v").contains("nothing"));
    assert!(plan("new/J", "tree", "v").contains("make the directory"));
    assert!(!fixture.path("J").exists());
    fixture.plan();
    assert_eq!(fixture.expect(1, &[&PLAN[..], &["vault"]].concat()).output, b"");
    for arguments in [&[][..], &["--shard", "5"], &["--worker", "2/2"], &["--shard", "x"]] {
        fixture.job(2, "run", arguments);
    }
    fixture.expect(0, &["keygen", "-o", "other.key"]);
    for command in ["status", "finish", "clean"] {
        let ended = fixture.expect(2, &["job", command, "-k", "other.key", "jobs/1"]);
        assert!(ended.messages.contains("the key is not that of the job"), "{}", ended.messages);
    }
    let run = ["job", "run", "-k", "other.key", "--shard", "0", "--json", "jobs/1"];
    let document = fixture.expect(2, &run).document();
    assert_eq!(document["failures"].as_array().unwrap().len(), 1);
    assert!(
        fixture.expect(1, &["job", "status", "-k", "my.key", "tree"]).messages.contains("no job")
    );
}

#[test]
fn a_job_can_be_given_up() {
    let fixture = with_files();
    fixture.plan();
    fixture.job(0, "run", &["--shard", "0"]);
    fixture.job(0, "clean", &["--abandon"]);
    assert_eq!(fixture.names("jobs/1"), [""; 0]);
    // A plan that was stopped has a marker and no manifest.
    fixture.plan();
    fs::remove_file(fixture.path("jobs/1/manifest")).unwrap();
    assert!(fixture.job(1, "run", &["--shard", "0"]).messages.contains("plan"));
    fixture.job(1, "clean", &[]);
    fixture.job(0, "clean", &["--abandon"]);
    assert_eq!(fixture.names("jobs/1"), [""; 0]);
}

/// A fixture with one shard that takes long.
fn with_a_long_shard() -> Fixture {
    let fixture = Fixture::new();
    let long = fs::File::create(fixture.path("tree/long")).unwrap();
    long.set_len(64 << 30).unwrap();
    fixture.plan();
    fixture
}

/// Waits until a worker has marked its attempt.
fn await_attempt(fixture: &Fixture, child: &mut Child) {
    let attempts = fixture.path("jobs/1/attempts");
    let is_there = || fs::read_dir(&attempts).is_ok_and(|mut found| found.next().is_some());
    while !is_there() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before its attempt");
        sleep(Duration::from_millis(5));
    }
}

/// Checks that there is no receipt, and no part of the long file.
fn has_no_trace(fixture: &Fixture) {
    let files = |directory: &str| fs::read_dir(fixture.path(directory)).into_iter().flatten();
    assert_eq!(files("jobs/1/receipts").count(), 0);
    let lengths = files("vault/data/00").map(|file| file.unwrap().metadata().unwrap().len());
    assert!(lengths.max().unwrap_or(0) < 1 << 20);
}

#[test]
fn an_interrupted_worker_leaves_no_receipt() {
    let fixture = with_a_long_shard();
    let run = ["job", "run", "-k", "my.key", "--shard", "0", "jobs/1"];
    let mut child = fixture.command(&run).stderr(Stdio::piped()).spawn().unwrap();
    await_attempt(&fixture, &mut child);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let words = String::from_utf8(ended.stderr).unwrap();
    assert!(words.contains("interrupted; sealed"), "{words}");
    has_no_trace(&fixture);
    fixture.job(1, "finish", &[]);
}

/// A killed scheduler leaves no worker behind.
#[test]
fn a_worker_ends_with_its_parent() {
    ends_with_its_parent("cpu");
}

/// An engine that loads foreign code has the work done by a child of the program.
#[test]
fn a_worker_with_a_witness_ends_with_its_parent() {
    ends_with_its_parent("openssl:provider=default,path=.");
}

fn ends_with_its_parent(engine: &str) {
    let fixture = with_a_long_shard();
    // The shell has something to do after it, so it stays its parent.
    let line = "\"$evener\" job run -k my.key --engine $engine --shard 0 jobs/1 &
        echo $! > worker; wait; :";
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(fixture.path("")).args(["-c", line]).stdin(Stdio::null());
    shell.env("evener", env!("CARGO_BIN_EXE_evener")).env("XDG_STATE_HOME", fixture.path("state"));
    shell.env("engine", engine);
    let mut shell = shell.stderr(Stdio::null()).spawn().unwrap();
    await_attempt(&fixture, &mut shell);
    let worker = fs::read_to_string(fixture.path("worker")).unwrap();
    let worker = Pid::from_raw(worker.trim().parse().unwrap()).unwrap();
    assert!(is_alive(worker));
    let children = format!("/proc/{0}/task/{0}/children", worker.as_raw_nonzero());
    let children = fs::read_to_string(children).unwrap();
    let children =
        children.split_whitespace().map(|it| Pid::from_raw(it.parse().unwrap()).unwrap());
    let all: Vec<_> = children.chain([worker]).collect();
    assert_eq!(all.len(), if engine == "cpu" { 1 } else { 2 });
    shell.kill().unwrap();
    shell.wait().unwrap();
    let killed = Instant::now();
    while all.iter().any(|process| is_alive(*process)) {
        assert!(killed.elapsed() < Duration::from_secs(60), "it goes on");
        sleep(Duration::from_millis(20));
    }
    has_no_trace(&fixture);
}

/// Returns whether a process runs. One that nobody waits for stays in the table.
fn is_alive(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero()));
    status.is_ok_and(|status| !status.contains("State:\tZ") && !status.contains("State:\tX"))
}
