//! Cleaning, new keys and new wrappings beside other runs, and killed.

mod common;

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use common::child::shim;
use common::kills::{Kills, rounds};
use common::sealed::{ACTION, Scene, content, key, seal_in_child};
use evener_keys::signing::OwnKey;
use evener_place::indexed::{self, CleanOptions, Cleaned, SealedOptions, Sign, Signer};
use evener_place::{FileError, Local, Selection, TreeOptions};

fn local(scene: &Scene) -> Local {
    Local::new(scene.tree(), &TreeOptions::default())
}

fn clean(scene: &Scene, sealed: &SealedOptions) -> Result<Cleaned, FileError> {
    let options = CleanOptions { keep: 1, ..CleanOptions::default() };
    indexed::clean(&local(scene), &scene.run.run, sealed, &options)
}

/// Makes all files in `data/` so many days old.
fn age(scene: &Scene, days: u64) {
    let then = SystemTime::now() - Duration::from_secs(days * 24 * 60 * 60);
    let mut left = vec![scene.tree().join("data")];
    while let Some(path) = left.pop() {
        match path.is_dir() {
            true => left.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => {
                fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
            }
        }
    }
}

/// Somebody who has the state of machine `a`, the recipient and its identity.
fn holder(scene: &Scene) -> SealedOptions {
    let keychain = scene.reader("recipient", "a").keychain;
    SealedOptions { keychain, ..scene.writer("recipient", "a") }
}

/// Seals without `y`.
fn seal_without_y(scene: &Scene, sealed: &SealedOptions) -> u64 {
    let all = TreeOptions::default();
    let (source, store) = (Local::new(scene.source(), &all), local(scene));
    let mut transfer = scene.run.transfer.clone();
    transfer.selection = Selection::new(&[], &["y"]).unwrap();
    indexed::seal(&source, &store, &scene.run.run, &transfer, sealed).unwrap().1.generation
}

#[test]
fn child() {
    seal_in_child();
}

/// Kills a run that cares for the tree, so many times, and checks that the newest generation is
/// whole, and that the next runs succeed.
fn kill_often(action: &str, kind: &str, rounds: u32) {
    let scene = Scene::new();
    for round in 0..4_u32 {
        for number in 0..20 {
            scene.write(
                &format!("{}/{number}", number % 3),
                &[number; 5000][..round as usize + 4000],
            );
        }
        scene.write(&format!("new-{round}"), b"x");
        scene.settle();
        scene.seal(&scene.writer(kind, "a"));
    }
    age(&scene, 3);
    let expected = content(&scene.source());
    scene.copy("tree", "tree-before");
    scene.copy("state-a", "state-before");
    let mut kills = Kills::new(&scene, |scene| {
        let mut command = scene.seal_command(kind, "a");
        // Removals are so fast that a kill would hardly ever hit one.
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_CALL", "unlinkat");
        command.env("EVENER_FAULT_DO", "wait");
        command.env(ACTION, action).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    });
    let mut reader = scene.reader(kind, "r");
    if kind == "key" {
        reader.keychain.keys.push(key(8));
    }
    for round in 0..rounds {
        scene.copy("tree-before", "tree");
        scene.copy("state-before", "state-a");
        drop(fs::remove_dir_all(scene.path("state-r")));
        kills.kill();
        let what = format!("{action} {kind}, round {round}");
        let faults = scene.faults(&reader);
        assert!(faults.is_empty(), "{what}: {faults:?}");
        // Once the new key is that of the newest root, the rest was done.
        let again = scene.try_to(action, kind, "a");
        if let Err((_, error)) = again {
            assert!(action == "rekey" && kind == "key", "{what}: {error}");
        }
        let faults = scene.faults(&reader);
        assert!(faults.is_empty(), "{what}: {faults:?}");
        drop(fs::remove_dir_all(scene.path("out")));
        scene.open("out", &reader);
        assert!(content(&scene.path("out")) == expected, "{what}");
        // The writer goes on.
        let mut writer = scene.writer(kind, "a");
        if action == "rekey" && kind == "key" {
            writer.keychain.keys = vec![key(8)];
        }
        scene.write("more", &round.to_le_bytes());
        let made = scene.try_seal(&writer);
        assert!(made.is_ok(), "{what}: {}", made.unwrap_err());
        let faults = scene.faults(&reader);
        assert!(faults.is_empty(), "{what}: {faults:?}");
        fs::remove_file(scene.source().join("more")).unwrap();
    }
    println!("{action} {kind}: {kills}");
    kills.assert_some();
}

