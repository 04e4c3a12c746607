//! Jobs in object stores.

mod common;
mod scene;

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use common::Ended;
use scene::{Scene, server::Server};

impl Scene {
    fn job(&self, status: i32, command: &str, more: &[&str]) -> Ended {
        let job = self.address("jobs/1");
        self.expect(status, &[&["job", command, "-k", "my.key", &job], more].concat())
    }

    /// Puts the tree into the store, and plans to seal it from there.
    fn plan(&self, objects: &str) -> Ended {
        let [source, target, job] = ["photos", "vault", "jobs/1"].map(|it| self.address(it));
        self.expect(0, &["encrypt", "-k", "my.key", "tree", "sealed"]);
        self.expect(0, &["decrypt", "-k", "my.key", "sealed", &source]);
        let plan = ["job", "plan", "-k", "my.key", "--job", &job, "--objects", objects];
        self.expect(0, &[&plan[..], &["--json", &source, &target]].concat())
    }

    /// Decrypts the tree, and compares it with the source.
    fn compare(&self) {
        self.expect(0, &["decrypt", "-k", "my.key", &self.address("vault"), "back"]);
        self.fixture.assert_same_tree("tree", "back");
    }
}

/// A scene with 30 more files.
fn with_files(server: Server) -> Scene {
    let scene = Scene::with(server);
    for number in 0..30 {
        let file = scene.fixture.path(&format!("tree/deep/{number}"));
        fs::write(file, vec![number as u8; 100 * number]).unwrap();
    }
    scene
}

#[test]
fn jobs_in_s3() {
    let Some(server) = Server::s3() else { return };
    lives_a_whole_life(server);
}

#[test]
fn jobs_in_google_cloud_storage() {
    let Some(server) = Server::gcs() else { return };
    lives_a_whole_life(server);
}

#[test]
fn jobs_in_azure_blob_storage() {
    let Some(server) = Server::azure() else { return };
    lives_a_whole_life(server);
}

fn lives_a_whole_life(server: Server) {
    let scene = with_files(server);
    let shards = scene.plan("10").document()["shards"].as_u64().unwrap();
    assert_eq!(shards, 4);
    for shard in ["2", "0", "3"] {
        scene.job(0, "run", &["--shard", shard]);
    }
    scene.job(3, "run", &["--shard", "2"]);
    assert!(scene.job(1, "finish", &[]).messages.contains("(1)"));
    let status = scene.job(0, "status", &["--json"]).document();
    assert_eq!(status["missing"], serde_json::json!([1]));
    scene.job(0, "run", &["--worker", "0/2"]);
    scene.job(0, "finish", &["--verify"]);
    assert_eq!(scene.job(0, "finish", &["--json"]).document()["is_new"], false);
    scene.compare();
    let cleaned = scene.job(0, "clean", &["--json"]).document();
    assert!(cleaned["files"].as_u64().unwrap() > 10, "{cleaned}");
    assert_eq!(cleaned["leftovers"]["probes"], 0, "{cleaned}");
    assert!(scene.job(1, "status", &[]).messages.contains("it is no job"));
    // This machine knows the tree.
    let vault = scene.address("vault");
    scene.expect(0, &["encrypt", "--sealed", "-k", "my.key", "tree", &vault]);
    let overlap = ["job", "plan", "-k", "my.key", "--job", &vault, "tree", &scene.address("")];
    assert!(scene.expect(2, &overlap).messages.contains("overlap"));
}

/// A worker that is killed costs only the objects that it had in flight.
#[test]
fn killed_workers_are_repeated() {
    let Some(server) = Server::s3() else { return };
    let scene = with_files(server);
    let long = fs::File::create(scene.fixture.path("tree/long")).unwrap();
    long.set_len(96 << 20).unwrap();
    let [target, job] = ["vault", "jobs/1"].map(|it| scene.address(it));
    scene.expect(0, &["job", "plan", "-k", "my.key", "--job", &job, "tree", &target]);
    let run = ["job", "run", "-k", "my.key", "--shard", "0", "--requests", "4", &job];
    let mut child = scene.command(&run).stderr(Stdio::null()).spawn().unwrap();
    let objects = || {
        let data = scene.server.bucket().join("vault/data/00");
        fs::read_dir(data).into_iter().flatten().count()
    };
    while scene.server.open_uploads() == 0 || objects() < 5 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    scene.job(1, "finish", &[]);
    let young = scene.job(0, "clean", &["--json"]).document();
    assert_eq!((&young["files"], &young["finished"]), (&0.into(), &false.into()), "{young}");
    assert!(young["leftovers"]["younger"].as_u64().unwrap() > 0, "{young}");
    let there = objects();
    let again = scene.job(0, "run", &["--shard", "0", "--json"]).document();
    let already = again["files_unchanged"].as_u64().unwrap();
    assert!(already >= 5 && already as usize <= there + 4, "{already} of {there}");
    let finished = scene.job(0, "finish", &["--json"]).document();
    assert_eq!(finished["already"], already);
    assert_eq!(finished["objects"], 33);
    assert!(scene.server.open_uploads() > 0);
    let cleaned = scene.job(0, "clean", &["--json"]).document();
    assert!(cleaned["leftovers"]["uploads"].as_u64().unwrap() > 0, "{cleaned}");
    assert_eq!(scene.server.open_uploads(), 0);
    scene.compare();
}

/// Credentials are never part of a job.
#[test]
fn jobs_keep_no_credentials() {
    let Some(scene) = Scene::new() else { return };
    let target = scene.address("vault");
    let plan = ["job", "plan", "-k", "my.key", "--job", "J", "tree", &target];
    scene.expect(0, &plan);
    let endpoint = format!("http://127.0.0.1:{}", scene.server.port);
    let run = ["job", "run", "-k", "my.key", "--shard", "0", "--endpoint-url", &endpoint, "J"];
    let mut command = scene.command(&run);
    let ended = Ended::of(command.env("AWS_SECRET_ACCESS_KEY", "another"));
    assert_eq!(ended.status, Some(1), "{}", ended.messages);
    scene.expect(0, &run);
    let local = ["job", "status", "-k", "my.key", "--endpoint-url", &endpoint, "J"];
    assert!(scene.expect(2, &local).messages.contains("--endpoint-url is for object stores"));
}
