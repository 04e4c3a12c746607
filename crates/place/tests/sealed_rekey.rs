//! Sealed trees that get another key while files fail or others write, and notes that are lost.

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::bytes;
use common::sealed::{Scene, key};
use evener_place::indexed::{self, Sealed, SealedOptions, SignerChange};
use evener_place::{Local, OperationError, Report, TreeOptions};

const KINDS: [&str; 2] = ["key", "recipient"];

fn scene(files: u32) -> Scene {
    let scene = Scene::new();
    (0..files).for_each(|number| scene.write(&format!("{number}"), &bytes(20)));
    scene.settle();
    scene
}

fn local(scene: &Scene) -> Local {
    Local::new(scene.tree(), &TreeOptions::default())
}

/// Somebody who can write the tree, and read it.
fn holder(scene: &Scene, kind: &str, machine: &str) -> SealedOptions {
    SealedOptions {
        keychain: scene.reader(kind, machine).keychain,
        audience: Some("all".to_owned()).filter(|_| kind != "key"),
        ..scene.writer(kind, machine)
    }
}

/// One who reads what has the new key.
fn reader(scene: &Scene, kind: &str) -> SealedOptions {
    let mut reader = scene.reader(kind, "reader");
    if kind == "key" {
        reader.keychain.keys = vec![key(8)];
    }
    reader
}

fn rekey(scene: &Scene, kind: &str) -> Result<(Report, Sealed), OperationError> {
    let (run, new) = (&scene.run, key(8));
    let new = Some(&new).filter(|_| kind == "key");
    indexed::rekey(&local(scene), &run.run, &run.transfer, &holder(scene, kind, "a"), new)
}

fn refusal(result: Result<(Report, Sealed), OperationError>) -> String {
    match result {
        Err(OperationError::NotBegun(failure)) => failure.error.to_string(),
        other => panic!("{:?}", other.map(|(report, _)| report)),
    }
}

fn roots(scene: &Scene) -> usize {
    fs::read_dir(scene.tree().join("tree")).unwrap().count()
}

fn largest_file(scene: &Scene) -> PathBuf {
    let directories = fs::read_dir(scene.tree().join("data")).unwrap();
    let files = directories.flat_map(|it| fs::read_dir(it.unwrap().path()).unwrap());
    let files = files.map(|file| file.unwrap().path());
    files.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()
}

#[test]
fn a_new_key_with_failures_makes_no_generation_and_goes_on_later() {
    for kind in KINDS {
        let scene = scene(200);
        scene.write("long", &bytes(300_000));
        scene.settle();
        scene.seal(&holder(&scene, kind, "a"));
        let (hidden, held) = (largest_file(&scene), scene.path("held"));
        fs::rename(&hidden, &held).unwrap();
        for round in 0..2 {
            let report = rekey(&scene, kind).unwrap_err().into_report().unwrap();
            assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
            assert!(report.failures[0].path.ends_with("long"), "{:?}", report.failures);
            let told = format!("{:?}", report.notices);
            assert!(
                told.contains(
                    "no generation was made, and the tree keeps its key, because files failed"
                ),
                "{told}"
            );
            assert_eq!(roots(&scene), 1);
            assert_eq!(report.files, if round == 0 { 200 } else { 0 });
        }
        fs::rename(&held, &hidden).unwrap();
        let (report, sealed) = rekey(&scene, kind).unwrap();
        assert_eq!((report.files, sealed.generation), (1, 2));
        scene.open("out", &reader(&scene, kind));
        scene.assert_same("out");
    }
}

/// Has a listener do something once, when the first file is done.
fn at_first_file(scene: &mut Scene, act: impl Fn(Scene) + Send + Sync + 'static) {
    let (home, is_done) = (scene.path(""), AtomicBool::new(false));
    scene.run.run.listener = Some(Arc::new(move |_, _| {
        if !is_done.swap(true, Ordering::SeqCst) {
            act(Scene::at(&home));
        }
    }));
}

#[test]
fn a_new_key_takes_in_what_was_sealed_meanwhile() {
    for kind in KINDS {
        let mut scene = scene(100);
        scene.seal(&holder(&scene, kind, "a"));
        (0..100).for_each(|number| scene.write(&format!("more/{number}"), &bytes(20)));
        scene.write("1", b"other content");
        scene.settle();
        at_first_file(&mut scene, move |scene| {
            assert_eq!(scene.seal(&holder(&scene, kind, "a")).1.generation, 2);
        });
        assert_eq!(rekey(&scene, kind).unwrap().1.generation, 3);
        scene.open("out", &reader(&scene, kind));
        scene.assert_same("out");
    }
}