#[test]
fn killed_while_cleaning() {
    kill_often("clean", "key", rounds(10));
    kill_often("clean", "recipient", rounds(10));
}

#[test]
fn killed_while_wrapping() {
    kill_often("rewrap", "recipient", rounds(10));
}

#[test]
fn killed_while_the_key_is_changed() {
    kill_often("rekey", "key", rounds(10));
    kill_often("rekey", "recipient", rounds(10));
}

#[track_caller]
fn assert_whole(scene: &Scene) {
    let faults = scene.faults(&scene.reader("recipient", "r"));
    assert!(faults.is_empty(), "{faults:?}");
    drop(fs::remove_dir_all(scene.path("out")));
    scene.open("out", &scene.reader("recipient", "r"));
    scene.assert_same("out");
}

fn two_files() -> Scene {
    let scene = Scene::new();
    scene.write("x", b"x");
    scene.write("y", b"y");
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    scene
}

/// The files of an older state may be gone.
#[test]
fn a_state_from_before_cleaning_carries_nothing() {
    let scene = two_files();
    scene.copy("state-a", "state-before");
    assert_eq!(seal_without_y(&scene, &scene.writer("recipient", "a")), 2);
    age(&scene, 3);
    assert_eq!(clean(&scene, &holder(&scene)).unwrap().generation, Some(3));
    scene.copy("state-before", "state-a");
    assert_eq!(scene.seal(&scene.writer("recipient", "a")).1.generation, 4);
    assert_whole(&scene);
}

/// Another run drops a file and cleans, while this one carries it.
#[test]
fn a_run_that_was_overtaken_by_cleaning_begins_again() {
    let scene = Arc::new(two_files());
    scene.write("x", b"other");
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    age(&scene, 20);
    // An old claim keeps the cutoff where it is.
    let claim = scene.tree().join("writers").join("0".repeat(32));
    fs::write(&claim, "").unwrap();
    let then = SystemTime::now() - Duration::from_secs(10 * 24 * 60 * 60);
    fs::File::options().write(true).open(&claim).unwrap().set_modified(then).unwrap();
    assert_eq!(clean(&scene, &holder(&scene)).unwrap().generation, Some(3));
    scene.write("x", b"a third");
    scene.settle();
    // Its last step before it publishes is to sign.
    let state = fs::read_dir(scene.path("state-a")).unwrap().next().unwrap().unwrap().path();
    let own = OwnKey::load(&state.join("key")).unwrap();
    let public = own.public();
    let is_done = AtomicBool::new(false);
    let beside = scene.clone();
    let sign: Sign = Arc::new(move |message| {
        if !is_done.swap(true, Ordering::Relaxed) {
            assert_eq!(seal_without_y(&beside, &holder(&beside)), 4);
            assert_eq!(clean(&beside, &holder(&beside)).unwrap().generation, Some(5));
        }
        Ok(own.sign(message))
    });
    let sealed = SealedOptions { signer: Some(Signer { public, sign }), ..holder(&scene) };
    assert_eq!(scene.seal(&sealed).1.generation, 6);
    assert_whole(&scene);
}

/// The run that was killed had carried a file that was dropped and cleaned since.
#[test]
fn a_killed_run_from_before_cleaning_is_not_continued() {
    let scene = two_files();
    scene.copy("state-a", "state-before");
    scene.write("z", b"z");
    scene.settle();
    // Its state is what a run leaves that is killed before it publishes its root.
    let place = || fs::read_dir(scene.path("state-a")).unwrap().next().unwrap().unwrap().path();
    scene.copy("tree", "tree-before");
    scene.seal(&scene.writer("recipient", "a"));
    let killed = fs::read(place().join("entries")).unwrap();
    let keys = scene.path("tree/keys");
    scene.copy("tree-before/tree", "tree/tree");
    scene.copy("state-before", "state-a");
    assert!(fs::read_dir(keys).unwrap().count() == 2);
    assert_eq!(seal_without_y(&scene, &scene.writer("recipient", "a")), 2);
    let length = fs::read_dir(scene.tree().join("writers")).unwrap().count();
    assert_eq!(length, 0);
    age(&scene, 3);
    assert_eq!(clean(&scene, &holder(&scene)).unwrap().generation, Some(3));
    fs::write(place().join("entries.0011223344556677"), killed).unwrap();
    scene.seal(&scene.writer("recipient", "a"));
    assert_whole(&scene);
}

