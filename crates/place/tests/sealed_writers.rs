//! Several writers of one sealed tree at once, and writers that were killed.

mod common;

use std::fs;
use std::process::{Child, Stdio};
use std::thread;

use common::child::shim;
use common::forge::Forge;
use common::kills::{Kills, rounds};
use common::sealed::{Scene, key, seal_in_child};
use evener_place::indexed::{At, SealedOptions};

#[test]
fn child() {
    seal_in_child();
}

/// The numbers of all generations, which have no gap.
#[track_caller]
fn generations(scene: &Scene) -> u64 {
    let Ok(names) = fs::read_dir(scene.tree().join("tree")) else { return 0 };
    let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<u64> =
        names.filter(|name| !name.starts_with('.')).map(|name| name.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    numbers.len() as u64
}

/// Two threads seal at once, for so many rounds.
fn race(kind: &str, machines: [&str; 2], rounds: u32) {
    let scene = Scene::new();
    for number in 0..20 {
        scene.write(&format!("{}/{number}", number % 3), &common::bytes(number * 100));
    }
    scene.settle();
    scene.seal(&scene.writer(kind, machines[0]));
    let (mut both, mut lost) = (0, 0);
    for round in 0..rounds {
        scene.write("0/changed", format!("round {round}").as_bytes());
        scene.write(&format!("1/new-{}", round % 7), &[round as u8; 30]);
        let results = thread::scope(|scope| {
            let scene = &scene;
            let run = |machine| scope.spawn(move || scene.try_seal(&scene.writer(kind, machine)));
            machines.map(run).map(|it| it.join().unwrap())
        });
        let mut done = 0;
        for result in results {
            match result {
                Ok((report, made)) => {
                    assert!(report.is_success() && made.generation > 0, "{round}: {report:?}");
                    done += 1;
                }
                Err(error) => {
                    let error = match error.into_report() {
                        Ok(report) => report.failures[0].error.to_string(),
                        Err(failure) => failure.error.to_string(),
                    };
                    assert!(
                        error.contains("another run") || error.contains("other runs"),
                        "{error}"
                    );
                    lost += 1;
                }
            }
        }
        assert!(done > 0, "round {round}: both lost");
        both += u32::from(done == 2);
        generations(&scene);
        let faults = scene.faults(&scene.reader(kind, "reader"));
        assert!(faults.is_empty(), "round {round}: {faults:?}");
    }
    scene.open("out", &scene.reader(kind, "reader"));
    scene.assert_same("out");
    // Each generation is whole.
    let last = generations(&scene);
    for number in (1..=last).step_by(10) {
        let at = SealedOptions { at: At::Number(number), ..scene.reader(kind, "reader") };
        let faults = scene.faults(&at);
        assert!(faults.is_empty(), "generation {number}: {faults:?}");
    }
    assert!(fs::read_dir(scene.tree().join("writers")).unwrap().next().is_none());
    println!("{kind} {machines:?}: {last} generations, both finished {both} times, {lost} lost");
}

#[test]
fn two_machines_write_at_once() {
    race("key", ["a", "b"], rounds(100));
}

#[test]
fn two_runs_of_one_machine_write_at_once() {
    race("key", ["a", "a"], rounds(50));
    race("recipient", ["a", "a"], rounds(50));
}

/// Enough files for a kill to fall between them.
fn fill(scene: &Scene, round: u32) {
    for number in 0..60_u32 {
        let length = (number * 211 + round) as usize;
        let content = common::bytes(length);
        // Half of them change.
        if round == 0 || number % 2 == round % 2 {
            scene.write(&format!("{}/file-{number}", number % 4), &content);
        }
    }
    if round.is_multiple_of(5) {
        scene.write("0/long", &vec![round as u8; 700_000]);
    }
}

fn spawn(scene: &Scene, kind: &str) -> Child {
    let mut command = scene.seal_command(kind.trim_end_matches(NAMED), "a");
    if kind.ends_with(NAMED) {
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_NO_TMPFILE", "1");
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Without nameless files.
const NAMED: &str = ", named";

/// Kills a run, and checks that the tree is what it was before or after it, and that the next run
/// succeeds. With `update`, the tree has a generation before.
fn kill_often(spawned: &str, update: bool, rounds: u32) {
    let spawn = |scene: &Scene| spawn(scene, spawned);
    let kind = spawned.trim_end_matches(NAMED);
    let scene = Scene::new();
    fill(&scene, 0);
    if update {
        assert!(spawn(&scene).wait().unwrap().success());
        scene.copy("tree", "tree-before");
        scene.copy("state-a", "state-before");
        fill(&scene, 1);
    }
    let mut kills = Kills::new(&scene, spawn);
    let reset = |name: &str| match update {
        true => {
            scene.copy(&format!("{name}-before"), if name == "tree" { name } else { "state-a" })
        }
        false => {
            drop(fs::remove_dir_all(scene.path(if name == "tree" { name } else { "state-a" })))
        }
    };
    let mut published = 0;
    for round in 0..rounds {
        reset("tree");
        reset("state");
        drop(fs::remove_dir_all(scene.path("state-r")));
        let before = if scene.tree().exists() { generations(&scene) } else { 0 };
        kills.kill();
        let what = format!("{kind}, update {update}, round {round}");
        let after = generations(&scene);
        assert!((before..=before + 1).contains(&after), "{what}");
        published += u32::from(after > before);
        if after > 0 {
            let faults = scene.faults(&scene.reader(kind, "r"));
            assert!(faults.is_empty(), "{what}: {faults:?}");
        }
        // The next run succeeds, and one after a change too.
        for more in ["", "more"] {
            if !more.is_empty() {
                scene.write("1/more", &round.to_le_bytes());
            }
            let made = scene.try_seal(&scene.writer(kind, "a"));
            let made = made.unwrap_or_else(|error| {
                panic!(
                    "{what}, {more}: {error}: {:?}",
                    common::sealed::content(&scene.tree()).keys()
                )
            });
            let made = made.1;
            assert!(made.generation >= after && made.generation > 0, "{what}");
            drop(fs::remove_dir_all(scene.path("out")));
            scene.open("out", &scene.reader(kind, "r"));
            scene.assert_same("out");
        }
        fs::remove_file(scene.source().join("1/more")).unwrap();
        generations(&scene);
        // Nothing is left of killed runs but files in `data/` and `keys/`.
        let writers = fs::read_dir(scene.tree().join("writers")).unwrap();
        let _ = writers.count();
    }
    println!("{spawned}, update {update}: {kills}, {published} had published");
    kills.assert_some();
}

#[test]
fn killed_while_sealing() {
    kill_often("key", false, rounds(25));
    kill_often("recipient", false, rounds(25));
    kill_often("key, named", false, rounds(25));
}

#[test]
fn killed_while_updating() {
    kill_often("key", true, rounds(25));
    kill_often("recipient", true, rounds(25));
    kill_often("key, named", true, rounds(25));
}

/// A run that was killed between publishing its root and keeping its state.
#[test]
fn killed_just_after_publishing() {
    let scene = Scene::new();
    fill(&scene, 0);
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    let place = fs::read_dir(scene.path("state-a")).unwrap().next().unwrap().unwrap().path();
    fs::rename(place.join("entries"), place.join("entries.0011223344556677")).unwrap();
    // Nothing has changed, and then something has.
    assert!(!scene.seal(&scene.writer("recipient", "a")).1.is_new);
    scene.write("new", b"new");
    let (report, made) = scene.seal(&scene.writer("recipient", "a"));
    assert_eq!((made.generation, report.files), (2, 1));
    scene.open("out", &scene.reader("recipient", "b"));
    scene.assert_same("out");
}

/// A run that is overtaken keeps no older state than the other one.
#[test]
fn the_state_does_not_go_back() {
    let scene = Scene::new();
    scene.write("x", b"x");
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    scene.copy("state-a", "state-before");
    scene.write("x", b"other");
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    // A state from before the last generation: its writer goes on, since it signs the chain.
    scene.copy("state-before", "state-a");
    scene.write("y", b"y");
    let (_, made) = scene.seal(&scene.writer("recipient", "a"));
    assert_eq!(made.generation, 3);
    scene.open("out", &scene.reader("recipient", "b"));
    scene.assert_same("out");
    // A state that is lost: it can't read the tree, and says so.
    fs::remove_dir_all(scene.path("state-a")).unwrap();
    let error = scene.try_seal(&scene.writer("recipient", "a")).unwrap_err().to_string();
    assert!(error.contains("no state of the tree and can't read it"), "{error}");
    // With the key it goes on; the tree is signed, and another machine may not sign.
    let error = scene.try_seal(&SealedOptions {
        keychain: scene.reader("recipient", "a").keychain,
        ..scene.writer("recipient", "a")
    });
    let error = error.unwrap_err().to_string();
    assert!(error.contains("may not sign this tree"), "{error}");
    // In a tree with a key, nothing is lost but time.
    let scene = Scene::new();
    scene.write("x", b"x");
    scene.settle();
    scene.seal(&scene.with_key("a"));
    fs::remove_dir_all(scene.path("state-a")).unwrap();
    scene.write("y", b"y");
    assert_eq!(scene.seal(&scene.with_key("a")).1.generation, 2);
    assert_eq!(Forge::of(&scene, &key(7)).entries(2).len(), 3);
}

/// A run was killed while it made its first file.
#[test]
fn a_temporary_file_is_nothing_else() {
    let scene = Scene::new();
    scene.write("x", b"x");
    fs::create_dir(scene.tree()).unwrap();
    fs::write(scene.tree().join(".evener-0011223344556677.part"), b"").unwrap();
    assert_eq!(scene.seal(&scene.with_key("a")).1.generation, 1);
    for other in [".evener-0011223344556677", "x", "tree"] {
        let scene = Scene::new();
        scene.write("x", b"x");
        fs::create_dir(scene.tree()).unwrap();
        fs::write(scene.tree().join(other), b"").unwrap();
        let error = scene.try_seal(&scene.with_key("a")).unwrap_err().to_string();
        assert!(error.contains("it holds something else"), "{error}");
    }
}
