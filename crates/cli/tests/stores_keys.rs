//! Wrapped keys beside plain objects.

mod common;
#[path = "../../object/tests/common/proxy.rs"]
#[allow(dead_code, unreachable_pub, reason = "this test uses some of it")]
mod proxy;
mod scene;

use std::fs;

use age::secrecy::ExposeSecret as _;
use common::{Ended, RECIPIENT};
use proxy::{Act, Proxy};
use scene::Scene;

/// Makes the identity `other`, and returns its recipient.
fn other(scene: &Scene) -> String {
    let other = age::x25519::Identity::generate();
    scene.fixture.secret("other", other.to_string().expose_secret());
    other.to_public().to_string()
}

#[test]
fn the_key_of_a_tree_lies_beside_its_objects() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "s3://bucket/a/b"]);
    let names = || {
        let found = fs::read_dir(scene.server.bucket().join("a/b")).unwrap();
        let mut names: Vec<_> = found.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["deep", "evener-key.age", "one.enc"]);
    let with = |arguments: &[&str]| {
        scene.expect(0, &[&arguments[..1], &["-i", "identity"], &arguments[1..]].concat())
    };
    with(&["verify", "s3://bucket/a/b"]);
    let told = with(&["decrypt", "s3://bucket/a/b", "back"]).messages;
    assert!(
        told.starts_with("evener: decrypted 2 files, ") && !told.contains("left out"),
        "{told}"
    );
    scene.fixture.assert_same_tree("tree", "back");
    assert_eq!(with(&["cat", "s3://bucket/a/b", "one"]).output, b"the first file");
    assert_eq!(with(&["cat", "s3://bucket/a/b/one.enc"]).output, b"the first file");
    let listed = String::from_utf8(with(&["list", "s3://bucket/a/b"]).output).unwrap();
    assert!(listed.contains("one.enc"), "{listed}");
    // Evener does not use a key in a prefix further up.
    let told = scene.expect(2, &["verify", "-i", "identity", "s3://bucket/a/b/deep"]).messages;
    assert!(told.contains("no wrapped key (evener-key.age) in s3://bucket/a/b/deep"), "{told}");
    scene.expect(2, &["verify", "-i", "identity", "s3://bucket/a"]);
}

#[test]
fn later_runs_use_the_key_that_this_user_has_made() {
    let Some(scene) = Scene::new() else { return };
    let target = "s3://bucket/a";
    let encrypt = ["encrypt", "-r", RECIPIENT, "-i", "identity", "tree", target];
    let run = |status, more: &[&str]| scene.expect(status, &[&encrypt[..], more].concat()).messages;
    run(0, &[]);
    fs::write(scene.fixture.path("tree/new"), "new").unwrap();
    let told = run(0, &["--update"]);
    assert!(told.contains("encrypts with the key in s3://bucket/a/evener-key.age"), "{told}");
    assert!(told.contains("2 unchanged"), "{told}");
    fs::write(scene.fixture.path("tree/newer"), "newer").unwrap();
    let told = run(0, &["--resume"]);
    assert!(told.contains("encrypted 1 file, 5 B"), "{told}");
    let key = |number| scene.server.bucket().join(format!("a/evener-key{number}.age")).exists();
    assert!(key("") && !key("-2"));
    scene.expect(0, &["decrypt", "-i", "identity", target, "back"]);
    scene.fixture.assert_same_tree("tree", "back");

    // Without its identity, Evener makes a second key, and removes it if it encrypted nothing.
    let again = ["encrypt", "-r", RECIPIENT, "tree", target];
    scene.expect(1, &again);
    assert!(!key("-2"));
    let told = scene.expect(2, &[&again[..], &["--update"]].concat()).messages;
    assert!(told.contains("goes on with the key in s3://bucket/a/evener-key.age"), "{told}");
    fs::write(scene.fixture.path("tree/newest"), "newest").unwrap();
    scene.expect(0, &[&again[..], &["--resume"]].concat());
    assert!(key("-2"));
    scene.expect(0, &["decrypt", "-i", "identity", target, "whole"]);
    scene.fixture.assert_same_tree("tree", "whole");
}

#[test]
fn a_key_from_another_place_encrypts_nothing() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "s3://bucket/a"]);
    let bucket = scene.server.bucket();
    fs::create_dir(bucket.join("b")).unwrap();
    fs::copy(bucket.join("a/evener-key.age"), bucket.join("b/evener-key.age")).unwrap();
    let encrypt = ["encrypt", "-r", RECIPIENT, "-i", "identity", "tree", "s3://bucket/b"];
    let told = scene.expect(0, &encrypt).messages;
    assert!(told.contains("leaves s3://bucket/b/evener-key.age alone"), "{told}");
    assert!(bucket.join("b/evener-key-2.age").exists());
}

