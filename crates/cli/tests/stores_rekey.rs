//! New keys for plain objects.

mod common;
mod scene;

use std::fs;

use age::secrecy::ExposeSecret as _;
use common::RECIPIENT;
use scene::Scene;
use scene::server::Server;

#[test]
fn objects_get_a_named_key() {
    for server in [Server::s3(), Server::gcs(), Server::azure()].into_iter().flatten() {
        let scene = Scene::with(server);
        let address = scene.address("a");
        // More than a part.
        fs::write(scene.fixture.path("tree/long"), vec![8; 9 << 20]).unwrap();
        scene.expect(0, &["keygen", "-o", "new.key"]);
        scene.expect(0, &["encrypt", "-k", "my.key", "tree", &address]);
        let rekey = ["rekey", "-k", "my.key", "--new-key", "new.key"];
        let one = format!("{address}/one.enc");
        let told = scene.expect(0, &[&rekey[..], &[&one]].concat()).messages;
        assert!(told.starts_with("evener: rekeyed 1 file, 14 B"), "{told}");
        let told = scene.expect(0, &[&rekey[..], &["-n", &address]].concat()).messages;
        assert!(told.contains("would rekey 2 files"), "{told}");
        let told = scene.expect(0, &[&rekey[..], &[&address]].concat()).messages;
        assert!(told.starts_with("evener: rekeyed 2 files"), "{told}");
        assert!(told.contains("; 1 under the new key already"), "{told}");
        scene.expect(2, &["verify", "-k", "my.key", &address]);
        scene.expect(0, &["decrypt", "-k", "new.key", &address, "back"]);
        scene.fixture.assert_same_tree("tree", "back");
        // All that an update compares is kept.
        let update = ["encrypt", "-k", "new.key", "--update", "tree", &address];
        let told = scene.expect(0, &update).messages;
        assert!(told.contains("; 3 unchanged"), "{told}");
    }
}

#[test]
fn objects_get_a_key_for_others() {
    let Some(scene) = Scene::new() else { return };
    let other = age::x25519::Identity::generate();
    scene.fixture.secret("other", other.to_string().expose_secret());
    let other = &*other.to_public().to_string();
    scene.expect(0, &["encrypt", "-r", RECIPIENT, "tree", "s3://bucket/a"]);
    scene.expect(0, &["encrypt", "-r", RECIPIENT, "tree/one", "s3://bucket/notes"]);
    for (address, stem) in
        [("s3://bucket/a", "a/"), ("s3://bucket/notes/one.enc", "notes/one.enc.")]
    {
        let rekey = ["rekey", "-i", "identity", "-r", other, address];
        let told = scene.expect(2, &rekey).messages;
        assert!(told.contains("nothing given opens the new wrapped key"), "{told}");
        scene.expect(0, &[&rekey[..], &["-i", "other"]].concat());
        scene.expect(0, &["verify", "-i", "other", address]);
        scene.expect(2, &["verify", "-i", "identity", address]);
        let key = |number| scene.server.bucket().join(format!("{stem}evener-key{number}.age"));
        assert!(!key("").exists() && key("-2").exists());
    }
    let update = ["encrypt", "-r", other, "-i", "other", "--update", "tree", "s3://bucket/a"];
    let told = scene.expect(0, &update).messages;
    assert!(told.contains("encrypts with the key in s3://bucket/a/evener-key-2.age"), "{told}");
    assert!(told.contains("; 2 unchanged"), "{told}");
    let told = scene.expect(2, &["rekey", "-k", "my.key", "--new-key", "my.key", "s3://bucket/a"]);
    assert!(told.messages.contains("the new key is the one"), "{}", told.messages);
    scene.expect(0, &["keygen", "-o", "new.key"]);
    let told =
        scene.expect(1, &["rekey", "-k", "my.key", "--new-key", "new.key", "s3://bucket/no"]);
    assert!(told.messages.contains("nothing was rekeyed"), "{}", told.messages);
}
