//! Whom and what a machine believes of sealed trees that it has seen, or sees for the first time.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};

use common::forge::Forge;
use common::sealed::{Scene, key};
use evener_core::Key;
use evener_format::index::SignerKeys;
use evener_keys::age::{Identity, wrap};
use evener_keys::signing::OwnKey;
use evener_keys::{CobblestoneSuite, KeyMaterial};
use evener_place::indexed::{self, At, RootDigest, SealedOptions, Trust};
use sha2::{Digest, Sha256};

/// A tree with one generation.
fn sealed_with(writer: &dyn Fn(&Scene) -> SealedOptions) -> Scene {
    let scene = Scene::new();
    scene.write("x", b"first");
    scene.settle();
    scene.seal(&writer(&scene));
    scene
}

fn next(scene: &Scene, sealed: &SealedOptions, content: &[u8]) -> u64 {
    scene.write("x", content);
    scene.settle();
    scene.seal(sealed).1.generation
}

/// The same, with the option, and what it tells.
fn rollback(sealed: &SealedOptions) -> (SealedOptions, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = told.clone();
    let trust = Trust { rollback: true, ..sealed.trust.clone() };
    let on_accepted: indexed::OnAccepted =
        Arc::new(move |text| hears.lock().unwrap().push(text.to_owned()));
    (SealedOptions { trust, on_accepted: Some(on_accepted), ..sealed.clone() }, told)
}

#[track_caller]
fn assert_told(told: &Mutex<Vec<String>>, text: &str) {
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains(text), "{told:?}");
}

fn signers(keys: &[&OwnKey]) -> Vec<SignerKeys> {
    let signer =
        |own: &&OwnKey| SignerKeys { key: own.public().wire().to_vec(), chain: own.chain_key() };
    keys.iter().map(signer).collect()
}

/// Puts a key into the tree, wrapped for an identity.
fn put_wrapped(scene: &Scene, key: &Key, identity: &Identity) {
    let suite = CobblestoneSuite::Aes256Gcm;
    let text = KeyMaterial::Cobblestone { suite, key: key.clone() };
    let wrapped = wrap(text.to_text().as_bytes(), &[identity.recipient().unwrap()]).unwrap();
    let id = Forge::of(scene, key).keys.commitment().id();
    fs::create_dir_all(scene.tree().join("keys")).unwrap();
    fs::write(scene.tree().join(format!("keys/{id}.1")), wrapped).unwrap();
}

/// A tree whose generations these sign, each with what it says of the signers.
fn signed(
    scene: &Scene,
    number: u64,
    by: &OwnKey,
    may: &[&OwnKey],
    revoked: Option<(&OwnKey, u64)>,
) {
    let forge = Forge::of(scene, &key(7));
    forge.publish_as(number, Vec::new(), Some(by), |_, body| {
        body.signers = signers(may);
        let revoked = revoked.map(|(own, last)| (own.public().wire().to_vec(), last));
        body.revoked = revoked.into_iter().collect();
        (body.entries, body.bytes) = (0, 0);
    });
}

fn digest(scene: &Scene, number: u64) -> RootDigest {
    RootDigest(
        Sha256::digest(fs::read(Forge::of(scene, &key(7)).root_path(number)).unwrap()).into(),
    )
}

/// The number of the generation that a machine reads, or the reason why it does not.
fn read(scene: &Scene, sealed: &SealedOptions) -> Result<u64, String> {
    match indexed::signers(&local(scene), &scene.run.run, sealed) {
        Ok((_, _, info)) => Ok(info.number),
        Err(error) => Err(error.to_string()),
    }
}

fn local(scene: &Scene) -> evener_place::Local {
    evener_place::Local::new(scene.tree(), &evener_place::TreeOptions::default())
}

#[track_caller]
fn assert_refused(read: Result<u64, String>, reason: &str) {
    let error = read.unwrap_err();
    assert!(error.contains(reason), "{error}");
}

