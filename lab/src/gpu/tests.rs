//! Runs the whole benchmark on PoCL, as briefly as possible.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use clap::Parser;

use super::report::Peer;
use super::*;
use crate::LabError;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: GpuOptions,
}

fn options(arguments: &[&str]) -> GpuOptions {
    Line::try_parse_from([&["gpu"], arguments].concat()).map(|line| line.options).unwrap()
}

const SHORT: [&str; 8] =
    ["--seconds", "0.005", "--rounds", "1", "--bytes", "65536", "--copy", "262144"];

#[test]
fn it_measures_everything_on_pocl_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("peer");
    fs::write(&program, "#!/bin/sh\necho It begins\necho aes-128-ctr $1\necho aes-256-ctr 2.5\n")
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let peer = ["--peer", program.to_str().unwrap()];
    let options = options(&[&["--device", "gpu:opencl:pocl"][..], &SHORT, &peer].concat());
    let report = match run(&options, &mut |_| {}) {
        Ok(report) => report,
        Err(LabError::NoDevice { reason, .. }) => {
            return evener_core::lacking!("{reason} (Debian: pocl-opencl-icd)");
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!((report.runs_on.as_str(), report.device.is_gpu), ("pocl", false));
    // Texts this short fit the cache.
    let missing: Vec<_> = report
        .missing
        .iter()
        .filter(|what| !what.starts_with("kernels beyond the cache"))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(report.conformance.iter().all(|test| test.result == "passed"));
    assert!(!report.conformance.is_empty() && !report.kernels.is_empty());
    assert!(!report.sessions.is_empty() && !report.together.is_empty());
    assert_eq!(report.copies.len(), 2);
    let peer = |cipher: &str, gb_per_second| Peer {
        program: program.display().to_string(),
        cipher: cipher.to_owned(),
        gb_per_second,
    };
    assert_eq!(report.peers, [peer("aes-128-ctr", 65536.0), peer("aes-256-ctr", 2.5)]);
    let json: serde_json::Value = serde_json::to_value(&report).unwrap();
    for rate in [
        "/copies/0/each_way_gb_per_second",
        "/kernels/0/gb_per_second",
        "/shared_memory/words_per_second",
        "/shared_memory/ceilings/0/gb_per_second",
        "/sessions/0/part_of_copies",
        "/together/0/both/gb_per_second",
        "/memory/one_thread_gb_per_second",
    ] {
        let rate = json.pointer(rate).and_then(serde_json::Value::as_f64);
        assert!(rate.is_some_and(|rate| rate > 0.0), "{rate:?}");
    }
}

#[test]
fn what_has_no_time_is_missing() {
    let options = options(&[&["--device", "gpu:opencl:pocl", "--limit", "1"][..], &SHORT].concat());
    let mut steps = 0;
    let mut slow = |_: &str| {
        steps += 1;
        if steps == 4 {
            std::thread::sleep(options.time() + std::time::Duration::from_secs(1));
        }
    };
    let report = match run(&options, &mut slow) {
        Ok(report) => report,
        Err(LabError::NoDevice { reason, .. }) => {
            return evener_core::lacking!("{reason} (Debian: pocl-opencl-icd)");
        }
        Err(error) => panic!("{error}"),
    };
    assert!(report.kernels.is_empty() && report.sessions.is_empty() && report.together.is_empty());
    let is_named = |what: &String| what == "kernel aes-128-ecb encrypt 64: no time was left";
    assert!(report.missing.iter().any(is_named), "{:?}", report.missing);
}

#[test]
fn without_a_gpu_it_says_why() {
    let options = options(&[&["--device", "gpu:vulkan:0"][..], &SHORT].concat());
    let error = run(&options, &mut |_| {}).err().unwrap();
    assert!(matches!(error, LabError::NoDevice { .. }), "{error}");
    assert!(error.to_string().contains("there is no GPU to measure: there is no backend `vulkan`"));
}
