//! Keys, recipients and signers of sealed trees that change.

mod common;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::bytes;
use common::sealed::{Scene, key};
use evener_keys::age::{Identity, wrap};
use evener_place::indexed::{self, At, CleanOptions, SealedOptions, SignerChange, Wrap};
use evener_place::{Control, FileError, Local, OperationError, TreeOptions};

fn local(scene: &Scene) -> Local {
    Local::new(scene.tree(), &TreeOptions::default())
}

fn wraps(identity: &Identity) -> Wrap {
    let recipient = identity.recipient().unwrap();
    Arc::new(move |text| Ok(wrap(text, std::slice::from_ref(&recipient)).unwrap()))
}

/// Seals, and is stopped after so many files.
fn stopped(scene: &mut Scene, sealed: &SealedOptions, files: u64) {
    let run = scene.run.run.clone();
    let (control, done) = (Arc::new(Control::default()), AtomicU64::new(0));
    let stop = control.clone();
    scene.run.run.control = control;
    scene.run.run.listener = Some(Arc::new(move |_, _| {
        if done.fetch_add(1, Ordering::Relaxed) == files {
            stop.stop();
        }
    }));
    let report = scene.try_seal(sealed).unwrap_err().into_report().unwrap();
    assert!(report.interrupted);
    scene.run.run = run;
}

/// A source of many blocks.
fn large() -> Scene {
    let scene = Scene::new();
    for number in 0..4000 {
        scene.write(&format!("{}/{number}", number % 7), &bytes(20));
    }
    scene.settle();
    scene
}

fn generation(number: u64, sealed: SealedOptions) -> SealedOptions {
    SealedOptions { at: At::Number(number), ..sealed }
}

#[track_caller]
fn refusal(result: Result<impl Sized, OperationError>) -> String {
    match result {
        Err(OperationError::NotBegun(failure)) => failure.error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was done"),
    }
}

#[test]
fn keys_of_stopped_runs_are_wrapped_too() {
    let (identity, other) = (Identity::generate(), Identity::generate());
    let mut scene = large();
    let writer = scene.with_recipient(&identity, "a");
    stopped(&mut scene, &writer, 3000);
    assert!(scene.seal(&writer).0.files < 4000);
    let reader = scene.with_identity(&identity, "b");
    let unlock = Arc::new(vec![identity.clone(), other.clone()]);
    let both = SealedOptions {
        keychain: indexed::Keychain { unlock, ..Default::default() },
        ..reader.clone()
    };
    let rewrap = |scene: &Scene| {
        indexed::rewrap(&local(scene), &scene.run.run, &wraps(&other), false, &both).unwrap()
    };
    // The place hides one of the two for a moment.
    let root = scene.open("first", &reader);
    assert_eq!(root.number, 1);
    let hidden = fs::read_dir(scene.tree().join("keys")).unwrap().map(|it| it.unwrap().path());
    let hidden = hidden.min_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).unwrap();
    let held = scene.path("held");
    fs::rename(&hidden, &held).unwrap();
    let rewrapped = rewrap(&scene);
    assert_eq!(rewrapped.keys, 1);
    let id = hidden.file_stem().unwrap().to_str().unwrap();
    assert!(rewrapped.faults.iter().any(|it| it.contains(id)), "{:?}", rewrapped.faults);
    fs::rename(&held, &hidden).unwrap();
    let rewrapped = rewrap(&scene);
    assert_eq!((rewrapped.keys, rewrapped.removed, rewrapped.faults.len()), (2, 2, 0));
    scene.open("out", &scene.with_identity(&other, "c"));
    scene.assert_same("out");
}

#[test]
fn a_hidden_key_of_a_root_is_named() {
    let identity = Identity::generate();
    let scene = Scene::new();
    let writer = scene.with_recipient(&identity, "a");
    for round in 0..2 {
        scene.write("one", &[round]);
        scene.settle();
        scene.seal(&writer);
    }
    let reader = scene.with_identity(&identity, "b");
    let key = |number| {
        let bytes = fs::read(scene.tree().join(format!("tree/{number:019}"))).unwrap();
        let names = fs::read_dir(scene.tree().join("keys")).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let is_in = |name: &String| {
            let id = (0..16).map(|at| u8::from_str_radix(&name[2 * at..2 * at + 2], 16).unwrap());
            let id: Vec<u8> = id.collect();
            bytes.windows(16).any(|part| part == id)
        };
        names.into_iter().find(is_in).unwrap()
    };
    let name = key(1);
    let (path, held) = (scene.tree().join("keys").join(&name), scene.path("held"));
    fs::rename(&path, &held).unwrap();
    let rewrapped =
        indexed::rewrap(&local(&scene), &scene.run.run, &wraps(&identity), false, &reader).unwrap();
    assert_eq!(rewrapped.keys, 1);
    let told = rewrapped.faults.join("\n");
    assert!(told.contains(&name[..32]) && told.contains("generation 1 "), "{told}");
}

