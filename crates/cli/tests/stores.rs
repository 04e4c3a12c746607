//! Object stores as sources and targets of the program.

mod common;
mod scene;

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use common::{Ended, RECIPIENT};
use scene::Scene;

#[test]
fn a_tree_goes_there_and_back() {
    let Some(scene) = Scene::new() else { return };
    let told = scene.expect(0, &["encrypt", "-k", "my.key", "tree", "s3://bucket/a b"]).messages;
    assert!(told.starts_with("evener: encrypted 2 files, 293.0 KiB in "), "{told}");
    assert!(scene.server.bucket().join("a b/deep/two.enc").is_file());
    scene.expect(0, &["verify", "-k", "my.key", "--bandwidth", "10M", "s3://bucket/a b"]);
    let listed = scene.expect(0, &["list", "-k", "my.key", "s3://bucket/a b/"]).output;
    let listed = String::from_utf8(listed).unwrap();
    assert!(listed.contains("cobblestone-256  s3://bucket/a b/deep/two.enc"), "{listed}");
    scene.expect(0, &["decrypt", "-k", "my.key", "s3://bucket/a b", "back"]);
    scene.expect(0, &["decrypt", "-k", "my.key", "s3://bucket/a b", "part", "--only", "one"]);
    assert_eq!(scene.fixture.names("part"), ["one"]);
    for file in ["one", "deep/two"] {
        let [plain, back] = ["tree", "back"].map(|it| scene.fixture.path(it).join(file));
        assert_eq!(fs::read(&plain).unwrap(), fs::read(&back).unwrap());
        let time = |path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(time(&plain), time(&back));
    }
    let printed = scene.expect(0, &["cat", "-k", "my.key", "s3://bucket/a b", "one"]).output;
    assert_eq!(printed, b"the first file");
    let two = ["cat", "-k", "my.key", "--offset", "299990", "s3://bucket/a b/deep/two.enc"];
    assert_eq!(scene.expect(0, &two).output, [7; 10]);
}

#[test]
fn a_file_goes_below_a_prefix_and_an_object_into_a_directory() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &["encrypt", "-k", "my.key", "tree/one", "s3://bucket/x/y"]);
    assert!(scene.server.bucket().join("x/y/one.enc").is_file());
    scene.expect(0, &["decrypt", "-k", "my.key", "s3://bucket/x/y/one.enc", "back"]);
    assert_eq!(fs::read(scene.fixture.path("back/one")).unwrap(), b"the first file");
}

#[test]
fn from_store_to_store() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &["encrypt", "-k", "my.key", "tree", "s3://bucket/a"]);
    scene.expect(0, &["decrypt", "-k", "my.key", "s3://bucket/a", "s3://bucket/b"]);
    let two = fs::read(scene.server.bucket().join("b/deep/two")).unwrap();
    assert!(two == fs::read(scene.fixture.path("tree/deep/two")).unwrap());
    for target in ["s3://bucket/a", "s3://bucket/a/below", "s3://bucket"] {
        let told = scene.expect(2, &["encrypt", "-k", "my.key", "s3://bucket/a", target]).messages;
        assert!(told.contains("overlap"), "{told}");
    }
}

#[test]
fn age_files_and_recipients() {
    let Some(scene) = Scene::new() else { return };
    let encrypt = ["encrypt", "--format", "age", "-r", RECIPIENT, "tree", "s3://bucket/a"];
    scene.expect(0, &encrypt);
    assert!(scene.server.bucket().join("a/one.age").is_file());
    scene.expect(0, &["decrypt", "-i", "identity", "s3://bucket/a", "back"]);
    assert_eq!(fs::read(scene.fixture.path("back/one")).unwrap(), b"the first file");
    scene.expect(0, &["verify", "-i", "identity", "s3://bucket/a"]);
    scene.expect(0, &["list", "-i", "identity", "s3://bucket/a"]);
    for arguments in [&["s3://bucket/a/one.age"][..], &["s3://bucket/a", "one"]] {
        let read = scene.expect(0, &[&["cat", "-i", "identity"], arguments].concat());
        assert_eq!(read.output, b"the first file");
    }
}

