//! Updates and dry runs of plain trees in object stores.

mod common;
mod scene;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;

use scene::Scene;

const ENCRYPT: [&str; 5] = ["encrypt", "-k", "my.key", "tree", "s3://bucket/a"];

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, more].concat()
}

#[test]
fn an_update_stores_what_is_new_or_has_changed() {
    let Some(scene) = Scene::new() else { return };
    let update = with(&ENCRYPT, &["--update"]);
    let tell = |status, arguments: &[&str]| scene.expect(status, arguments).messages;
    let told = tell(0, &update);
    assert!(told.starts_with("evener: encrypted 2 files, "), "{told}");
    let told = tell(0, &update);
    assert!(
        told.contains("encrypted 0 files, 0 B in ") && told.contains("; 2 unchanged\n"),
        "{told}"
    );

    let one = scene.fixture.path("tree/one");
    fs::write(&one, "another first file").unwrap();
    fs::write(scene.fixture.path("tree/new"), "new").unwrap();
    let planned = tell(0, &with(&update, &["--dry-run"]));
    assert!(planned.contains("would encrypt 2 files, 21 B; 1 to update; 1 unchanged"), "{planned}");
    let told = tell(0, &update);
    assert!(told.contains("encrypted 2 files, 21 B") && told.contains("1 updated"), "{told}");
    assert!(told.contains("1 unchanged"), "{told}");
    let printed = scene.expect(0, &["cat", "-k", "my.key", "s3://bucket/a", "one"]).output;
    assert_eq!(printed, b"another first file");

    // Same length, and the time set back.
    let time = fs::metadata(&one).unwrap().modified().unwrap();
    fs::write(&one, "ANOTHER FIRST FILE").unwrap();
    File::options().write(true).open(&one).unwrap().set_modified(time).unwrap();
    let told = tell(0, &with(&update, &["--ignore-ctime"]));
    assert!(told.contains("3 unchanged"), "{told}");
    let told = tell(0, &update);
    assert!(told.contains("1 updated"), "{told}");
    let printed = scene.expect(0, &["cat", "-k", "my.key", "s3://bucket/a", "one"]).output;
    assert_eq!(printed, b"ANOTHER FIRST FILE");

    fs::set_permissions(&one, Permissions::from_mode(0o640)).unwrap();
    let told = tell(0, &with(&update, &["--ignore-ctime"]));
    assert!(told.contains("1 updated"), "{told}");
    scene.expect(0, &["decrypt", "-k", "my.key", "s3://bucket/a", "back"]);
    scene.fixture.assert_same_tree("tree", "back");
}

#[test]
fn an_update_replaces_nothing_of_another_key() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &ENCRYPT);
    scene.expect(0, &["keygen", "-o", "other.key"]);
    fs::write(scene.fixture.path("tree/one"), "another first file").unwrap();
    let other = ["encrypt", "--update", "-k", "other.key", "tree", "s3://bucket/a"];
    let told = scene.expect(1, &other).messages;
    assert!(told.contains("one.enc"), "{told}");
    scene.expect(0, &["verify", "-k", "my.key", "s3://bucket/a"]);
    scene.expect(0, &with(&other, &["--overwrite"]));
    scene.expect(0, &["verify", "-k", "other.key", "s3://bucket/a"]);
}

#[test]
fn decrypted_trees_are_updated_unless_they_are_newer() {
    let Some(scene) = Scene::new() else { return };
    scene.expect(0, &ENCRYPT);
    let decrypt = ["decrypt", "--update", "-k", "my.key", "s3://bucket/a", "back"];
    scene.expect(0, &decrypt);
    let told = scene.expect(0, &decrypt).messages;
    assert!(told.contains("2 unchanged"), "{told}");
    fs::write(scene.fixture.path("tree/one"), "another first file").unwrap();
    scene.expect(0, &with(&ENCRYPT, &["--update"]));
    let told = scene.expect(0, &decrypt).messages;
    assert!(told.contains("1 updated") && told.contains("1 unchanged"), "{told}");
    let one = scene.fixture.path("back/one");
    assert_eq!(fs::read(&one).unwrap(), b"another first file");
    fs::write(&one, "a newer one").unwrap();
    let told = scene.expect(1, &decrypt).messages;
    assert!(told.contains("one") && told.contains("newer"), "{told}");
    assert_eq!(fs::read(&one).unwrap(), b"a newer one");
}

#[test]
fn a_dry_run_writes_nothing_and_tells_what_is_in_the_way() {
    let Some(scene) = Scene::new() else { return };
    let plan = with(&ENCRYPT, &["--dry-run"]);
    let told = scene.expect(0, &plan).messages;
    assert!(told.contains("would encrypt 2 files"), "{told}");
    assert!(!scene.server.bucket().join("a").exists());
    scene.expect(0, &ENCRYPT);
    let told = scene.expect(1, &plan).messages;
    assert!(told.contains("one") && told.contains("exists"), "{told}");
    let told = scene.expect(0, &with(&plan, &["--overwrite"])).messages;
    assert!(told.contains("would encrypt 2 files"), "{told}");

    let decrypt = ["decrypt", "--dry-run", "-k", "my.key", "s3://bucket/a", "back"];
    let told = scene.expect(0, &decrypt).messages;
    assert!(told.contains("would decrypt 2 files"), "{told}");
    assert!(!scene.fixture.path("back").exists());
    scene.expect(0, &["keygen", "-o", "other.key"]);
    let other = ["decrypt", "--dry-run", "-k", "other.key", "s3://bucket/a", "back"];
    scene.expect(2, &other);
}