#[test]
fn a_run_that_a_new_key_overtakes_seals_all_under_that() {
    let mut scene = scene(100);
    let writer = SealedOptions {
        keychain: indexed::Keychain::default(),
        ..holder(&scene, "recipient", "a")
    };
    scene.seal(&writer);
    (0..3).for_each(|number| scene.write(&format!("more/{number}"), &bytes(20)));
    scene.settle();
    at_first_file(&mut scene, |scene| {
        // On another machine of the same signer.
        let mut sealed = holder(&scene, "recipient", "b");
        sealed.keychain = scene.reader("recipient", "b").keychain;
        common::sealed::copy(&scene.path("state-a"), &scene.path("state-b"));
        let (run, transfer) = (&scene.run.run, &scene.run.transfer);
        let made = indexed::rekey(&local(&scene), run, transfer, &sealed, None).unwrap().1;
        assert_eq!(made.generation, 2);
    });
    let (report, sealed) = scene.seal(&writer);
    assert_eq!((report.files, sealed.generation), (103, 3));
    scene.open("out", &reader(&scene, "recipient"));
    scene.assert_same("out");
}

#[test]
fn a_new_key_keeps_the_notes_on_sources() {
    let scene = scene(100);
    let writer = SealedOptions {
        keychain: indexed::Keychain::default(),
        ..holder(&scene, "recipient", "a")
    };
    scene.seal(&writer);
    let (report, _) = rekey(&scene, "recipient").unwrap();
    assert!(report.notices.is_empty(), "{:?}", report.notices);
    let (report, sealed) = scene.seal(&writer);
    assert_eq!((report.files, sealed.is_new), (0, false));
    scene.write("1", b"other content");
    scene.settle();
    assert_eq!(scene.seal(&writer).0.files, 1);
}

#[test]
fn the_last_good_generation_is_one_of_the_tree() {
    let scene = scene(1);
    let sealed = holder(&scene, "recipient", "a");
    scene.seal(&sealed);
    let other = indexed::own_signer(&local(&scene), &holder(&scene, "recipient", "b")).unwrap();
    let change = |change: SignerChange| {
        indexed::change_signers(&local(&scene), &scene.run.run, &change, &sealed)
    };
    change(SignerChange { add: vec![other.clone()], ..SignerChange::default() }).unwrap();
    let revoke =
        |last| SignerChange { revoke: vec![(other.key.clone(), last)], ..SignerChange::default() };
    let told = change(revoke(3)).unwrap_err().to_string();
    assert!(told.contains("the newest generation is 2"), "{told}");
    let told = change(revoke(0)).unwrap_err().to_string();
    assert!(told.contains("0 can't be the last good one"), "{told}");
    assert_eq!(change(revoke(2)).unwrap(), 3);
}

/// The tree under another name, or that of another machine.
fn elsewhere(sealed: SealedOptions) -> SealedOptions {
    let state = sealed.state.map(|(all, _)| (all, "elsewhere".to_owned()));
    SealedOptions { state, ..sealed }
}

#[test]
fn recipients_are_known_in_a_tree_that_was_moved() {
    let scene = scene(1);
    let sealed = holder(&scene, "recipient", "a");
    scene.seal(&sealed);
    let others = SealedOptions { audience: Some("others".to_owned()), ..sealed.clone() };
    let told = refusal(scene.try_seal(&elsewhere(others)));
    assert!(told.contains("not those of the last run"), "{told}");
    scene.seal(&elsewhere(sealed));
}

#[test]
fn without_notes_recipients_are_confirmed_for_one_run() {
    let scene = scene(1);
    let sealed = holder(&scene, "recipient", "a");
    scene.seal(&sealed);
    let state = scene.path("state-a");
    let notes = fs::read_dir(&state).unwrap().next().unwrap().unwrap().path();
    for name in ["pin.json", "entries", "audience"] {
        fs::remove_file(notes.join(name)).unwrap();
    }
    let told = refusal(scene.try_seal(&sealed));
    for part in ["--recipients-changed", "(-i) for one run", "evener rewrap"] {
        assert!(told.contains(part), "{told}");
    }
    // Nothing has changed, and the notes are made.
    let confirmed = SealedOptions { accepts_audience: true, ..sealed.clone() };
    assert!(!scene.seal(&confirmed).1.is_new);
    let blind = SealedOptions { keychain: indexed::Keychain::default(), ..sealed };
    let (report, made) = scene.seal(&blind);
    assert_eq!((report.files, made.is_new), (0, false));
}
