//! Objects that are locked until a time.

mod common;
mod scene;

use std::fs::{self, File};

use common::{Ended, RECIPIENT};
use scene::Scene;
use scene::server::Server;

impl Scene {
    /// The mode and the end of an object's lock.
    fn lock(&self, key: &str) -> [Option<String>; 2] {
        let head = self.server.ask_s3(&["-I"], &format!("locked/{key}")).to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{key}: {head}");
        let value = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map(|value| value.trim().to_owned())
        };
        ["mode", "retain-until-date"].map(|it| value(&format!("x-amz-object-lock-{it}")))
    }

    /// The keys of the objects below a prefix.
    fn keys(&self, prefix: &str) -> Vec<String> {
        let prefix = prefix.replace('/', "%2F");
        let listed = self.server.ask_s3(&[], &format!("locked?list-type=2&prefix={prefix}"));
        let keys = listed.split("<Key>").skip(1);
        keys.map(|it| it.split_once('<').unwrap().0.to_owned()).collect()
    }

    #[track_caller]
    fn assert_locked(&self, key: &str, mode: &str, date: &str) {
        let [there, until] = self.lock(key);
        assert_eq!(there.as_deref(), Some(mode), "{key}");
        assert!(until.as_deref().is_some_and(|until| until.starts_with(date)), "{key}: {until:?}");
    }
}

#[test]
fn new_objects_are_locked() {
    let Some(scene) = Scene::with_lock() else { return };
    let long = File::create(scene.fixture.path("tree/long")).unwrap();
    long.set_len(20 << 20).unwrap();
    let encrypt = ["encrypt", "-k", "my.key", "tree", "s3://locked/a", "--retain-until"];
    scene.expect(0, &[&encrypt[..], &["2090-03-01T12:00:00Z"]].concat());
    for key in ["a/one.enc", "a/deep/two.enc", "a/long.enc"] {
        scene.assert_locked(key, "governance", "2090-03-01t12:00:00");
    }
    scene.expect(0, &["verify", "-k", "my.key", "s3://locked/a"]);
    // No probe object is left, and none of their versions is locked.
    let listed = scene.server.ask_s3(&[], "locked?list-type=2&prefix=a%2F");
    assert!(!listed.contains(".evener-"), "{listed}");
    let compliance = ["2090-03-01", "--retain-mode", "compliance", "--overwrite"];
    scene.expect(0, &[&encrypt[..], &compliance].concat());
    scene.assert_locked("a/one.enc", "compliance", "2090-03-01t23:59:59");
    scene.assert_locked("a/long.enc", "compliance", "2090-03-01t23:59:59");
}

#[test]
fn objects_that_stay_are_locked_for_longer() {
    let Some(scene) = Scene::with_lock() else { return };
    let encrypt = ["encrypt", "-r", RECIPIENT, "-i", "identity", "tree", "s3://locked/a"];
    let run = |more: &[&str]| scene.expect(0, &[&encrypt[..], more].concat()).messages;
    let assert_all_locked = |date: &str| {
        let keys = scene.keys("a/");
        assert_eq!(keys.len(), 3, "{keys:?}");
        keys.iter().for_each(|key| scene.assert_locked(key, "governance", date));
    };
    run(&["--retain-until", "2090-01-01"]);
    let told = run(&["--update", "--retain-until", "2091-01-01"]);
    assert!(told.contains("2 unchanged; 2 locked for longer"), "{told}");
    assert_all_locked("2091-01-01");
    let told = run(&["--resume", "--retain-until", "2092-01-01"]);
    assert!(told.contains("2 locked for longer"), "{told}");
    assert_all_locked("2092-01-01");
    // Nothing is unlocked sooner.
    let told = run(&["--update", "--retain-until", "2089-01-01"]);
    assert!(!told.contains("locked for longer"), "{told}");
    assert_all_locked("2092-01-01");

    let target = "s3://unlocked/a";
    scene.server.ask_s3(&["-X", "PUT"], "unlocked");
    scene.expect(0, &["encrypt", "-k", "my.key", "tree", target]);
    let update = ["encrypt", "-k", "my.key", "--update", "tree", target];
    let told = scene.expect(1, &[&update[..], &["--retain-until", "2090-01-01"]].concat()).messages;
    assert!(told.contains("the bucket has no object lock"), "{told}");
}