/// The run was killed when its index was complete, and its root was not there yet.
#[test]
fn a_run_that_was_killed_before_its_root_is_published() {
    let scene = two_files();
    scene.copy("state-a", "state-before");
    let place = || fs::read_dir(scene.path("state-a")).unwrap().next().unwrap().unwrap().path();
    scene.write("z", b"z");
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    let killed = fs::read(place().join("entries")).unwrap();
    fs::remove_file(scene.tree().join("tree/0000000000000000002")).unwrap();
    scene.copy("state-before", "state-a");
    fs::write(place().join("entries.0011223344556677"), killed).unwrap();
    let (_, made) = scene.seal(&scene.writer("recipient", "a"));
    assert_eq!((made.generation, made.is_new), (2, true));
    assert_whole(&scene);
}

#[test]
fn junk_generations_are_cleaned_around() {
    let scene = two_files();
    scene.write("x", b"other");
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    age(&scene, 3);
    let roots = || content(&scene.tree().join("tree"));
    let root = |number: u64| scene.tree().join(format!("tree/{number:019}"));
    let (first, data) = (fs::read(root(1)).unwrap(), content(&scene.tree().join("data")));
    for number in [17, 1 << 62, i64::MAX as u64] {
        fs::write(root(number), "junk").unwrap();
        fs::write(root(number + 1), &first).unwrap();
    }
    // Under the next number it might be the newest root, so nothing is removed before a writer has
    // passed over it.
    for junk in [&b"junk"[..], b"", &first] {
        fs::write(root(3), junk).unwrap();
        let error = clean(&scene, &holder(&scene)).unwrap_err().to_string();
        assert!(error.contains("is no valid root"), "{error}");
        assert!(content(&scene.tree().join("data")) == data);
    }
    scene.write("x", b"a third");
    scene.settle();
    assert_eq!(scene.seal(&holder(&scene)).1.generation, 4);
    let before = roots();
    let cleaned = clean(&scene, &holder(&scene)).unwrap();
    assert_eq!((cleaned.generation, cleaned.removed), (Some(5), vec![1, 2]));
    assert!(cleaned.files > 0);
    assert!(
        before.iter().all(|(path, file)| path.as_os_str().is_empty() || roots()[path] == *file)
    );
    assert_whole(&scene);
}

/// Sealing and cleaning at once, with everything old enough to go.
#[test]
fn cleaning_beside_a_writer() {
    let scene = two_files();
    for round in 0..10_u32 {
        scene.write("x", &round.to_le_bytes());
        scene.write(&format!("new-{}", round % 5), &round.to_le_bytes());
        age(&scene, 3);
        let cleaned = std::thread::scope(|scope| {
            let scene = &scene;
            let writer = scope.spawn(move || scene.try_seal(&holder(scene)).map(|it| it.1));
            let cleaner = scope.spawn(move || clean(scene, &holder(scene)));
            let made = writer.join().unwrap();
            assert!(made.is_ok(), "{round}: {}", made.unwrap_err());
            cleaner.join().unwrap()
        });
        if let Err(error) = cleaned {
            let error = error.to_string();
            let expected = ["another run has made", "is missing", "can't be read whole"];
            assert!(expected.iter().any(|it| error.contains(it)), "{round}: {error}");
        }
        assert_whole(&scene);
    }
}

/// Wrapping keys anew and sealing, at once.
#[test]
fn wrapping_beside_a_writer() {
    let scene = two_files();
    let wrap = scene.writer("recipient", "a").wrap.unwrap();
    for round in 0..20_u32 {
        scene.write("x", &round.to_le_bytes());
        std::thread::scope(|scope| {
            let scene = &scene;
            let writer = scope.spawn(move || scene.try_seal(&holder(scene)).map(|it| it.1));
            let two = [(); 2].map(|()| {
                let wrap = wrap.clone();
                scope.spawn(move || {
                    let reader = scene.reader("recipient", "w");
                    indexed::rewrap(&local(scene), &scene.run.run, &wrap, false, &reader)
                })
            });
            assert!(writer.join().unwrap().is_ok());
            for rewrapped in two.map(|it| it.join().unwrap()) {
                if let Err(error) = rewrapped {
                    let error = error.to_string();
                    let expected = ["another run wraps", "missing", "nothing opens", "is empty"];
                    println!("{round}: {error}");
                    assert!(expected.iter().any(|it| error.contains(it)), "{round}: {error}");
                }
            }
        });
        assert_whole(&scene);
    }
}
