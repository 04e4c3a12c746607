//! `--metrics`: the numbers of a run that goes on, and clients that want to disturb it.

mod common;
mod scene;
mod scraped;

#[path = "../../object/tests/common/proxy.rs"]
#[allow(dead_code, unreachable_pub, reason = "each test uses some of it")]
mod proxy;

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::Fixture;
use proxy::{Act, Proxy, at_first};
use scene::Scene;
use scraped::{Run, ask};

/// A run that encrypts a pipe, which stays open until the run is ended.
fn of_pipe(fixture: &Fixture, address: &str) -> Run {
    let arguments = ["encrypt", "-k", "my.key", "--metrics", address, "-", "out"];
    Run::start(fixture.command(&arguments).stdin(Stdio::piped()))
}

/// Starts a command that reaches the server through a proxy.
fn through(scene: &Scene, proxy: &Proxy, arguments: &[&str]) -> Run {
    let endpoint = format!("http://127.0.0.1:{}", proxy.port);
    Run::start(scene.command(arguments).env("AWS_ENDPOINT_URL", endpoint))
}

/// Lets requests wait until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn new() -> (Gate, Gate) {
        let gate = Gate::default();
        (gate.clone(), gate)
    }

    fn wait(&self) {
        while !self.0.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn open(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn numbers_rise_while_a_pipe_is_open_and_the_port_closes_at_the_end() {
    let fixture = Fixture::new();
    let mut run = of_pipe(&fixture, "0");
    let plain = vec![7; 16 << 20];
    let mut input = run.child.stdin.take().unwrap();
    let mut last = 0.0;
    for _ in 0..3 {
        input.write_all(&plain).unwrap();
        let metrics = run.until(|it| it.sum("evener_engine_bytes_total") > last);
        last = metrics.sum("evener_engine_bytes_total");
        assert!(metrics.of("evener_source_bytes_total") >= last, "{metrics:?}");
        assert!(metrics.sum("evener_engine_jobs_total") >= 1.0, "{metrics:?}");
    }
    let all = run.until(|it| it.of("evener_source_bytes_total") == 3.0 * plain.len() as f64);
    assert_eq!(all.of("evener_files_found_total"), 1.0);
    assert_eq!(all.sum("evener_files_total"), 0.0);
    assert_eq!(all.sum("evener_engine_failures_total"), 0.0);
    assert_eq!(all.of("evener_info{version=\"0.1.0\"}"), 1.0);
    // Nothing comes, so the workers wait.
    let waits = "evener_wait_seconds_total{side=\"workers\"}";
    let before = run.metrics().of(waits);
    run.until(|it| it.of(waits) > before);
    let address = run.address;
    drop(input);
    let (status, messages) = run.end();
    assert_eq!(status, Some(0), "{messages}");
    assert!(messages.contains("encrypted 1 file, 48.0 MiB"), "{messages}");
    assert!(TcpStream::connect(address).is_err());
    fixture.expect(0, &["verify", "-k", "my.key", "out"]);
}

#[test]
fn files_are_counted_by_their_outcome_and_not_named() {
    let Some(scene) = Scene::new() else { return };
    let fixture = &scene.fixture;
    fs::write(fixture.path("tree/last"), "the last file").unwrap();
    fixture.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
    let damaged = fixture.path("sealed/deep/two.enc");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[200_000] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let (gate, waiting) = Gate::new();
    let proxy = Proxy::new(scene.server.port, move |request| {
        if request.is_put() && request.target.contains("last") {
            waiting.wait();
        }
        Act::Pass
    });
    let arguments = ["decrypt", "-k", "my.key", "--metrics", ":0", "sealed", "s3://bucket/back"];
    let run = through(&scene, &proxy, &arguments);
    let (done, failed) =
        ("evener_files_total{outcome=\"done\"}", "evener_files_total{outcome=\"failed\"}");
    let metrics = run.until(|it| it.of(done) == 1.0 && it.of(failed) == 1.0);
    assert_eq!(metrics.of("evener_failures_total"), 1.0);
    assert_eq!(metrics.of("evener_files_found_total"), 3.0);
    let told = ask(run.address, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(["two.enc", "sealed", "bucket", "my.key"].iter().all(|name| !told.contains(name)));
    let elsewhere = ask(run.address, "GET / HTTP/1.1\r\n\r\n");
    assert!(elsewhere.starts_with("HTTP/1.1 404 Not Found\r\n"), "{elsewhere}");
    gate.open();
    let (status, messages) = run.end();
    assert_eq!(status, Some(1), "{messages}");
}

#[test]
fn a_port_in_use_is_told_before_anything_is_done() {
    let fixture = Fixture::new();
    let run = of_pipe(&fixture, "127.0.0.1:0");
    let address = run.address.to_string();
    let second = ["encrypt", "-k", "my.key", "tree", "second", "--json", "--metrics", &address];
    let ended = fixture.expect(2, &second);
    let told = format!("evener: can't serve metrics at {address}: Address already in use");
    assert!(ended.messages.starts_with(&told), "{}", ended.messages);
    assert!(ended.messages.contains("port 0"), "{}", ended.messages);
    let document: serde_json::Value = serde_json::from_slice(&ended.output).unwrap();
    assert!(document["failures"][0]["cause"].to_string().contains("metrics"), "{document}");
    assert!(!fixture.path("second").exists());
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn hostile_clients_neither_stop_the_run_nor_take_memory() {
    let fixture = Fixture::new();
    let mut run = of_pipe(&fixture, "0");
    let mut input = run.child.stdin.take().unwrap();
    input.write_all(&vec![7; 8 << 20]).unwrap();
    run.until(|it| it.of("evener_source_bytes_total") == f64::from(8 << 20));
    let memory = || {
        let status = fs::read_to_string(format!("/proc/{}/status", run.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let before = memory();
    let connect = || TcpStream::connect(run.address).unwrap();
    let silent = connect();
    for _ in 0..20 {
        // The server closes the connection long before it has read all of it.
        let mut talker = connect();
        let _ = talker.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
        let _ = talker.write_all(&vec![b'x'; 1 << 20]);
    }
    let many: Vec<_> = (0..200).map(|_| connect()).collect();
    // These ask, and never read.
    let deaf: Vec<_> = (0..200)
        .map(|_| {
            let mut deaf = connect();
            let _ = deaf.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
            deaf
        })
        .collect();
    run.metrics();
    assert!(memory() < before + 8192, "{} kB, then {} kB", before, memory());
    input.write_all(&vec![7; 8 << 20]).unwrap();
    run.until(|it| it.of("evener_source_bytes_total") == f64::from(16 << 20));
    drop(input);
    let (status, messages) = run.end();
    assert_eq!(status, Some(0), "{messages}");
    drop((silent, many, deaf));
    fixture.expect(0, &["decrypt", "-k", "my.key", "out", "back"]);
    assert_eq!(fs::metadata(fixture.path("back")).unwrap().size(), 16 << 20);
}

#[test]
fn an_address_is_as_the_user_wrote_it() {
    let fixture = Fixture::new();
    for text in ["localhost:9400", "127.0.0.1", "70000", "", "http://127.0.0.1:9400/metrics"] {
        let told = fixture.expect(2, &["verify", "--metrics", text, "tree"]).messages;
        assert!(told.contains("--metrics <ADDRESS>") && told.contains("a port"), "{told}");
    }
    let run = of_pipe(&fixture, "0.0.0.0:0");
    assert!(run.address.ip().is_unspecified());
    run.metrics();
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn every_long_command_has_it_and_is_quiet_if_asked() {
    let fixture = Fixture::new();
    fixture.expect(0, &["keygen", "-o", "new.key"]);
    let identity = fixture.path("identity");
    let identity = identity.to_str().unwrap();
    fixture.expect(0, &["encrypt", "-r", common::RECIPIENT, "tree", "wrapped"]);
    fixture.expect(0, &["encrypt", "--sealed", "-k", "my.key", "tree", "sealed"]);
    let commands: [&[&str]; 6] = [
        &["encrypt", "-k", "my.key", "tree", "a"],
        &["verify", "-k", "my.key", "a"],
        &["rekey", "-k", "my.key", "--new-key", "new.key", "a"],
        &["decrypt", "-k", "new.key", "a", "b"],
        &["rewrap", "-i", identity, "-r", common::RECIPIENT, "wrapped"],
        &["clean", "-k", "my.key", "sealed"],
    ];
    for command in commands {
        let run = Run::start(fixture.command(command).args(["--metrics", "0"]));
        let (status, messages) = run.end();
        assert_eq!(status, Some(0), "{command:?} {messages}");
    }
    let quiet = ["verify", "-k", "new.key", "a", "-q", "--metrics", "0"];
    assert_eq!(fixture.expect(0, &quiet).messages, "");
}

#[test]
fn requests_to_a_store_and_their_failures_are_counted() {
    let Some(scene) = Scene::new() else { return };
    let (gate, waiting) = Gate::new();
    let is_first = at_first(1);
    let proxy = Proxy::new(scene.server.port, move |request| {
        if !request.is_put() || request.is_probe() {
            return Act::Pass;
        }
        if is_first(request) {
            return Act::Answer(503);
        }
        waiting.wait();
        Act::Pass
    });
    let arguments = ["encrypt", "-k", "my.key", "--metrics", "0", "tree", "s3://bucket/a"];
    let run = through(&scene, &proxy, &arguments);
    let reason = "evener_store_request_failures_total{reason=\"too_many\"}";
    let metrics = run.until(|it| it.of(reason) >= 2.0);
    assert!(metrics.of("evener_store_requests_total") >= 2.0, "{metrics:?}");
    run.until(|it| it.of("evener_store_requests_repeated_total") >= 2.0);
    gate.open();
    let (status, messages) = run.end();
    assert_eq!(status, Some(0), "{messages}");
    assert_eq!(metrics.of("evener_store_requests_given_up_total"), 0.0);
}
