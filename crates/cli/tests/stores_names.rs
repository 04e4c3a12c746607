//! The names under which a machine knows sealed trees in stores.

mod common;
mod scene;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::Ended;
use scene::Scene;
use scene::server::Server;

/// The names in this machine's state, sorted.
fn names(scene: &Scene) -> Vec<String> {
    let states = fs::read_dir(scene.fixture.state("trees")).into_iter().flatten().flatten();
    let name = |pin: PathBuf| {
        let text = fs::read_to_string(pin).ok()?;
        let (_, rest) = text.split_once("\"place\": \"")?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let mut names: Vec<_> =
        states.filter_map(|state| name(state.path().join("pin.json"))).collect();
    names.sort();
    names
}

/// Gives the only state another name, as an earlier version would have named it.
fn rename(scene: &Scene, old: &str, new: &str) {
    let all = scene.fixture.state("trees");
    let directory = |name: &str| -> PathBuf {
        let line = "printf %s \"$1\" | sha256sum";
        let hash = Command::new("sh").args(["-c", line, "sh", name]).output().unwrap().stdout;
        all.join(str::from_utf8(&hash[..32]).unwrap())
    };
    let pin = directory(old).join("pin.json");
    let text = fs::read_to_string(&pin).unwrap();
    fs::write(&pin, text.replace(old, new)).unwrap();
    // Its lock may be there still.
    let _ = fs::remove_dir_all(directory(new));
    fs::rename(directory(old), directory(new)).unwrap();
}

/// Runs a command whose endpoint is in an option alone.
fn with_option(scene: &Scene, status: i32, arguments: &[&str], endpoint: &str) -> Ended {
    let mut command = scene.command(&[arguments, &["--endpoint-url", endpoint]].concat());
    let ended = Ended::of(command.env_remove("AWS_ENDPOINT_URL").env("AWS_REGION", "us-east-1"));
    assert_eq!(ended.status, Some(status), "{arguments:?}: {}", ended.messages);
    ended
}

const SEAL: [&str; 6] = ["encrypt", "--sealed", "-k", "my.key", "tree", "s3://bucket/vault"];
const LIST: [&str; 4] = ["list", "-k", "my.key", "s3://bucket/vault"];

fn seal_twice(scene: &Scene) -> String {
    scene.expect(0, &SEAL);
    fs::write(scene.fixture.path("tree/more"), "more").unwrap();
    scene.expect(0, &SEAL);
    format!("s3://bucket/vault at 127.0.0.1:{}", scene.server.port)
}

/// Removes the newest generation from the store.
fn roll_back(scene: &Scene) {
    let roots = scene.server.bucket().join("vault/tree");
    let newest = fs::read_dir(roots).unwrap().map(|root| root.unwrap().path()).max().unwrap();
    fs::remove_file(newest).unwrap();
}

#[test]
fn a_tree_is_known_by_the_server_that_is_found() {
    let Some(scene) = Scene::new() else { return };
    let name = seal_twice(&scene);
    assert_eq!(names(&scene), [&*name]);
    let port = scene.server.port;
    with_option(&scene, 0, &LIST, &format!("http://127.0.0.1:{port}/"));
    let file = scene.fixture.path("config");
    fs::write(&file, format!("[profile p]\nendpoint_url = http://127.0.0.1:{port}\n")).unwrap();
    let mut command = scene.command(&LIST);
    command.env_remove("AWS_ENDPOINT_URL").env("AWS_CONFIG_FILE", file).env("AWS_PROFILE", "p");
    assert_eq!(Ended::of(&mut command).status, Some(0));
    assert_eq!(names(&scene), [&*name]);

    // A tree of the same address on another server is another tree.
    let Some(other) = Server::s3() else { return };
    let mut command = scene.command(&SEAL);
    let ended =
        Ended::of(command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", other.port)));
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    assert!(ended.messages.contains("generation 1"), "{}", ended.messages);
    scene.expect(0, &LIST);
    assert_eq!(names(&scene).len(), 2);
}

#[test]
fn emulators_are_told_apart() {
    for server in [Server::gcs(), Server::azure()].into_iter().flatten() {
        let scene = Scene::with(server);
        scene.expect(0, &["encrypt", "--sealed", "-k", "my.key", "tree", &scene.address("vault")]);
        let path = if scene.server.scheme == "az" { "/devstoreaccount1" } else { "" };
        let port = scene.server.port;
        let name = format!("{} at 127.0.0.1:{port}{path}", scene.address("vault"));
        assert_eq!(names(&scene), [name]);
    }
}

#[test]
fn what_an_earlier_version_noted_is_taken_over() {
    let Some(scene) = Scene::new() else { return };
    let name = seal_twice(&scene);
    let port = scene.server.port;
    for old in ["s3://bucket/vault", &format!("s3://bucket/vault at http://127.0.0.1:{port}/")] {
        rename(&scene, &name, old);
        // It goes on from the state of the files.
        let told = scene.expect(0, &SEAL).messages;
        assert!(told.contains("3 unchanged"), "{told}");
        assert_eq!(names(&scene), [&*name], "{old}");
    }
    rename(&scene, &name, "s3://bucket/vault");
    roll_back(&scene);
    let told = scene.expect(2, &LIST).messages;
    assert!(told.contains("generation 2"), "{told}");
}

#[test]
fn another_tree_than_an_earlier_version_noted_is_refused() {
    let Some(scene) = Scene::new() else { return };
    let name = seal_twice(&scene);
    rename(&scene, &name, "s3://bucket/vault");
    let vault = scene.server.bucket().join("vault");
    fs::rename(&vault, scene.server.bucket().join("elsewhere")).unwrap();
    let plain = ["encrypt", "-k", "my.key", "tree/one", "s3://bucket/vault"];
    for arguments in [&SEAL[..], &plain] {
        let told = scene.expect(2, arguments).messages;
        assert!(told.contains("`s3://bucket/vault`, and here is none"), "{told}");
        assert!(told.contains("--allow-rollback"), "{told}");
    }
    let told = scene.expect(0, &[&SEAL[..], &["--allow-rollback"]].concat()).messages;
    assert!(told.contains("is not here"), "{told}");
    // It is known still, and for other servers.
    assert_eq!(names(&scene), ["s3://bucket/vault", &*name]);
    scene.expect(0, &LIST);
}

#[test]
fn what_is_below_a_sealed_tree_is_refused() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &SEAL);
    let below = "s3://bucket/vault/data/x";
    let encrypt = ["encrypt", "-k", "my.key", "tree", below];
    let decrypt = ["decrypt", "-k", "my.key", below, "back"];
    for arguments in [&encrypt[..], &decrypt] {
        let told = scene.expect(2, arguments).messages;
        assert!(told.contains("a part of the sealed tree s3://bucket/vault"), "{told}");
    }
    scene.expect(0, &["encrypt", "-k", "my.key", "tree", "s3://bucket/vaults"]);
    for (into, is) in [("s3://bucket/vault", "a"), (below, "a part of the")] {
        let told = scene.expect(2, &["decrypt", "-k", "my.key", "s3://bucket/vaults", into]);
        assert!(told.messages.contains(&format!("{into} is {is} sealed tree")), "{told:?}");
    }
    let vault = scene.server.bucket().join("vault");
    fs::rename(&vault, scene.server.bucket().join("gone")).unwrap();
    for arguments in [&encrypt[..], &decrypt] {
        let told = scene.expect(2, arguments).messages;
        assert!(told.contains("evener: s3://bucket/vault: ") && told.contains("is gone"), "{told}");
    }
    scene.expect(0, &[&encrypt[..], &["--allow-rollback"]].concat());
    scene.expect(0, &["decrypt", "-k", "my.key", below, "back"]);
}