#[test]
fn a_new_generation_locks_what_it_needs_of_earlier_ones() {
    let Some(scene) = Scene::with_lock() else { return };
    let seal = ["encrypt", "--sealed", "-k", "my.key", "tree", "s3://locked/s", "--retain-until"];
    let seal = |until| drop(scene.expect(0, &[&seal[..], &[until]].concat()));
    let keys = || scene.keys("s/");
    seal("2090-01-01");
    let first = keys();
    assert!(first.len() > 4, "{first:?}");
    first.iter().for_each(|key| scene.assert_locked(key, "governance", "2090-01-01"));
    fs::write(scene.fixture.path("tree/new"), "new").unwrap();
    seal("2091-01-01");
    let data = |key: &&String| key.starts_with("s/data/");
    let still = |date: &str| {
        let is_of = |key: &&String| scene.lock(key)[1].as_deref().unwrap().starts_with(date);
        keys().iter().filter(data).filter(is_of).count()
    };
    // The second generation needs everything but the index of the first.
    assert!(still("2090-01-01") <= 2 && still("2091-01-01") >= 3);
    scene.assert_locked("s/evener-tree-v1", "governance", "2091-01-01");
    // Nothing is unlocked sooner.
    fs::write(scene.fixture.path("tree/newer"), "newer").unwrap();
    seal("2089-01-01");
    scene.assert_locked("s/evener-tree-v1", "governance", "2091-01-01");
    scene.expect(0, &["verify", "-k", "my.key", "s3://locked/s"]);
}

#[test]
fn a_generation_without_old_files_locks_the_roots_and_keys() {
    let Some(scene) = Scene::with_lock() else { return };
    let seal = ["encrypt", "--sealed", "-r", RECIPIENT, "-i", "identity", "only", "s3://locked/s"];
    let seal = |until| drop(scene.expect(0, &[&seal[..], &["--retain-until", until]].concat()));
    fs::create_dir(scene.fixture.path("only")).unwrap();
    fs::write(scene.fixture.path("only/a"), "old").unwrap();
    seal("2090-01-01");
    let lasting = || {
        let keys = scene.keys("s/").into_iter();
        let is_lasting =
            |key: &String| !["s/data/", "s/writers/"].iter().any(|it| key.starts_with(it));
        keys.filter(is_lasting).collect::<Vec<_>>()
    };
    let first = lasting();
    assert_eq!(first.len(), 3, "{first:?}");
    fs::write(scene.fixture.path("only/a"), "another").unwrap();
    seal("2091-01-01");
    lasting().iter().for_each(|key| scene.assert_locked(key, "governance", "2091-01-01"));
    let retain = ["--retain-until", "2092-01-01"];
    let rekey = ["rekey", "-i", "identity", "-r", RECIPIENT, "s3://locked/s"];
    scene.expect(0, &[&rekey[..], &retain].concat());
    assert_eq!(lasting().len(), 7);
    lasting().iter().for_each(|key| scene.assert_locked(key, "governance", "2092-01-01"));
    let clean = ["clean", "--keep", "1", "-i", "identity", "s3://locked/s"];
    scene.expect(0, &[&clean[..], &["--retain-until", "2093-01-01"]].concat());
    lasting().iter().for_each(|key| scene.assert_locked(key, "governance", "2093-01-01"));
}