#[test]
fn a_tree_under_a_key_has_none_to_wrap() {
    let scene = Scene::new();
    scene.write("one", b"one");
    let sealed = scene.with_key("a");
    scene.seal(&sealed);
    let wrap = wraps(&Identity::generate());
    let rewrapped = indexed::rewrap(&local(&scene), &scene.run.run, &wrap, false, &sealed);
    let error = rewrapped.unwrap_err().to_string();
    assert!(error.contains("no wrapped keys") && error.contains("rekey"), "{error}");
}

#[test]
fn no_run_goes_on_with_a_key_for_others() {
    let (identity, other) = (Identity::generate(), Identity::generate());
    let mut scene = large();
    let for_one = |identity: &Identity, audience: &str| SealedOptions {
        audience: Some(audience.to_owned()),
        ..scene.with_recipient(identity, "a")
    };
    let (one, two) = (for_one(&identity, "one"), for_one(&other, "two"));
    stopped(&mut scene, &one, 3000);
    assert_eq!(scene.seal(&two).0.files, 4000);
    scene.open("out", &scene.with_identity(&other, "b"));
}

#[test]
fn other_recipients_are_refused_until_keys_are_wrapped_for_them() {
    let (identity, other) = (Identity::generate(), Identity::generate());
    let scene = Scene::new();
    scene.write("one", b"one");
    scene.settle();
    let for_one = |identity: &Identity, audience: &str| SealedOptions {
        audience: Some(audience.to_owned()),
        ..scene.with_recipient(identity, "a")
    };
    let (one, two) = (for_one(&identity, "one"), for_one(&other, "two"));
    scene.seal(&one);
    let before = common::sealed::content(&scene.path("tree"));
    // Nothing has changed, and that is no reason to say so.
    let error = refusal(scene.try_seal(&two));
    assert!(
        error.contains("evener rewrap -i") && error.contains("--recipients-changed"),
        "{error}"
    );
    let error = refusal(scene.try_seal(&scene.with_key("a")));
    assert!(error.contains("evener rekey"), "{error}");
    assert!(before.keys().eq(common::sealed::content(&scene.path("tree")).keys()));
    // On another machine, the keys are wrapped for the others.
    let reader = scene.with_identity(&identity, "b");
    indexed::rewrap(&local(&scene), &scene.run.run, &wraps(&other), true, &reader).unwrap();
    refusal(scene.try_seal(&two));
    let told = SealedOptions { accepts_audience: true, ..two.clone() };
    assert!(!scene.seal(&told).1.is_new);
    scene.write("two", b"two");
    scene.settle();
    assert_eq!(scene.seal(&two).1.generation, 2);
    scene.open("out", &scene.with_identity(&other, "c"));
    scene.assert_same("out");
    // And on this one, back.
    let sealed =
        SealedOptions { audience: one.audience.clone(), ..scene.with_identity(&other, "a") };
    indexed::rewrap(&local(&scene), &scene.run.run, &wraps(&identity), true, &sealed).unwrap();
    refusal(scene.try_seal(&two));
    scene.seal(&one);
}

#[test]
fn an_earlier_generation_needs_no_key_of_a_later_one() {
    let (identity, other) = (Identity::generate(), Identity::generate());
    let scene = Scene::new();
    scene.write("one", b"one");
    scene.settle();
    scene.seal(&scene.with_recipient(&identity, "a"));
    scene.write("one", b"other");
    scene.settle();
    scene.seal(&scene.with_recipient(&other, "a"));
    // Machine `a` has seen generation 2.
    let reader = scene.with_identity(&identity, "a");
    let told = scene.refusal(&reader);
    assert!(told.contains("--generation"), "{told}");
    let info = scene.open("first", &generation(1, reader.clone()));
    assert_eq!((info.number, fs::read(scene.path("first/one")).unwrap()), (1, b"one".to_vec()));
    // It stays where it was: an older root under that number is none.
    let root = scene.tree().join(format!("tree/{:019}", 2));
    let mut bytes = fs::read(&root).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::remove_file(&root).unwrap();
    fs::write(&root, bytes).unwrap();
    scene.refusal(&generation(1, reader));
}

