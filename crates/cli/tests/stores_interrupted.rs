//! Interrupts runs to a store.

mod common;
mod scene;

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::RECIPIENT;
use rustix::process::{Pid, Signal, kill_process};
use scene::Scene;

/// The store may still finish an object that is in flight.
#[test]
fn a_fresh_key_stays_in_the_store() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir(scene.fixture.path("slow")).unwrap();
    fs::write(scene.fixture.path("slow/long"), vec![0; 4 << 20]).unwrap();
    let encrypt = ["encrypt", "-r", RECIPIENT, "--bandwidth", "100k", "slow", "s3://bucket/a"];
    let mut child = scene.command(&encrypt).stderr(Stdio::null()).spawn().unwrap();
    let key = scene.server.bucket().join("a/evener-key.age");
    let until = Instant::now() + Duration::from_secs(30);
    while !key.exists() {
        assert!(Instant::now() < until, "no key was written");
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(key.exists());
}
