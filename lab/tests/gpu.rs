//! Runs `evener-lab bench gpu` on a fake CUDA driver: the benchmark asks only for what a driver
//! allows, and reports what the driver can't compute.

use std::process::Command;

#[test]
fn what_cuda_is_asked_for_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/gpu/src/cuda/tests/fake.c");
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-DTELLS", "-O1", "-shared", "-fPIC", fake, "-o"]);
    let Ok(compiled) = compiler.arg(folder.path().join("libcuda.so.1")).output() else {
        return evener_core::lacking!("there is no C compiler");
    };
    assert!(compiled.status.success(), "{compiled:?}");
    let options = ["--device", "gpu:cuda:0", "--seconds", "0.002", "--rounds", "2"];
    let report = Command::new(env!("CARGO_BIN_EXE_evener-lab"))
        .args(["bench", "gpu"])
        .args(options)
        .args(["--bytes", "65536", "--copy", "262144"])
        .env("LD_LIBRARY_PATH", folder.path())
        .output()
        .unwrap();
    let told = String::from_utf8(report.stderr).unwrap();
    assert!(report.status.success(), "{told}");
    assert!(!told.contains("fake driver:"), "{told}");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["device"]["name"], "Fake 9000");
    assert_eq!(report["copies"].as_array().unwrap().len(), 2);
    // Each of the fake's units reads one word per clock; 132 of them could read 32 words at 1,980
    // MHz.
    assert_eq!(report["shared_memory"]["words_per_clock"], 1.0);
    let computed = report["shared_memory"]["computed_words_per_second"].as_f64().unwrap();
    assert_eq!(computed, 132.0 * 1.98e9 * 32.0);
    let ceiling = &report["shared_memory"]["ceilings"][0];
    let computed = ceiling["computed_gb_per_second"].as_f64().unwrap();
    assert_eq!((ceiling["cipher"].as_str(), computed.round()), (Some("aes-128"), 836.0));
    // The fake's other kernels do nothing, which must not pass for a result.
    assert_eq!(report["kernels"].as_array().unwrap().len(), 0);
    let missing = report["missing"].as_array().unwrap();
    let is_wrong = |what: &&serde_json::Value| what.as_str().unwrap().contains("computes wrongly");
    assert!(missing.iter().filter(is_wrong).count() > 50, "{missing:?}");
    let tests = report["conformance"].as_array().unwrap();
    assert!(tests.iter().all(|test| test["result"] != "passed"), "{tests:?}");
}