#[test]
fn a_passphrase_and_a_single_file() {
    let Some(scene) = Scene::new() else { return };
    scene.fixture.secret("right", "a long enough passphrase\n");
    let encrypt = ["encrypt", "--passphrase-file", "right", "tree/one", "s3://bucket/notes"];
    scene.expect(0, &encrypt);
    let bucket = scene.server.bucket();
    assert!(bucket.join("notes/one.enc.evener-key.age").exists());
    let one = "s3://bucket/notes/one.enc";
    let printed = scene.expect(0, &["cat", "--passphrase-file", "right", one]).output;
    assert_eq!(printed, b"the first file");
    scene.expect(0, &["decrypt", "--passphrase-file", "right", one, "back"]);
    assert_eq!(fs::read(scene.fixture.path("back/one")).unwrap(), b"the first file");
    // It is the key of that file alone.
    scene.expect(2, &["verify", "--passphrase-file", "right", "s3://bucket/notes"]);
}

#[test]
fn keys_are_wrapped_for_others() {
    let Some(scene) = Scene::new() else { return };
    let other = &*other(&scene);
    scene.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "s3://bucket/a"]);
    scene.expect(0, &["encrypt", "-r", RECIPIENT, "tree/one", "s3://bucket/notes"]);
    let key = |name: &str| scene.server.bucket().join(name).exists();
    for (address, first) in
        [("s3://bucket/a", "a/"), ("s3://bucket/notes/one.enc", "notes/one.enc.")]
    {
        let rewrap = ["rewrap", "-r", other, "-i", "identity", address];
        // Nothing opens the new one, so the old one stays.
        let told = scene.expect(0, &rewrap).messages;
        assert!(told.contains("so the old ones stay (1)"), "{told}");
        scene.expect(0, &["verify", "-i", "identity", address]);
        let told = scene.expect(0, &[&rewrap[..], &["-i", "other"]].concat()).messages;
        assert!(
            told.contains("1 key wrapped for these recipients; 2 old wrappings removed"),
            "{told}"
        );
        scene.expect(0, &["verify", "-i", "other", address]);
        scene.expect(2, &["verify", "-i", "identity", address]);
        assert!(
            !key(&format!("{first}evener-key.age")) && key(&format!("{first}evener-key-3.age"))
        );
    }
    let told =
        scene.expect(2, &["rewrap", "-r", other, "-i", "identity", "s3://bucket/b"]).messages;
    assert!(told.contains("s3://bucket/b has no wrapped key (evener-key.age)"), "{told}");
    // The key goes on to be used.
    let update = ["encrypt", "-r", other, "-i", "other", "--update", "tree", "s3://bucket/a"];
    let told = scene.expect(0, &update).messages;
    assert!(told.contains("encrypts with the key in s3://bucket/a/evener-key-3.age"), "{told}");
}

/// Runs a command through a proxy in front of the server.
fn through(scene: &Scene, proxy: &Proxy, arguments: &[&str]) -> Ended {
    let endpoint = format!("http://127.0.0.1:{}", proxy.port);
    Ended::of(scene.command(arguments).env("AWS_ENDPOINT_URL", endpoint))
}

#[test]
fn a_store_that_takes_every_name_of_a_key_gets_none() {
    let Some(scene) = Scene::new() else { return };
    let proxy = Proxy::new(scene.server.port, |request| match &*request.method {
        _ if !request.target.contains("evener-key") => Act::Pass,
        "PUT" => Act::Answer(412),
        "HEAD" => Act::Answer(200),
        _ => Act::Pass,
    });
    let encrypt = ["encrypt", "-r", RECIPIENT, "tree", "s3://bucket/a"];
    let ended = through(&scene, &proxy, &encrypt);
    assert_eq!(ended.status, Some(2), "{}", ended.messages);
    assert!(ended.messages.contains("a/evener-key-20.age"), "{}", ended.messages);
}

#[test]
fn foreign_keys_take_a_request_each() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &["encrypt", "-r", &other(&scene), "tree", "s3://bucket/b"]);
    scene.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "s3://bucket/a"]);
    let bucket = scene.server.bucket();
    let proxy = Proxy::new(scene.server.port, |_| Act::Pass);
    let requests = || {
        let before = proxy.requests();
        let ended = through(&scene, &proxy, &["verify", "-i", "identity", "s3://bucket/a"]);
        assert_eq!(ended.status, Some(0), "{}", ended.messages);
        proxy.requests() - before
    };
    let without = requests();
    for number in 2..52 {
        let key = bucket.join(format!("a/evener-key-{number}.age"));
        fs::copy(bucket.join("b/evener-key.age"), key).unwrap();
    }
    // Slow ones are raced by a second one.
    let more = requests() - without;
    assert!(more < 80, "{more}");
}