#[test]
fn a_writer_that_can_not_read_locks_what_it_keeps() {
    let Some(scene) = Scene::with_lock() else { return };
    let seal = ["encrypt", "--sealed", "-r", RECIPIENT, "tree", "s3://locked/s", "--retain-until"];
    let seal = |until| drop(scene.expect(0, &[&seal[..], &[until]].concat()));
    seal("2090-01-01");
    fs::write(scene.fixture.path("tree/new"), "new").unwrap();
    seal("2091-01-01");
    let is_old = |key: &&String| scene.lock(key)[1].as_deref().unwrap().starts_with("2090");
    let keys = scene.keys("s/");
    let old: Vec<_> = keys.iter().filter(is_old).collect();
    // The second generation needs everything but the index of the first.
    assert!(old.len() <= 2 && old.iter().all(|key| key.starts_with("s/data/")), "{old:?}");
    seal("2092-01-01");
    scene.assert_locked("s/evener-tree-v1", "governance", "2092-01-01");
}

#[test]
fn a_lock_in_governance_mode_is_not_taken_for_compliance() {
    let Some(scene) = Scene::with_lock() else { return };
    let seal = ["encrypt", "--sealed", "-k", "my.key", "tree", "s3://locked/s", "--retain-until"];
    scene.expect(0, &[&seal[..], &["2091-01-01"]].concat());
    let compliance = ["2090-01-01", "--retain-mode", "compliance"];
    // This server does not change the mode.
    let told = scene.expect(1, &[&seal[..], &compliance].concat()).messages;
    assert!(told.contains("could not be changed to compliance mode"), "{told}");
}

#[test]
fn settings_of_new_objects_are_not_for_the_source() {
    let (Some(scene), Some(google)) = (Scene::with_lock(), Server::gcs()) else { return };
    let google = format!("http://127.0.0.1:{}", google.port);
    let run = |arguments: &[&str]| {
        let mut command = scene.command(arguments);
        Ended::of(command.env("STORAGE_EMULATOR_HOST", &google))
    };
    let plain = ["encrypt", "-k", "my.key", "tree", "gs://bucket/a"];
    assert_eq!(run(&plain).status, Some(0));
    let config = scene.fixture.path("config");
    fs::write(&config, "[profile work]\nregion = us-east-1\n").unwrap();
    let credentials = "[work]\naws_access_key_id = key\naws_secret_access_key = secret\n";
    fs::write(scene.fixture.path("credentials"), credentials).unwrap();
    let again =
        ["encrypt", "-k", "my.key", "--aws-profile", "work", "--retain-until", "2090-01-01"];
    let mut command = scene.command(&[&again[..], &["gs://bucket/a", "s3://locked/a"]].concat());
    command.env("STORAGE_EMULATOR_HOST", &google).env("AWS_CONFIG_FILE", config);
    command.env("AWS_SHARED_CREDENTIALS_FILE", scene.fixture.path("credentials"));
    let ended = Ended::of(&mut command);
    assert_eq!(ended.status, Some(0), "{}", ended.messages);
    scene.assert_locked("a/one.enc.enc", "governance", "2090-01-01");
    let told = run(&["verify", "-k", "my.key", "--aws-profile", "work", "gs://bucket/a"]).messages;
    assert!(told.contains("--aws-profile is for s3://"), "{told}");
}

#[test]
fn where_there_are_no_locks_nothing_is_stored() {
    let Some(scene) = Scene::with_lock() else { return };
    let encrypt = ["encrypt", "-k", "my.key", "--retain-until", "2090-01-01", "tree"];
    scene.server.ask_s3(&["-X", "PUT"], "plain");
    let told = scene.expect(1, &[&encrypt[..], &["s3://plain/a"]].concat()).messages;
    assert!(told.contains("the bucket has no object lock"), "{told}");
    for scheme in ["gs", "az"] {
        let target = format!("{scheme}://bucket/a");
        let mut command = scene.command(&[&encrypt[..], &[&target]].concat());
        command.env("AZURE_STORAGE_ACCOUNT", "x").env("STORAGE_EMULATOR_HOST", "127.0.0.1:1");
        let told = Ended::of(&mut command);
        assert_ne!(told.status, Some(0));
        assert!(told.messages.contains("does not take a retention period"), "{}", told.messages);
    }
    let past = ["encrypt", "-k", "my.key", "--retain-until", "2020-01-01", "tree", "s3://locked/a"];
    let told = scene.expect(2, &past).messages;
    assert!(told.contains("in the past"), "{told}");
}
