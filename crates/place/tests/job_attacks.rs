//! Somebody who can write to the places of a job, and has no key.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::sealed::{Scene, content};
use evener_place::indexed::{ShardEnd, ShardOptions};

/// A job whose shards are done.
fn done() -> (Scene, u64) {
    let scene = Scene::new();
    scene.write_many();
    let planned = scene.plan(6);
    scene.run_worker((0, 1));
    (scene, planned.shards)
}

fn receipt(number: u64) -> String {
    format!("receipts/{number:09}")
}

#[track_caller]
fn assert_refused(scene: &Scene, reason: &str) {
    let roots = || fs::read_dir(scene.tree().join("tree")).map_or(0, Iterator::count);
    let before = roots();
    let error = scene.unfinished();
    assert!(error.contains(reason), "{error}");
    assert_eq!(roots(), before);
}

#[test]
fn forged_receipts_are_refused() {
    for number in [0, 3] {
        let (scene, _) = done();
        let path = scene.job().join(receipt(number));
        let honest = fs::read(&path).unwrap();
        for forged in [Vec::new(), b"receipt".to_vec(), honest[..honest.len() - 1].to_vec()] {
            fs::write(&path, forged).unwrap();
            assert_refused(&scene, "receipt");
        }
        // Each part of it: the attempt, the header, the content.
        for at in [0, 15, 16, 40, 80, honest.len() - 1] {
            let mut changed = honest.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            assert_refused(&scene, "receipts/");
        }
        fs::write(&path, honest).unwrap();
        scene.finish();
    }
}

#[test]
fn exchanged_receipts_are_refused() {
    let (scene, shards) = done();
    let (one, other) = (scene.job().join(receipt(1)), scene.job().join(receipt(shards - 1)));
    let (first, last) = (fs::read(&one).unwrap(), fs::read(&other).unwrap());
    fs::write(&one, &last).unwrap();
    assert_refused(&scene, "receipts/000000001");
    fs::write(&other, &first).unwrap();
    assert_refused(&scene, "receipts/");
}

#[test]
fn receipts_of_another_job_are_refused() {
    let (scene, shards) = done();
    scene.finish();
    scene.copy("job", "old");
    // The same source is planned and done once more, by the same key.
    fs::remove_dir_all(scene.job()).unwrap();
    scene.plan(6);
    for number in 0..shards {
        fs::create_dir_all(scene.job().join("receipts")).unwrap();
        fs::copy(scene.path("old").join(receipt(number)), scene.job().join(receipt(number)))
            .unwrap();
    }
    assert_refused(&scene, "receipts/");
}

#[test]
fn receipts_of_an_earlier_manifest_are_refused() {
    let (scene, _) = done();
    scene.finish();
    let marker = fs::read(scene.job().join("job")).unwrap();
    let (old, plan) = (scene.path("old"), scene.job());
    fs::rename(&plan, &old).unwrap();
    scene.plan(6);
    // The new job is given the old one's identity: its own manifest no longer opens.
    fs::write(plan.join("job"), marker).unwrap();
    assert_refused(&scene, "the key is not that of the job");
    // The old manifest comes back, with the new shards.
    fs::copy(old.join("manifest"), plan.join("manifest")).unwrap();
    let error = scene
        .try_shard(&common::sealed::key(7), 0, ShardOptions::default())
        .unwrap_err()
        .error
        .to_string();
    assert!(error.contains("is not the one of the manifest"), "{error}");
}

#[test]
fn edited_manifests_and_shards_are_refused() {
    for file in ["manifest", "shards/000000000", "shards/000000002", "job"] {
        let scene = Scene::new();
        scene.write_many();
        let shards = scene.plan(6).shards;
        let path = scene.job().join(file);
        let honest = fs::read(&path).unwrap();
        for at in [0, honest.len() / 2, honest.len() - 1] {
            let mut changed = honest.clone();
            changed[at] ^= 1;
            fs::write(&path, changed).unwrap();
            let key = common::sealed::key(7);
            let is_refused =
                |number| scene.try_shard(&key, number, ShardOptions::default()).is_err();
            assert!((0..shards).any(is_refused), "{file} {at}");
        }
        fs::write(&path, honest).unwrap();
        scene.run_worker((0, 1));
        scene.finish();
    }
}