#[test]
fn a_tree_that_is_gone_is_missed() {
    let scene = sealed_with(&|scene| scene.with_key("a"));
    let sealed = scene.with_key("a");
    fs::rename(scene.tree(), scene.path("gone")).unwrap();
    for remains in [None, Some("empty"), Some("a plain tree")] {
        if let Some(remains) = remains {
            fs::create_dir_all(scene.tree()).unwrap();
            if remains != "empty" {
                fs::write(scene.tree().join("a.enc"), remains).unwrap();
            }
        }
        let dry = SealedOptions { dry_run: true, ..sealed.clone() };
        for sealed in [&sealed, &dry] {
            let error = scene.try_seal(sealed).unwrap_err().to_string();
            assert!(error.contains("is gone") && error.contains("--allow-rollback"), "{error}");
        }
        assert!(indexed::refuse_gone(&sealed).unwrap_err().to_string().contains("is gone"));
        if remains.is_some() {
            assert_refused(read(&scene, &sealed), "is gone");
        }
    }
    // The tree is still known when it is back.
    fs::remove_dir_all(scene.tree()).unwrap();
    fs::rename(scene.path("gone"), scene.tree()).unwrap();
    assert_eq!(read(&scene, &sealed), Ok(1));
    // A new one begins when that is accepted.
    fs::rename(scene.tree(), scene.path("gone")).unwrap();
    let (accepting, told) = rollback(&sealed);
    assert_eq!(scene.seal(&accepting).1.generation, 1);
    assert_told(&told, "began the tree");
    assert_eq!(next(&scene, &sealed, b"second"), 2);
    fs::remove_dir_all(scene.tree()).unwrap();
    fs::rename(scene.path("gone"), scene.tree()).unwrap();
    assert_refused(read(&scene, &sealed), "has seen the tree");
    // Nothing is known after another kind of place was accepted.
    fs::remove_dir_all(scene.tree()).unwrap();
    assert!(indexed::refuse_gone(&rollback(&sealed).0).unwrap());
    assert!(!indexed::refuse_gone(&sealed).unwrap());
}

#[test]
fn a_place_is_known_by_both_of_its_names() {
    let scene = sealed_with(&|scene| scene.with_key("a"));
    let typed = |machine: &str, name: &str| {
        let sealed = scene.with_key(machine);
        let state = sealed.state.map(|(all, _)| (all, name.to_owned()));
        SealedOptions { state, alias: Some("typed".to_owned()), ..sealed }
    };
    for machine in ["seen", "other"] {
        assert_eq!(read(&scene, &typed(machine, "canonical")), Ok(1));
    }
    scene.copy("tree", "older");
    next(&scene, &scene.with_key("a"), b"second");
    assert_eq!(read(&scene, &typed("seen", "canonical")), Ok(2));
    // The store puts a link in its place, so that it has another name.
    fs::remove_dir_all(scene.tree()).unwrap();
    symlink(scene.path("older"), scene.tree()).unwrap();
    assert_refused(read(&scene, &typed("seen", "elsewhere")), "rolled back");
    // Of a fork, what either name knows counts.
    fs::remove_file(scene.tree()).unwrap();
    scene.copy("older", "tree");
    fs::remove_dir_all(scene.path("state-a")).unwrap();
    next(&scene, &scene.with_key("a"), b"another second");
    next(&scene, &scene.with_key("a"), b"third");
    let only_canonical = SealedOptions { alias: None, ..typed("other", "canonical") };
    let fork = SealedOptions { alias: None, ..typed("seen", "fork") };
    assert_eq!((read(&scene, &only_canonical), read(&scene, &fork)), (Ok(3), Ok(3)));
    assert_refused(read(&scene, &typed("seen", "fork")), "forked");
    let (accepting, told) = rollback(&typed("seen", "fork"));
    assert_eq!(read(&scene, &accepting), Ok(3));
    assert_told(&told, "accepted generation 3");
    assert_eq!(read(&scene, &typed("seen", "fork")), Ok(3));
}

#[test]
fn a_root_that_the_user_names_says_who_signs() {
    let (scene, [own, evil]) = (Scene::new(), [(); 2].map(|()| OwnKey::generate().unwrap()));
    let identity = Identity::generate();
    Forge::begin(&scene, &key(7));
    put_wrapped(&scene, &key(7), &identity);
    signed(&scene, 1, &own, &[&own], None);
    let first = digest(&scene, 1);
    let told = |machine: &str| {
        let trust = Trust { pin: Some((1, first)), ..Trust::default() };
        SealedOptions { trust, ..scene.with_identity(&identity, machine) }
    };
    assert_eq!(read(&scene, &told("first")), Ok(1));
    signed(&scene, 2, &evil, &[&evil], None);
    assert_refused(read(&scene, &told("new")), "who may not sign");
    signed(&scene, 2, &own, &[&own], None);
    assert_eq!(read(&scene, &told("new")), Ok(2));
    let (accepting, _) = rollback(&told("back"));
    signed(&scene, 2, &evil, &[&evil], None);
    assert_refused(read(&scene, &accepting), "who may not sign");
    let trust = Trust { pin: Some((3, first)), ..Trust::default() };
    let later = SealedOptions { trust, ..told("later") };
    assert_refused(read(&scene, &later), "older than --pin 3");
    let trust = Trust { pin: Some((1, digest(&scene, 2))), ..Trust::default() };
    assert_refused(read(&scene, &SealedOptions { trust, ..told("wrong") }), "not");
}