#[test]
fn a_dry_run_finds_that_there_is_no_bucket() {
    let Some(scene) = Scene::new() else { return };
    let encrypt = ["encrypt", "--dry-run", "-k", "my.key", "tree"];
    let told = scene.expect(2, &[&encrypt[..], &["s3://none/a"]].concat()).messages;
    assert!(told.contains("s3://none/a: ") && told.contains("NoSuchBucket"), "{told}");
    scene.expect(0, &[&encrypt[..], &["s3://bucket/a"]].concat());
}

#[test]
fn too_little_memory_is_told_of_the_source() {
    let Some(scene) = Scene::new() else { return };
    let encrypt = ["encrypt", "-k", "my.key", "--memory", "1M", "tree", "s3://bucket/a"];
    let told = scene.expect(2, &encrypt).messages;
    assert!(told.starts_with("evener: tree: the buffers"), "{told}");
}

#[test]
fn all_generations_of_a_tree_have_one_passphrase() {
    let Some(scene) = Scene::new() else { return };
    scene.fixture.secret("right", "a long enough passphrase\n");
    scene.fixture.secret("wrong", "another long passphrase\n");
    let seal = |status, file| {
        let arguments = ["encrypt", "--sealed", "--passphrase-file", file, "tree", "s3://bucket/s"];
        scene.expect(status, &arguments)
    };
    seal(0, "right");
    fs::write(scene.fixture.path("tree/new"), "new").unwrap();
    sleep(Duration::from_millis(60));
    let told = seal(2, "wrong").messages;
    assert!(told.contains("s3://bucket/s/keys/"), "{told}");
    seal(0, "right");
    let decrypt = ["decrypt", "--passphrase-file", "right", "s3://bucket/s", "back"];
    scene.expect(0, &decrypt);
    scene.fixture.assert_same_tree("tree", "back");
}

#[test]
fn what_does_not_go_with_a_store_is_refused() {
    let Some(scene) = Scene::new() else { return };
    let refused = |arguments: &[&str], reason: &str| {
        let told = scene.expect(2, arguments).messages;
        assert!(told.contains(reason), "{arguments:?}: {told}");
    };
    let to = ["encrypt", "-k", "my.key", "tree", "s3://bucket/a"];
    refused(&[&to[..], &["--remove-source"]].concat(), "--remove-source");
    refused(&[&to[..], &["--update", "--delete", "--yes"]].concat(), "from directories only");
    refused(&[&to[..], &["--update", "--delete"]].concat(), "from directories only");
    refused(&["encrypt", "-k", "my.key", "tree", "my.key", "s3://bucket/a"], "one by one");
    refused(&["encrypt", "-k", "my.key", "tree", "s3://"], "names no bucket");
    refused(&["encrypt", "-k", "my.key", "-", "s3://bucket/a"], "pipe");
    refused(&["verify", "-k", "my.key", "--requests", "3", "tree"], "--requests");
    refused(&["verify", "-k", "my.key", "--bandwidth", "1M", "tree"], "--bandwidth");
    refused(&["verify", "-k", "my.key", "--bandwidth", "0", "s3://bucket/a"], "nothing would move");
    refused(&["verify", "-k", "my.key", "--requests", "0", "s3://bucket/a"], "1 to 1024");
    let told = scene.expect(1, &["verify", "-k", "my.key", "s3://bucket/none"]).messages;
    assert!(told.contains("nothing was found"), "{told}");
    refused(&["decrypt", "-k", "my.key", "s3://bucket/a/one.enc", "-"], "evener cat");
    for target in ["S3://bucket/a", "s3:bucket/a", "s3:/bucket/a", "gcs://bucket/a", "https://x/a"]
    {
        refused(&["encrypt", "-k", "my.key", "tree", target], "an address begins with s3://");
    }
    // A path that looks like an address is one with `./` before it.
    scene.expect(0, &["encrypt", "-k", "my.key", "tree", "./s3:"]);
    assert!(scene.fixture.path("s3:/one.enc").is_file());
}

