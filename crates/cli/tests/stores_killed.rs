//! Kills runs to a store at random, and resumes them.

mod common;
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use scene::Scene;

/// Each kill costs at most the objects in flight, and no half object is there.
#[test]
fn killed_runs_are_resumed() {
    let Some(scene) = Scene::new() else { return };
    for number in 0..OBJECTS {
        let bytes = vec![number as u8; 1 << (number % 22)];
        fs::write(scene.fixture.path(&format!("tree/{number}")), bytes).unwrap();
    }
    let rounds = std::env::var("EVENER_TEST_ROUNDS").ok().and_then(|it| it.parse().ok());
    let rounds = rounds.unwrap_or(3);
    // A kill may come at any moment of a run.
    let begun = Instant::now();
    scene.expect(0, &["encrypt", "-k", "my.key", "tree", &scene.address("undisturbed")]);
    let longest = begun.elapsed();
    assert_eq!(scene.server.written().len(), OBJECTS + 2);
    let is_hit = |round: &u32| is_resumed_after_a_kill(&scene, *round, longest);
    let hits = (0..rounds).filter(is_hit).count();
    println!("{rounds} kills, of which {hits} left some objects but not all");
}

/// Returns whether the kill, some time before `longest`, came between the first and the last object.
fn is_resumed_after_a_kill(scene: &Scene, round: u32, longest: Duration) -> bool {
    let (target, back) = (scene.address(&round.to_string()), format!("back-{round}"));
    let at_once = IN_FLIGHT.to_string();
    let encrypt = ["encrypt", "-k", "my.key", "--resume", "--requests", &at_once, "tree", &target];
    let bucket = scene.server.bucket().join(round.to_string());
    let mut child = scene.command(&encrypt).stderr(Stdio::null()).spawn().unwrap();
    sleep(longest.mul_f64(random()));
    child.kill().unwrap();
    child.wait().unwrap();
    sleep(AFTER_THE_LAST_REQUEST);
    let there = objects(&bucket);
    let begun: BTreeSet<_> = scene.server.written().into_iter().collect();
    let lost = begun.iter().filter(|key| !there.contains_key(*key)).count();
    assert!(lost <= IN_FLIGHT, "{lost} objects were begun in vain");
    scene.expect(0, &encrypt);
    // The resumed run wrote no existing object again.
    let whole = objects(&bucket);
    assert_eq!(whole.len(), OBJECTS + 2);
    assert!(there.iter().all(|(name, identity)| whole[name] == *identity));
    assert!(scene.server.written().iter().all(|key| !there.contains_key(key)));
    scene.expect(0, &["decrypt", "-k", "my.key", &target, &back]);
    scene.fixture.assert_same_tree("tree", &back);
    fs::remove_dir_all(bucket).unwrap();
    fs::remove_dir_all(scene.fixture.path(&back)).unwrap();
    !there.is_empty() && there.len() < whole.len()
}

/// The objects below a directory by their keys, with a value that changes when one is replaced.
fn objects(bucket: &Path) -> BTreeMap<String, (u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![bucket.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, status) = (entry.path(), entry.metadata().unwrap());
            if status.is_dir() {
                directories.push(path);
            } else if !entry.file_name().to_string_lossy().starts_with(".evener-") {
                let key = path.strip_prefix(bucket.parent().unwrap()).unwrap();
                let identity = (status.ino(), status.mtime(), status.mtime_nsec());
                found.insert(key.to_str().unwrap().to_owned(), identity);
            }
        }
    }
    found
}

/// A number from 0 to 1.
fn random() -> f64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    f64::from(now.subsec_nanos() % 1000) / 1000.0
}

const OBJECTS: usize = 60;

/// The most objects that are written at once.
const IN_FLIGHT: usize = 4;

/// By then, the server has finished the requests of a dead client.
const AFTER_THE_LAST_REQUEST: Duration = Duration::from_millis(100);