#[test]
fn an_unsigned_tree_goes_on_under_its_key_alone() {
    let identity = Identity::generate();
    let evil = OwnKey::generate().unwrap();
    for (what, wrapped) in [("wrapped", true), ("of another tree", false)] {
        for signer in [Some(&evil), None] {
            let scene = sealed_with(&|scene| scene.with_key("a"));
            let reader = |machine: &str| {
                let mut reader = scene.with_identity(&identity, machine);
                reader.keychain.keys.push(key(7));
                if !wrapped {
                    reader.keychain.keys.push(key(9));
                }
                reader
            };
            assert_eq!(read(&scene, &reader("seen")), Ok(1));
            let forge = Forge::of(&scene, &key(9));
            if wrapped {
                put_wrapped(&scene, &key(9), &identity);
            }
            forge.publish_as(2, Vec::new(), signer, |_, body| {
                body.signers = signers(signer.as_slice());
                (body.entries, body.bytes) = (0, 0);
            });
            let reason = if signer.is_none() && wrapped { "signed" } else { "is not sealed with" };
            assert_refused(read(&scene, &reader("seen")), "is not sealed with the key");
            if wrapped {
                let error = read(&scene, &reader("new")).unwrap_err();
                assert!(error.contains(reason), "{what}: {error}");
            }
            assert!(scene.try_seal(&reader("seen")).is_err(), "{what}");
        }
    }
    // Its holder may sign it, and replace the key.
    let scene = sealed_with(&|scene| scene.with_key("a"));
    let seen = scene.with_key("seen");
    assert_eq!(read(&scene, &seen), Ok(1));
    for number in [2, 3] {
        signed(&scene, number, &evil, &[&evil], None);
    }
    assert_eq!(read(&scene, &seen), Ok(3));
    let scene = sealed_with(&|scene| scene.with_key("a"));
    let mut seen = scene.with_key("seen");
    for machine in ["seen", "also"] {
        assert_eq!(read(&scene, &scene.with_key(machine)), Ok(1));
    }
    let run = &scene.run;
    let (tree, old) = (local(&scene), scene.with_key("a"));
    indexed::rekey(&tree, &run.run, &run.transfer, &old, Some(&key(8))).unwrap();
    seen.keychain.keys = vec![key(8)];
    assert_eq!(read(&scene, &seen), Ok(2));
    // Other machines have both keys, for the generations before.
    for machine in ["both", "also"] {
        let mut both = scene.with_key(machine);
        both.keychain.keys.push(key(8));
        assert_eq!(read(&scene, &both), Ok(2));
    }
}

#[test]
fn a_revoked_signer_is_believed_by_nobody() {
    let (scene, [good, bad]) = (Scene::new(), [(); 2].map(|()| OwnKey::generate().unwrap()));
    Forge::begin(&scene, &key(7));
    signed(&scene, 1, &good, &[&good, &bad], None);
    signed(&scene, 2, &good, &[&good], Some((&bad, 1)));
    signed(&scene, 3, &bad, &[&good, &bad], None);
    assert_refused(read(&scene, &scene.with_key("first")), "was revoked");
    let trust = Trust { signers: Some(vec![bad.public()]), ..Trust::default() };
    let told = SealedOptions { trust, ..scene.with_key("told") };
    assert_refused(read(&scene, &told), "was revoked");
    // Somebody who never might sign.
    signed(&scene, 3, &OwnKey::generate().unwrap(), &[&good], None);
    assert!(read(&scene, &scene.with_key("first")).is_err());
    let stranger = OwnKey::generate().unwrap();
    signed(&scene, 3, &stranger, &[&stranger], None);
    assert_refused(read(&scene, &scene.with_key("first")), "who may not sign");
    signed(&scene, 3, &good, &[&good], Some((&bad, 1)));
    assert_eq!(read(&scene, &scene.with_key("first")), Ok(3));
}

