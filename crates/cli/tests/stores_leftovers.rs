//! `evener clean` on the leftovers of killed runs in object stores.

mod common;
mod scene;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use scene::Scene;

impl Scene {
    /// Kills a run while it has an open upload with a part.
    fn leave_upload(&self, target: &str) {
        let file = File::create(self.fixture.path("tree/long")).unwrap();
        file.set_len(512 << 20).unwrap();
        let uploads = self.server.bucket().join(".sgwtmp/multipart");
        let parts = || {
            let is_part = |path: &PathBuf| fs::metadata(path).is_ok_and(|it| it.len() == 8 << 20);
            below(&uploads).iter().filter(|path| is_part(path)).count()
        };
        let before = parts();
        let mut command = self.command(&["encrypt", "--resume", "-k", "my.key", "tree", target]);
        // Another machine does not know a sealed tree above the target.
        command.env("XDG_STATE_HOME", self.fixture.path("another"));
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        while parts() == before {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
            sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Backdates everything below a directory of the server.
    fn make_older(&self, directory: &Path) {
        let time = SystemTime::now() - Duration::from_secs(3 * 24 * 3600);
        for path in below(directory) {
            File::open(path).unwrap().set_modified(time).unwrap();
        }
    }

    fn clean(&self, more: &[&str]) -> String {
        let ended = self.expect(0, &[&["clean"], more].concat());
        String::from_utf8(ended.output).unwrap()
    }
}

/// All paths below a directory. The entries of a directory come before the directory.
fn below(directory: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    // The server may be removing some of them.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => paths.extend(below(&entry.path())),
            false => paths.push(entry.path()),
        }
    }
    paths.push(directory.to_owned());
    paths
}

#[test]
fn old_uploads_are_aborted_and_young_ones_kept() {
    let Some(scene) = Scene::new() else { return };
    scene.leave_upload("s3://bucket/a");
    scene.leave_upload("s3://bucket/ab");
    let told = scene.clean(&["s3://bucket/a"]);
    assert!(told.starts_with("aborted 0 unfinished uploads; 1 kept because"), "{told}");
    let uploads = scene.server.bucket().join(".sgwtmp/multipart");
    scene.make_older(&uploads);
    assert_eq!(scene.clean(&["-n", "s3://bucket/a"]), "would abort 1 unfinished upload\n");
    assert_eq!(scene.server.open_uploads(), 2);
    assert_eq!(scene.clean(&["s3://bucket/a"]), "aborted 1 unfinished upload\n");
    assert_eq!(scene.server.open_uploads(), 1);
    assert_eq!(scene.clean(&["s3://bucket/a"]), "aborted 0 unfinished uploads\n");
    let document = scene.expect(0, &["clean", "--json", "s3://bucket"]).document();
    assert_eq!(document["leftovers"]["uploads"], 1, "{document}");
    assert_eq!(scene.server.open_uploads(), 0);
    // Complete objects stay.
    fs::remove_file(scene.fixture.path("tree/long")).unwrap();
    scene.expect(0, &["encrypt", "--resume", "-k", "my.key", "tree", "s3://bucket/a"]);
    scene.expect(0, &["verify", "-k", "my.key", "s3://bucket/a"]);
}

#[test]
fn an_upload_lives_as_long_as_it_gets_parts() {
    let Some(scene) = Scene::new() else { return };
    scene.leave_upload("s3://bucket/a");
    let uploads = scene.server.bucket().join(".sgwtmp/multipart");
    scene.make_older(&uploads);
    let part = below(&uploads).into_iter().find(|path| path.is_file()).expect("a part");
    File::open(part).unwrap().set_modified(SystemTime::now()).unwrap();
    let told = scene.clean(&["s3://bucket/a"]);
    assert!(told.starts_with("aborted 0 unfinished uploads; 1 kept because"), "{told}");
    assert_eq!(scene.server.open_uploads(), 1);
}

#[test]
fn a_sealed_tree_is_cleaned_of_uploads_too() {
    let Some(scene) = Scene::new() else { return };
    let tree = "s3://bucket/s";
    let seal = ["encrypt", "--sealed", "-k", "my.key", "tree", tree];
    scene.expect(0, &seal);
    scene.leave_upload(&format!("{tree}/data"));
    scene.make_older(&scene.server.bucket().join(".sgwtmp/multipart"));
    let told = scene.clean(&["-k", "my.key", tree]);
    assert!(told.ends_with("aborted 1 unfinished upload\n"), "{told}");
    assert_eq!(scene.server.open_uploads(), 0);
}

#[test]
fn options_of_sealed_trees_are_refused_for_plain_ones() {
    let Some(scene) = Scene::new() else { return };
    for option in [["--keep", "1"], ["--keep-within", "1d"], ["--abandon", "x"]] {
        let told =
            scene.expect(2, &[&["clean"], &option[..], &["s3://bucket/a"]].concat()).messages;
        assert!(told.contains(option[0]), "{told}");
    }
}
