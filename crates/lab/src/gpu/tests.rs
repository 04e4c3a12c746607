//! The whole benchmark on PoCL, as short as it can be.

use clap::Parser;

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
    let options = options(&[&["--device", "gpu:opencl:pocl"][..], &SHORT].concat());
    let report = match run(&options, &mut |_| {}) {
        Ok(report) => report,
        Err(LabError::NoDevice { reason, .. }) => {
            return evener_skipped::lacking!("{reason} (Debian: pocl-opencl-icd)");
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!((report.runs_on.as_str(), report.device.is_gpu), ("pocl", false));
    assert!(report.missing.is_empty(), "{:?}", report.missing);
    assert!(report.conformance.iter().all(|test| test.result == "passed"));
    assert!(!report.conformance.is_empty() && !report.kernels.is_empty());
    assert!(!report.sessions.is_empty() && !report.together.is_empty());
    assert_eq!(report.copies.len(), 2);
    let json: serde_json::Value = serde_json::to_value(&report).unwrap();
    for rate in [
        "/copies/0/each_way_gb_per_second",
        "/kernels/0/gb_per_second",
        "/sessions/0/part_of_copies",
        "/together/0/both/gb_per_second",
        "/memory/one_thread_gb_per_second",
    ] {
        let rate = json.pointer(rate).and_then(serde_json::Value::as_f64);
        assert!(rate.is_some_and(|rate| rate > 0.0), "{rate:?}");
    }
}

#[test]
fn without_a_gpu_it_says_why() {
    let options = options(&[&["--device", "gpu:vulkan:0"][..], &SHORT].concat());
    let error = run(&options, &mut |_| {}).err().unwrap();
    assert!(matches!(error, LabError::NoDevice { .. }), "{error}");
    assert!(error.to_string().contains("there is no GPU to measure: there is no backend `vulkan`"));
}