#[test]
fn a_generation_that_was_passed_over_is_not_read_by_its_number() {
    let (scene, [good, bad]) = (Scene::new(), [(); 2].map(|()| OwnKey::generate().unwrap()));
    Forge::begin(&scene, &key(7));
    signed(&scene, 1, &good, &[&good, &bad], None);
    signed(&scene, 2, &bad, &[&good, &bad], None);
    let seen = scene.with_key("seen");
    assert_eq!(read(&scene, &seen), Ok(2));
    let forge = Forge::of(&scene, &key(7));
    let (first, second) = (digest(&scene, 1), digest(&scene, 2));
    forge.publish_as(3, Vec::new(), Some(&good), |claim, body| {
        (claim.before, claim.skipped) = (Some(first.0), vec![(2, second.0)]);
        body.signers = signers(&[&good]);
        body.revoked = vec![(bad.public().wire().to_vec(), 1)];
        (body.entries, body.bytes) = (0, 0);
    });
    let at = SealedOptions { at: At::Number(2), ..seen.clone() };
    assert_refused(read(&scene, &seen), "was revoked");
    assert_refused(read(&scene, &at), "was revoked");
    assert_refused(
        read(&scene, &SealedOptions { at: At::Number(2), ..scene.with_key("new") }),
        "was passed over",
    );
    let (accepting, told) = rollback(&seen);
    assert_eq!(read(&scene, &accepting), Ok(3));
    assert_told(&told, &good.public().fingerprint());
    assert_eq!(read(&scene, &seen), Ok(3));
}

#[test]
fn a_restored_tree_goes_on_when_that_is_accepted() {
    let identity = Identity::generate();
    for kind in ["key", "recipient"] {
        let writer = |scene: &Scene| match kind {
            "key" => scene.with_key("a"),
            _ => SealedOptions {
                keychain: scene.with_identity(&identity, "a").keychain,
                ..scene.with_recipient(&identity, "a")
            },
        };
        let scene = sealed_with(&writer);
        let sealed = writer(&scene);
        next(&scene, &sealed, b"second");
        scene.copy("tree", "backup");
        assert_eq!(next(&scene, &sealed, b"third, which is lost"), 3);
        assert_eq!(next(&scene, &sealed, b"fourth, which is lost"), 4);
        scene.copy("backup", "tree");
        scene.write("y", b"after the restoration");
        let error = scene.try_seal(&sealed).unwrap_err().to_string();
        assert!(error.contains("--allow-rollback"), "{error}");
        let (accepting, told) = rollback(&sealed);
        let dry = SealedOptions { dry_run: true, ..accepting.clone() };
        scene.seal(&dry);
        assert!(scene.try_seal(&sealed).is_err());
        told.lock().unwrap().clear();
        assert_eq!(scene.seal(&accepting).1.generation, 3, "{kind}");
        assert_told(&told, "accepted generation 2");
        assert_eq!(next(&scene, &sealed, b"fourth"), 4);
        scene.open(&format!("out {kind}"), &sealed);
        scene.assert_same(&format!("out {kind}"));
    }
}

#[test]
fn what_is_accepted_must_be_signed_as_before() {
    let (scene, [good, bad]) = (Scene::new(), [(); 2].map(|()| OwnKey::generate().unwrap()));
    Forge::begin(&scene, &key(7));
    signed(&scene, 1, &good, &[&good, &bad], None);
    scene.copy("tree", "first");
    signed(&scene, 2, &good, &[&good], Some((&bad, 0)));
    let seen = scene.with_key("seen");
    assert_eq!(read(&scene, &seen), Ok(2));
    // A fork by somebody else.
    let evil = OwnKey::generate().unwrap();
    for signer in [&evil, &bad] {
        signed(&scene, 1, signer, &[signer], None);
        signed(&scene, 2, signer, &[signer], None);
        let (accepting, told) = rollback(&seen);
        assert!(read(&scene, &accepting).is_err());
        assert!(told.lock().unwrap().is_empty());
    }
    // An older generation brings no signer back.
    scene.copy("first", "tree");
    let (accepting, told) = rollback(&seen);
    assert_eq!(read(&scene, &accepting), Ok(1));
    assert_told(&told, "in place of generation 2");
    assert_eq!(read(&scene, &seen), Ok(1));
    signed(&scene, 2, &bad, &[&good, &bad], None);
    assert!(read(&scene, &seen).is_err());
    signed(&scene, 2, &good, &[&good], None);
    assert_eq!(read(&scene, &seen), Ok(2));
    // Another tree may have other signers, which is told.
    fs::remove_dir_all(scene.tree()).unwrap();
    Forge::begin(&scene, &key(7));
    signed(&scene, 1, &evil, &[&evil], None);
    let (accepting, told) = rollback(&seen);
    assert_eq!(read(&scene, &accepting), Ok(1));
    assert_told(&told, &evil.public().fingerprint());
    assert_eq!(read(&scene, &seen), Ok(1));
}