#[test]
fn directories_that_are_left_out_are_not_empty() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir(scene.fixture.path("tree/temporary")).unwrap();
    fs::write(scene.fixture.path("tree/temporary/a.tmp"), "a").unwrap();
    let encrypt = ["encrypt", "-k", "my.key", "--exclude", "*.tmp", "tree", "s3://bucket/a"];
    scene.expect(0, &encrypt);
    fs::remove_file(scene.fixture.path("tree/temporary/a.tmp")).unwrap();
    let told = scene.expect(1, &["encrypt", "-k", "my.key", "tree", "s3://bucket/b"]).messages;
    assert!(told.contains("tree/temporary: it is empty"), "{told}");
}

#[test]
fn a_part_of_a_tree_is_listed() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &["encrypt", "-k", "my.key", "tree", "s3://bucket/a"]);
    let listed = |arguments: &[&str]| {
        let ended = scene.expect(0, &[&["list", "s3://bucket/a"], arguments].concat());
        String::from_utf8(ended.output).unwrap().lines().count() - 1
    };
    assert_eq!(listed(&["--only", "deep"]), 1);
    assert_eq!(listed(&["--exclude", "deep"]), 1);
    let told = scene.expect(0, &["list", "s3://bucket/a", "--exclude", "none"]).messages;
    assert!(told.contains("matches nothing here"), "{told}");
}

#[test]
fn names_that_no_list_can_have_are_refused() {
    let Some(scene) = Scene::new() else { return };
    fs::write(scene.fixture.path("tree/\u{fffe}"), "").unwrap();
    let told = scene.expect(1, &["encrypt", "-k", "my.key", "tree", "s3://bucket/a"]).messages;
    assert!(told.contains("U+FFFE"), "{told}");
    scene.expect(0, &["verify", "-k", "my.key", "s3://bucket/a"]);
}

/// Every command, as far as it reads a tree.
fn readers(tree: &str) -> [Vec<&str>; 9] {
    [
        vec!["list", tree],
        vec!["list", "-k", "my.key", tree],
        vec!["verify", "-k", "my.key", tree],
        vec!["decrypt", "-k", "my.key", tree, "back"],
        vec!["cat", "-k", "my.key", tree, "one"],
        vec!["clean", "-k", "my.key", "--keep", "1", tree],
        vec!["diff", "-k", "my.key", tree, "tree"],
        vec!["rewrap", "-i", "identity", "-r", RECIPIENT, tree],
        vec!["encrypt", "-k", "my.key", "tree", tree],
    ]
}

#[test]
fn errors_name_the_address() {
    let Some(scene) = Scene::new() else { return };
    for arguments in readers("s3://none/a") {
        let told = Ended::of(&mut scene.command(&arguments)).messages;
        assert!(told.contains("s3://none/a"), "{arguments:?}: {told}");
        assert!(!told.contains(": :"), "{arguments:?}: {told}");
    }
    for arguments in readers("s3://bucket/a") {
        let mut command = scene.command(&arguments);
        let told = Ended::of(command.env("AWS_ACCESS_KEY_ID", "another")).messages;
        assert!(told.contains("s3://bucket/a") && !told.contains("``"), "{arguments:?}: {told}");
        let mut command = scene.command(&arguments);
        let told = Ended::of(command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")).messages;
        let reason = "no server listens at http://127.0.0.1:1";
        let is_clear = told.contains("s3://bucket/a") && told.contains(reason);
        assert!(is_clear && !told.contains(": :"), "{arguments:?}: {told}");
    }
}

#[test]
fn credentials_that_are_not_there_are_named() {
    let Some(scene) = Scene::new() else { return };
    scene.fixture.secret("empty.json", "{}");
    let told = |address: &str, name: &str, value: &str| {
        let mut command = scene.command(&["list", address]);
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        let ended = Ended::of(command.env(name, value));
        assert_eq!(ended.status, Some(2), "{}", ended.messages);
        ended.messages
    };
    let google = "GOOGLE_APPLICATION_CREDENTIALS";
    let missing = told("gs://bucket/a", google, "missing.json");
    let expected =
        format!("evener: gs://bucket/a: {google} names missing.json, which can't be read");
    assert!(missing.starts_with(&expected), "{missing}");
    let empty = told("gs://bucket/a", google, "empty.json");
    assert!(empty.contains("empty.json, which has no credentials"), "{empty}");
    let profile = told("s3://bucket/a", "AWS_PROFILE", "nobody");
    assert!(profile.contains("s3://bucket/a: there is no profile `nobody`"), "{profile}");
}
