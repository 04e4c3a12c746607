//! Sealed trees in a store of each protocol.

mod common;
mod scene;

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use age::secrecy::ExposeSecret as _;
use common::{Ended, RECIPIENT};
use scene::{Scene, server::Server};

#[test]
fn sealed_trees_in_s3() {
    let Some(server) = Server::s3() else { return };
    lives_a_whole_life(&Scene::with(server));
}

#[test]
fn sealed_trees_in_google_cloud_storage() {
    let Some(server) = Server::gcs() else { return };
    lives_a_whole_life(&Scene::with(server));
}

#[test]
fn sealed_trees_in_azure_blob_storage() {
    let Some(server) = Server::azure() else { return };
    lives_a_whole_life(&Scene::with(server));
}

fn lives_a_whole_life(scene: &Scene) {
    // More than a part, so that an upload has several.
    fs::write(scene.fixture.path("tree/deep/long"), vec![8; 9 << 20]).unwrap();
    has_generations_and_is_cleaned(scene, &scene.address("life"));
    is_wrapped_for_others(scene, &scene.address("life"));
    has_a_new_key(scene, &scene.address("life"));
}

/// Runs a command with the first recipient's identity.
#[track_caller]
fn with_identity(scene: &Scene, arguments: &[&str]) -> Ended {
    scene.expect(0, &[&arguments[..1], &["-i", "identity"], &arguments[1..]].concat())
}

fn has_generations_and_is_cleaned(scene: &Scene, tree: &str) {
    let seal = ["encrypt", "--sealed", "-r", RECIPIENT, "tree", tree];
    sleep(Duration::from_millis(60));
    let told = scene.expect(0, &seal).messages;
    assert!(told.contains("; generation 1\n"), "{told}");
    fs::write(scene.fixture.path("tree/new"), "new").unwrap();
    sleep(Duration::from_millis(60));
    let told = scene.expect(0, &seal).messages;
    assert!(told.starts_with("evener: sealed 1 file, 3 B in "), "{told}");
    assert!(told.contains("; 3 unchanged; generation 2\n"), "{told}");
    let with = |arguments: &[&str]| with_identity(scene, arguments);
    let told = with(&["verify", tree]).messages;
    assert!(told.contains("verified 4 files"), "{told}");
    with(&["verify", "--quick", tree]);
    let listed = String::from_utf8(with(&["list", tree, "deep"]).output).unwrap();
    assert!(listed.contains("300000") && !listed.contains("new"), "{listed}");
    with(&["decrypt", tree, "back"]);
    scene.fixture.assert_same_tree("tree", "back");
    with(&["decrypt", "--generation", "1", tree, "first", "deep"]);
    assert_eq!(scene.fixture.names("first"), ["deep"]);
    assert_eq!(with(&["cat", tree, "new"]).output, b"new");
    let told = String::from_utf8(with(&["clean", "--keep", "1", tree]).output).unwrap();
    assert!(told.contains("removed 1 generation"), "{told}");
    with(&["verify", tree]);
    assert_eq!(with(&["diff", tree, "tree"]).output, b"");
}

fn is_wrapped_for_others(scene: &Scene, tree: &str) {
    let other = age::x25519::Identity::generate();
    scene.fixture.secret("other", other.to_string().expose_secret());
    let recipient = other.to_public().to_string();
    let rewrap = ["rewrap", "-r", &recipient, "-i", "identity", "-i", "other", tree];
    let told = scene.expect(0, &rewrap).messages;
    assert!(told.contains("wrapped for these recipients"), "{told}");
    scene.expect(0, &["verify", "-i", "other", tree]);
    scene.expect(2, &["verify", "-i", "identity", tree]);
    // And back.
    scene.expect(0, &["rewrap", "-r", RECIPIENT, "-i", "identity", "-i", "other", tree]);
}

fn has_a_new_key(scene: &Scene, tree: &str) {
    scene.expect(0, &["keygen", "-o", "new.key"]);
    let rekey = ["rekey", "-i", "identity", "--new-key", "new.key", tree];
    let told = scene.expect(0, &rekey).messages;
    assert!(told.starts_with("evener: sealed 4 files"), "{told}");
    scene.expect(2, &["verify", "-i", "identity", tree]);
    scene.expect(0, &["verify", "-k", "new.key", tree]);
    scene.expect(0, &["decrypt", "-k", "new.key", tree, "with a new key"]);
    scene.fixture.assert_same_tree("tree", "with a new key");
}

#[test]
fn objects_are_sealed_and_no_tree_is_in_its_source() {
    let Some(scene) = Scene::new() else { return };
    for name in ["a", "b/deep", "b-", "c"] {
        let put = ["-X", "PUT", "--data-binary", name];
        scene.server.ask_s3(&put, &format!("bucket/plain/{name}"));
    }
    let seal = |status, target| {
        let ends = ["encrypt", "--sealed", "-k", "my.key", "s3://bucket/plain", target];
        scene.expect(status, &ends).messages
    };
    let told = seal(0, "s3://bucket/sealed");
    assert!(told.contains("sealed 4 files"), "{told}");
    scene.expect(0, &["decrypt", "-k", "my.key", "s3://bucket/sealed", "back"]);
    assert_eq!(fs::read(scene.fixture.path("back/b/deep")).unwrap(), b"b/deep");
    for target in ["s3://bucket/plain/sealed", "s3://bucket"] {
        let told = seal(2, target);
        assert!(told.contains("overlap"), "{told}");
    }
    for target in ["s3://bucket/sealed", "s3://bucket/sealed/below", "s3://bucket"] {
        let decrypt = ["decrypt", "-k", "my.key", "s3://bucket/sealed", target];
        let told = scene.expect(2, &decrypt).messages;
        assert!(told.contains("overlap"), "{told}");
    }
}