/// The files in `data/` of one length each, the longest first.
fn data(scene: &Scene) -> Vec<PathBuf> {
    let files = content(&scene.tree().join("data"));
    let mut files: Vec<_> =
        files.into_iter().map(|(path, (.., bytes))| (bytes.len(), path)).collect();
    files.sort();
    files.into_iter().rev().map(|(_, path)| scene.tree().join("data").join(path)).collect()
}

#[test]
fn missing_cut_and_foreign_files_are_found() {
    let (scene, _) = done();
    let files = data(&scene);
    let longest = &files[0];
    let honest = fs::read(longest).unwrap();
    fs::remove_file(longest).unwrap();
    assert_refused(&scene, "is missing");
    fs::write(longest, &honest[1..]).unwrap();
    assert_refused(&scene, "bytes, not");
    fs::write(longest, &honest).unwrap();
    // Others' files are not the job's.
    fs::write(longest.with_file_name("0123456789abcdef0123456789abcdef"), b"foreign").unwrap();
    scene.finish();
    scene.open("out", &scene.with_key("reader"));
    scene.assert_same("out");
}

/// A shard whose first attempt was killed before its receipt.
fn killed() -> Scene {
    let scene = Scene::new();
    for name in ["one", "two", "three"] {
        scene.write(name, name.repeat(5_000).as_bytes().get(..9_000).unwrap());
    }
    scene.settle();
    scene.plan(100);
    assert_eq!(scene.run_shard(0).1, ShardEnd::Done);
    fs::remove_file(scene.job().join(receipt(0))).unwrap();
    scene
}

#[track_caller]
fn assert_conflict(scene: &Scene) {
    let (report, end) = scene.run_shard(0);
    assert_eq!(end, ShardEnd::Conflict);
    let error = report.failures[0].error.to_string();
    assert!(error.contains("was not made by this job for it"), "{error}");
    assert!(!scene.job().join(receipt(0)).exists());
}

#[test]
fn another_file_of_the_tree_is_no_file_of_a_shard() {
    let scene = killed();
    let files = data(&scene);
    // The sources have one length, so their files do.
    let (one, other): (&Path, &Path) = (&files[0], &files[1]);
    let bytes = fs::read(one).unwrap();
    assert_eq!(bytes.len(), fs::read(other).unwrap().len());
    fs::write(other, bytes).unwrap();
    assert_conflict(&scene);
}

#[test]
fn planted_files_are_conflicts() {
    let scene = killed();
    let path = &data(&scene)[0];
    let honest = fs::read(path).unwrap();
    for at in [0, 30, honest.len() - 20, honest.len() - 1] {
        let mut changed = honest.clone();
        changed[at] ^= 1;
        fs::write(path, changed).unwrap();
        assert_conflict(&scene);
    }
    for other in [&b""[..], b"planted", &honest[1..], &[&honest[..], b"more"].concat()] {
        fs::write(path, other).unwrap();
        assert_conflict(&scene);
    }
    fs::write(path, honest).unwrap();
    assert_eq!(scene.run_shard(0).1, ShardEnd::Done);
    scene.finish();
    scene.open("out", &scene.with_key("reader"));
    scene.assert_same("out");
}

#[test]
fn nothing_in_the_job_tells_names() {
    let scene = Scene::new();
    for name in ["confidential-name", "directory-name/other-name"] {
        scene.write(name, b"confidential-content");
    }
    scene.settle();
    scene.plan(1);
    scene.run_worker((0, 1));
    scene.finish();
    for place in [scene.job(), scene.tree()] {
        for (path, (.., bytes)) in content(&place) {
            let text = String::from_utf8_lossy(&bytes).into_owned() + &path.to_string_lossy();
            for secret in ["confidential", "directory-name", "other-name", "source"] {
                assert!(!text.contains(secret), "{}", path.display());
            }
        }
    }
}