#[test]
fn what_a_revoked_signer_sealed_for_others_need_not_open() {
    let (identity, attacker) = (Identity::generate(), Identity::generate());
    let scene = Scene::new();
    scene.write("one", b"one");
    scene.settle();
    let reads = |machine| scene.with_identity(&identity, machine);
    let signs = |machine: &str| SealedOptions {
        keychain: reads("").keychain,
        ..scene.with_recipient(&identity, machine)
    };
    scene.seal(&signs("a"));
    let b = indexed::own_signer(&local(&scene), &signs("b")).unwrap();
    let change = |change: SignerChange| {
        indexed::change_signers(&local(&scene), &scene.run.run, &change, &signs("a"))
    };
    change(SignerChange { add: vec![b.clone()], ..SignerChange::default() }).unwrap();
    scene.write("two", b"two");
    scene.settle();
    assert_eq!(scene.seal(&signs("b")).1.generation, 3);
    scene.open("at 3", &reads("r3"));
    scene.write("three", b"three");
    scene.settle();
    assert_eq!(scene.seal(&signs("b")).1.generation, 4);
    scene.open("at 4", &reads("r4"));
    let for_attacker =
        SealedOptions { keychain: reads("").keychain, ..scene.with_recipient(&attacker, "b") };
    scene.write("four", b"four");
    scene.settle();
    assert_eq!(scene.seal(&for_attacker).1.generation, 5);
    assert!(scene.refusal(&reads("r3")).contains("can't be opened"));
    let revoke = SignerChange { revoke: vec![(b.key, 3)], ..SignerChange::default() };
    assert_eq!(change(revoke).unwrap(), 6);
    scene.open("again", &reads("r3"));
    assert!(scene.path("again/two").exists() && !scene.path("again/three").exists());
    scene.open("new", &reads("new"));
    let told = scene.refusal(&reads("r4"));
    assert!(told.contains("its signer was revoked; --allow-rollback"), "{told}");
    // `a` goes on.
    assert_eq!(scene.seal(&signs("a")).1.generation, 7);
}

#[test]
fn the_own_key_of_a_moved_tree_is_found() {
    let identity = Identity::generate();
    let scene = Scene::new();
    scene.write("one", b"one");
    scene.settle();
    let at = |place: &str, keychain| {
        let sealed = scene.with_recipient(&identity, "a");
        let state = sealed.state.clone().map(|(all, _)| (all, place.to_owned()));
        SealedOptions { state, keychain, ..sealed }
    };
    let opens = scene.with_identity(&identity, "a").keychain;
    let here = at("here", indexed::Keychain::default());
    scene.seal(&here);
    scene.write("two", b"two");
    scene.settle();
    assert_eq!(scene.seal(&at("there", opens.clone())).1.generation, 2);
    let own = |sealed| indexed::own_signer(&local(&scene), sealed).unwrap();
    assert_eq!(own(&here), own(&at("elsewhere", opens)));
    // A machine that has lost it hears what is left to do.
    let lost = SealedOptions {
        keychain: scene.with_identity(&identity, "b").keychain,
        ..scene.with_recipient(&identity, "b")
    };
    let told = refusal(scene.try_seal(&lost));
    assert!(told.contains("may not sign") && told.contains("new directory"), "{told}");
}

#[test]
fn cleaning_needs_no_key_of_what_it_removes() {
    let scene = Scene::new();
    scene.write("one", b"one");
    let old = scene.with_key("a");
    scene.seal(&old);
    let (tree, run) = (local(&scene), &scene.run);
    indexed::rekey(&tree, &run.run, &run.transfer, &old, Some(&key(8))).unwrap();
    let mut new = old.clone();
    new.keychain.keys = vec![key(8)];
    let clean = |keep| -> Result<_, FileError> {
        let options = CleanOptions { keep, ..CleanOptions::default() };
        indexed::clean(&tree, &run.run, &new, &options)
    };
    let told = clean(2).unwrap_err().to_string();
    assert!(told.contains("generation 1 is under another key"), "{told}");
    assert!(told.contains("--keep 1"), "{told}");
    assert_eq!(clean(1).unwrap().removed, [1]);
    scene.open("out", &new);
    scene.assert_same("out");
}
