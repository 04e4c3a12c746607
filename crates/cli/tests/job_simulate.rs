//! Simulations of jobs.

mod common;
#[path = "../../object/tests/common/proxy.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of stores use all of it")]
mod proxy;
mod scene;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use common::{Ended, Fixture};
use proxy::{Act, Proxy, Request};
use scene::Scene;
use serde_json::Value;

#[test]
fn rows_become_shards_requests_and_costs() {
    let fixture = Fixture::new();
    let simulate = ["job", "simulate", "--rows", "20000", "--sizes", "20000", "--workers", "2"];
    let document = fixture.expect(0, &[&simulate[..], &["--json"]].concat()).document();
    assert_eq!((&document["shards"], &document["objects"]), (&2.into(), &20_000.into()));
    assert_eq!(document["bytes"], 400_000_000);
    assert!(document["requests"]["get"].as_u64().unwrap() >= 20_000);
    assert!(document["cost"]["total"].as_f64().unwrap() > 0.1);
    assert_eq!(document["failures"], Value::Array(Vec::new()));
    // The same again.
    let again = fixture.expect(0, &[&simulate[..], &["--json"]].concat()).document();
    assert_eq!(again, document);
    let shown = String::from_utf8(fixture.expect(0, &simulate).output).unwrap();
    assert!(shown.starts_with("work      20,000 objects, 381.5 MiB, 2 shards\n"), "{shown}");
}

#[test]
fn the_fewest_workers_are_found_or_none() {
    let fixture = Fixture::new();
    let simulate =
        ["job", "simulate", "--rows", "100000", "--sizes", "20000", "--json", "--within"];
    let found = fixture.expect(0, &[&simulate[..], &["3m"]].concat()).document();
    assert!(found["seconds"].as_f64().unwrap() <= 180.0, "{found}");
    assert!(found["workers"].as_u64().unwrap() > 1, "{found}");
    assert_eq!(found["in_time"], true);
    let ended = fixture.expect(1, &[&simulate[..], &["5s"]].concat());
    assert_eq!(ended.document()["in_time"], false);
    assert!(ended.messages.contains("plan and finish"), "{}", ended.messages);
}

#[test]
fn what_can_not_be_simulated_is_refused() {
    let fixture = Fixture::new();
    let refused = |arguments: &[&str], reason: &str| {
        let told = fixture.expect(2, &[&["job", "simulate"], arguments].concat()).messages;
        assert!(told.contains(reason), "{arguments:?}: {told}");
    };
    refused(&[], "--rows");
    refused(&["--rows", "0"], "--rows");
    refused(&["--rows", "10", "--sizes", "big"], "lognormal:10M:1.5");
    refused(&["--rows", "10", "--stragglers", "2"], "from 0 to 1");
    refused(&["--rows", "10", "--writes", "0"], "never end");
    refused(&["--rows", "20000000", "--objects", "1"], "10,000,000 shards");
    let told = fixture.expect(1, &["job", "simulate", "-k", "my.key", "tree"]).messages;
    assert!(told.contains("it is no job"), "{told}");
}

#[test]
fn ten_million_rows_take_little_memory() {
    let fixture = Fixture::new();
    let arguments = ["job", "simulate", "--rows", "10000000", "--workers", "64", "--json"];
    let mut command = fixture.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak_of(&child).unwrap_or(peak);
        sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["objects"], 10_000_000);
    assert!((1..1 << 20).contains(&peak), "{peak} KiB");
}

/// The peak memory of a process so far, in KiB; `None` if it has ended.
fn peak_of(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// The kind of a request, as a simulation names it.
fn kind(request: &Request) -> &'static str {
    let query = request.target.split_once('?').map_or("", |(_, query)| query);
    match &*request.method {
        "GET" if query.contains("list-type") => "list",
        "GET" => "get",
        "HEAD" => "head",
        "PUT" if query.contains("partNumber") => "part",
        "PUT" => "put",
        "POST" if request.is_begin() => "begin",
        "POST" => "complete",
        _ => "delete",
    }
}

/// The manifest has the mean size of a shard, so the sizes differ little in most shards.
/// `scripts/bench-simulate` compares the times too.
#[test]
fn a_real_job_takes_the_simulated_requests() {
    let Some(scene) = Scene::new() else { return };
    let sizes = [(200, 20_000), (40, 500_000), (8, 9_000_000)];
    fs::create_dir(scene.fixture.path("plain")).unwrap();
    for (number, bytes) in sizes {
        for at in 0..number {
            let path = scene.fixture.path(&format!("plain/{bytes}-{at}"));
            fs::write(path, vec![at as u8; bytes]).unwrap();
        }
    }
    scene.expect(0, &["encrypt", "-q", "-k", "my.key", "plain", "sealed"]);
    scene.expect(0, &["decrypt", "-q", "-k", "my.key", "sealed", "s3://bucket/source"]);
    let counts = Arc::<Mutex<BTreeMap<&str, u64>>>::default();
    let counter = counts.clone();
    let proxy = Proxy::new(scene.server.port, move |request| {
        *counter.lock().unwrap().entry(kind(request)).or_default() += 1;
        Act::Pass
    });
    let through = |arguments: &[&str]| {
        let mut command = scene.command(arguments);
        command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", proxy.port));
        let ended = Ended::of(&mut command);
        assert_eq!(ended.status, Some(0), "{arguments:?}: {}", ended.messages);
        ended
    };
    let (source, target, job) = ("s3://bucket/source", "s3://bucket/target", "s3://bucket/job");
    through(&["job", "plan", "-k", "my.key", "--job", job, "--objects", "20", source, target]);
    for worker in ["0/2", "1/2"] {
        through(&["job", "run", "-q", "-k", "my.key", "--worker", worker, job]);
    }
    through(&["job", "finish", "-k", "my.key", job]);
    let real = counts.lock().unwrap().clone();
    let simulate = ["job", "simulate", "-k", "my.key", "--workers", "2", "--json", job];
    let simulated = scene.expect(0, &simulate).document();
    let expected = |kind: &str| simulated["requests"][kind].as_u64().unwrap();
    let is_near = |kind: &str, slack: u64| {
        let (real, expected) = (real.get(kind).copied().unwrap_or(0), expected(kind));
        let difference = real.abs_diff(expected);
        assert!(difference <= slack + real * 15 / 100, "{kind}: {real}, simulated {expected}");
    };
    // Those for each object are near; others, such as looks at the tree, are few.
    for kind in ["put", "begin", "complete", "part"] {
        is_near(kind, 12);
    }
    for kind in ["get", "head", "list"] {
        is_near(kind, 30);
    }
    let total = real.values().sum::<u64>() - real.get("delete").copied().unwrap_or(0);
    let expected = simulated["requests"].as_object().unwrap().values();
    let expected: u64 = expected.map(|number| number.as_u64().unwrap()).sum();
    assert!(total.abs_diff(expected) <= total * 15 / 100, "{total}, simulated {expected}");
}