#[test]
fn another_tree_is_no_target() {
    let (scene, _) = done();
    fs::write(scene.tree().join("evener-tree-v1"), format!("evener-tree-v1 {:032x}\n", 7)).unwrap();
    assert_refused(&scene, "the job is for the tree");
    fs::remove_file(scene.tree().join("evener-tree-v1")).unwrap();
    assert_refused(&scene, "its marker is gone");
}

#[test]
fn a_planted_note_finishes_nothing() {
    let scene = Scene::new();
    scene.write_many();
    scene.plan(6);
    scene.run_shard(0);
    fs::write(scene.job().join("finished"), b"finished").unwrap();
    assert!(scene.try_clean_job(false).is_err());
    assert!(scene.job().join("manifest").exists());
    assert!(scene.try_finish().is_err());
}

#[test]
fn a_job_that_was_finished_is_not_made_the_newest_again() {
    let (scene, _) = done();
    scene.finish();
    scene.write("later", b"later");
    scene.settle();
    scene.seal(&scene.with_key("finisher"));
    // Somebody takes its note away.
    fs::remove_file(scene.job().join("finished")).unwrap();
    let again = scene.finish();
    assert_eq!((again.generation, again.is_new, again.objects), (1, false, 30));
    assert_eq!(fs::read_dir(scene.tree().join("tree")).unwrap().count(), 2);
}

#[test]
fn finishes_at_once_make_one_generation() {
    let (scene, _) = done();
    let finished: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| scene.try_finish())).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    for result in finished {
        match result {
            Ok(finished) => assert_eq!(finished.generation, 1),
            Err(failure) => assert!(failure.error.to_string().contains("already"), "{failure}"),
        }
    }
    assert_eq!(fs::read_dir(scene.tree().join("tree")).unwrap().count(), 1);
}

#[test]
fn a_tree_that_was_rolled_back_is_noticed() {
    let scene = Scene::new();
    scene.write("old", b"old");
    scene.settle();
    scene.seal(&scene.with_key("planner"));
    scene.write("old", b"older");
    scene.settle();
    scene.seal(&scene.with_key("planner"));
    scene.copy("tree", "saved");
    scene.write_many();
    assert_eq!(scene.plan(6).generation, 3);
    scene.run_worker((0, 1));
    // On a machine that has seen none of them.
    let roots = |number: u64| scene.tree().join(format!("tree/{number:019}"));
    let second = fs::read(roots(2)).unwrap();
    fs::remove_file(roots(2)).unwrap();
    assert_refused(&scene, "rolled back");
    fs::remove_file(roots(1)).unwrap();
    assert!(scene.try_finish().is_err());
    fs::copy(scene.path("saved").join("tree/0000000000000000001"), roots(1)).unwrap();
    fs::write(roots(2), second).unwrap();
    assert_eq!(scene.finish().generation, 3);
    fs::remove_file(roots(3)).unwrap();
    assert!(scene.unfinished().contains("rolled back"));
}

#[test]
fn a_manifest_is_not_exchanged_between_two_looks() {
    let (scene, _) = done();
    let honest = scene.job_info().manifest;
    scene.finish();
    fs::remove_dir_all(scene.job()).unwrap();
    scene.plan(6);
    let error = scene.try_finish_of(Some(honest)).unwrap_err().error.to_string();
    assert!(error.contains("exchanged while it was read"), "{error}");
}

#[test]
fn a_straggler_leaves_no_receipt_in_a_place_that_was_cleaned() {
    let (scene, _) = done();
    scene.finish();
    let receipt = scene.job().join(receipt(0));
    let bytes = fs::read(&receipt).unwrap();
    scene.try_clean_job(false).unwrap();
    fs::create_dir_all(receipt.parent().unwrap()).unwrap();
    fs::write(&receipt, bytes).unwrap();
    let error = scene.try_plan(6, &[]).unwrap_err().error.to_string();
    assert!(error.contains("holds something else"), "{error}");
}
