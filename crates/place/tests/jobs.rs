//! Several workers make one generation of a sealed tree.

mod common;

use std::fs;
use std::path::PathBuf;

use common::sealed::{Scene, content, key};
use evener_place::indexed::{SealedOptions, ShardEnd, ShardOptions};

#[test]
fn shards_in_any_order_make_one_generation() {
    let scene = Scene::new();
    scene.write_many();
    let planned = scene.plan(7);
    assert_eq!((planned.objects, planned.generation), (30, 1));
    assert!(planned.shards > 4, "{planned:?}");
    assert!(scene.unfinished().contains("have no receipt yet"));
    for number in (0..planned.shards).rev() {
        let (report, end) = scene.run_shard(number);
        assert_eq!((report.failures.len(), end), (0, ShardEnd::Done));
    }
    let status = scene.job_status();
    assert_eq!((status.done, status.missing.len(), status.finished), (planned.shards, 0, false));
    let finished = scene.finish();
    assert_eq!((finished.generation, finished.is_new, finished.objects), (1, true, 30));
    assert_eq!((finished.entries, finished.already), (planned.entries, 0));
    scene.open("out", &scene.with_key("reader"));
    scene.assert_same("out");
    assert!(scene.verify(&scene.with_key("reader")).unwrap().is_success());
}

#[test]
fn a_finished_job_that_runs_again_moves_nothing() {
    let scene = Scene::new();
    scene.write_many();
    let planned = scene.plan(10);
    assert_eq!(scene.run_worker((0, 1)).done.len() as u64, planned.shards);
    scene.finish();
    let before = content(&scene.tree());
    fs::remove_dir_all(scene.source()).unwrap();
    for number in 0..planned.shards {
        assert_eq!(scene.run_shard(number).1, ShardEnd::Already);
    }
    assert_eq!(scene.run_worker((0, 3)), Default::default());
    let again = scene.finish();
    assert_eq!((again.generation, again.is_new, again.objects), (1, false, 30));
    assert!(content(&scene.tree()) == before);
}

#[test]
fn a_repeated_shard_takes_what_is_there() {
    let scene = Scene::new();
    scene.write_many();
    let planned = scene.plan(100);
    assert_eq!(planned.shards, 1);
    assert_eq!(scene.run_shard(0).1, ShardEnd::Done);
    // As if the first attempt had been killed before its receipt.
    fs::remove_file(scene.job().join("receipts/000000000")).unwrap();
    let before = content(&scene.tree());
    let (report, end) = scene.run_shard(0);
    assert_eq!((end, report.files, report.files_unchanged), (ShardEnd::Done, 0, 30));
    let after = content(&scene.tree());
    let is_new = |path: &&PathBuf| !before.contains_key(*path);
    // Only the blocks of the index are written again. There is one more where chance has it.
    assert!((1..6).contains(&after.keys().filter(is_new).count()));
    assert_eq!(scene.finish().already, 30);
    scene.open("out", &scene.with_key("reader"));
    scene.assert_same("out");
}

#[test]
fn workers_share_the_shards_and_help() {
    let scene = Scene::new();
    scene.write_many();
    let planned = scene.plan(3);
    let worked: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                scope.spawn({
                    let scene = &scene;
                    move || scene.run_worker((worker, 4))
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    // The fourth worker never came.
    let done: usize = worked.iter().map(|worked| worked.done.len()).sum();
    assert_eq!(done as u64, planned.shards);
    assert!(worked.iter().all(|it| it.failed.is_empty() && it.conflicts.is_empty()));
    scene.finish();
    scene.open("out", &scene.with_key("reader"));
    scene.assert_same("out");
}

#[test]
fn changed_and_removed_objects_are_named() {
    let scene = Scene::new();
    scene.write_many();
    scene.plan(100);
    scene.write("a/4", b"something else");
    fs::remove_file(scene.source().join("c/d/e/7")).unwrap();
    // The source may only be out of reach, like a disk that is not mounted.
    let (report, end) = scene.run_shard(0);
    assert_eq!((end, report.failures.len()), (ShardEnd::Failed, 1));
    let skipping = ShardOptions { skips_gone: true, ..ShardOptions::default() };
    let (report, end) = scene.try_shard(&key(7), 0, skipping).unwrap();
    assert_eq!((end, &report.failures[..]), (ShardEnd::Done, &[][..]));
    let finished = scene.finish();
    assert_eq!(finished.changed, [PathBuf::from("a/4")]);
    assert_eq!(finished.gone, [PathBuf::from("c/d/e/7")]);
    assert_eq!(finished.objects, 29);
    scene.open("out", &scene.with_key("reader"));
    assert_same_bytes(&scene);
}

/// Directories have the times of the plan, so they are not compared.
#[track_caller]
fn assert_same_bytes(scene: &Scene) {
    let bytes = |path| {
        let files = content(path).into_iter();
        files.map(|(path, (.., bytes))| (path, bytes)).collect::<Vec<_>>()
    };
    assert!(bytes(&scene.source()) == bytes(&scene.path("out")));
}

#[test]
fn a_job_adds_a_generation_to_a_tree() {
    let scene = Scene::new();
    scene.write("old", b"old");
    scene.settle();
    scene.seal(&scene.with_key("planner"));
    fs::remove_file(scene.source().join("old")).unwrap();
    scene.write_many();
    assert_eq!(scene.plan(9).generation, 2);
    // Another generation comes between.
    scene.write("between", b"between");
    scene.settle();
    scene.seal(&scene.with_key("other"));
    fs::remove_file(scene.source().join("between")).unwrap();
    scene.run_worker((0, 1));
    let finished = scene.finish();
    assert_eq!((finished.generation, finished.between), (3, 1));
    assert_eq!(scene.job_status().generation, 3);
    scene.open("out", &scene.with_key("reader"));
    assert_same_bytes(&scene);
    // A later run on the same tree seals only what has changed.
    scene.write("new", b"new");
    scene.settle();
    let (report, sealed) = scene.seal(&scene.with_key("finisher"));
    assert_eq!((sealed.generation, report.files), (4, 1));
}

#[test]
fn each_attempt_has_a_key_of_its_own_for_recipients() {
    let scene = Scene::new();
    scene.write_many();
    let identity = common::same_identity();
    let writer = scene.with_recipient(&identity, "finisher");
    let planned = scene.try_plan_as(&writer, 10, &["somebody"]).unwrap();
    let options = ShardOptions { wrap: writer.wrap.as_ref(), ..ShardOptions::default() };
    let run = |number| scene.try_shard(&key(7), number, options).unwrap().1;
    for number in 0..planned.shards {
        assert_eq!(run(number), ShardEnd::Done);
    }
    // Another attempt at a shard makes files of its own.
    fs::remove_file(scene.job().join("receipts/000000000")).unwrap();
    assert!((0..planned.shards).map(run).any(|end| end == ShardEnd::Done));
    assert!(scene.try_shard(&key(7), 0, ShardOptions::default()).is_ok());
    let finished = scene.try_finish_as(&writer).unwrap();
    assert_eq!((finished.generation, finished.already), (1, 0));
    let reader = scene.with_identity(&identity, "finisher");
    scene.open("out", &reader);
    scene.assert_same("out");
    assert!(scene.verify(&reader).unwrap().is_success());
    // The job's key opens no content.
    assert!(scene.try_open("refused", &scene.with_key("reader")).is_err());
    // One key for each shard, and one for the root.
    let keys = fs::read_dir(scene.tree().join("keys")).unwrap().count();
    assert_eq!(keys as u64, planned.shards + 1);
    scene.write("new", b"new");
    scene.settle();
    // A writer without notes needs what opens the generation before.
    let keychain = reader.keychain.clone();
    assert_eq!(scene.seal(&SealedOptions { keychain, ..writer }).0.files, 1);
}

#[test]
fn failed_files_leave_no_receipt() {
    let scene = Scene::new();
    scene.write_many();
    scene.plan(100);
    let data = scene.tree().join("data");
    fs::write(&data, b"in the way").unwrap();
    let (report, end) = scene.run_shard(0);
    assert!(end == ShardEnd::Failed && !report.failures.is_empty());
    assert_eq!(scene.job_status().done, 0);
    fs::remove_file(&data).unwrap();
    assert_eq!(scene.run_shard(0).1, ShardEnd::Done);
    scene.finish();
}

#[test]
fn a_stopped_shard_has_no_receipt() {
    let mut scene = Scene::new();
    scene.write_many();
    scene.plan(100);
    scene.run.run.control.stop();
    let (report, end) = scene.run_shard(0);
    assert!(end == ShardEnd::Failed && report.interrupted);
    assert_eq!(scene.run_worker((0, 1)), Default::default());
    scene.run.run.control = Default::default();
    assert_eq!(scene.run_shard(0).1, ShardEnd::Done);
}

#[test]
fn cleaning_removes_the_job_alone() {
    let scene = Scene::new();
    scene.write_many();
    let planned = scene.plan(10);
    fs::write(scene.job().join("mine"), b"mine").unwrap();
    scene.run_shard(0);
    assert!(scene.try_clean_job(false).unwrap_err().error.to_string().contains("not finished"));
    scene.run_worker((0, 1));
    scene.finish();
    let cleaned = scene.try_clean_job(false).unwrap();
    // The shards, their receipts and attempts; the marker, the manifest and the note.
    assert_eq!(cleaned.files, 3 * planned.shards + 3);
    let left: Vec<_> =
        content(&scene.job()).into_keys().filter(|it| !it.as_os_str().is_empty()).collect();
    assert_eq!(left, [PathBuf::from("mine")]);
    scene.open("out", &scene.with_key("reader"));
    scene.assert_same("out");
    let writers = fs::read_dir(scene.tree().join("writers")).unwrap();
    assert_eq!(writers.count(), 0);
}

#[test]
fn names_of_one_file_are_files_of_their_own() {
    let scene = Scene::new();
    scene.write("z/one", b"one");
    for name in ["a", "b", "c"] {
        fs::hard_link(scene.source().join("z/one"), scene.source().join(name)).unwrap();
    }
    scene.settle();
    scene.plan(2);
    // One name is given another file.
    scene.write("new", b"new");
    fs::rename(scene.source().join("new"), scene.source().join("a")).unwrap();
    scene.run_worker((0, 1));
    assert_eq!(scene.finish().changed.first(), Some(&PathBuf::from("a")));
    scene.open("out", &scene.with_key("reader"));
    assert_same_bytes(&scene);
}

#[test]
fn a_file_with_its_old_time_and_size_is_sealed_again() {
    let scene = Scene::new();
    scene.write("file", b"old");
    scene.settle();
    scene.plan(10);
    assert_eq!(scene.run_shard(0).1, ShardEnd::Done);
    fs::remove_file(scene.job().join("receipts/000000000")).unwrap();
    let path = scene.source().join("file");
    let time = fs::metadata(&path).unwrap().modified().unwrap();
    scene.write("new", b"new");
    fs::File::options()
        .write(true)
        .open(scene.source().join("new"))
        .unwrap()
        .set_modified(time)
        .unwrap();
    fs::rename(scene.source().join("new"), &path).unwrap();
    assert_eq!(scene.run_shard(0).0.files, 1);
    assert_eq!(scene.finish().changed, [PathBuf::from("file")]);
    scene.open("out", &scene.with_key("reader"));
    assert_same_bytes(&scene);
}

#[test]
fn no_file_any_more_is_gone() {
    let scene = Scene::new();
    scene.write_many();
    scene.plan(100);
    for (number, name) in ["a/4", "a/8", "a-b/1"].iter().enumerate() {
        let path = scene.source().join(name);
        fs::remove_file(&path).unwrap();
        match number {
            0 => fs::create_dir(&path).unwrap(),
            1 => std::os::unix::fs::symlink("elsewhere", &path).unwrap(),
            _ => drop(std::os::unix::net::UnixListener::bind(&path).unwrap()),
        }
    }
    assert_eq!(scene.run_shard(0).1, ShardEnd::Failed);
    let skipping = ShardOptions { skips_gone: true, ..ShardOptions::default() };
    assert_eq!(scene.try_shard(&key(7), 0, skipping).unwrap().1, ShardEnd::Done);
    assert_eq!(scene.finish().gone.len(), 3);
}

#[test]
fn an_abandoned_job_leaves_no_tree_of_its_own() {
    let scene = Scene::new();
    scene.write_many();
    scene.plan(10);
    scene.run_shard(1);
    scene.try_clean_job(true).unwrap();
    let left = |path| content(path).keys().filter(|it| !it.as_os_str().is_empty()).count();
    assert_eq!((left(&scene.job()), left(&scene.tree())), (0, 0));
    scene.plan(10);
    scene.run_worker((0, 1));
    scene.finish();
    // A tree with generations stays.
    scene.try_clean_job(false).unwrap();
    scene.plan(10);
    scene.run_shard(0);
    scene.try_clean_job(true).unwrap();
    scene.open("out", &scene.with_key("reader"));
    scene.assert_same("out");
}

#[test]
fn a_new_tree_has_one_job() {
    let scene = Scene::new();
    scene.write_many();
    scene.plan(10);
    fs::rename(scene.job(), scene.path("first")).unwrap();
    let error = scene.try_plan(10, &[]).unwrap_err().error.to_string();
    assert!(error.contains("another job or run"), "{error}");
    // A plan that fails leaves nothing behind.
    let left = content(&scene.job());
    assert!(left.keys().all(|path| path.as_os_str().is_empty()), "{:?}", left.keys());
    fs::remove_dir_all(scene.job()).unwrap();
    fs::rename(scene.path("first"), scene.job()).unwrap();
    scene.run_worker((0, 1));
    scene.finish();
}

#[test]
fn a_job_needs_a_place_of_its_own() {
    let scene = Scene::new();
    scene.write_many();
    fs::create_dir(scene.job()).unwrap();
    fs::write(scene.job().join("mine"), b"mine").unwrap();
    let error = scene.try_plan(10, &[]).unwrap_err().error.to_string();
    assert!(error.contains("holds something else"), "{error}");
}

#[test]
fn plans_that_can_not_be_kept_are_refused() {
    let scene = Scene::new();
    let error = scene.try_plan(10, &[]).unwrap_err().error.to_string();
    assert!(error.contains("nothing was planned"), "{error}");
    scene.write_many();
    scene.plan(10);
    let error = scene.try_plan(10, &[]).unwrap_err().error.to_string();
    assert!(error.contains("a job already"), "{error}");
    let error = scene.try_shard(&key(8), 0, ShardOptions::default()).unwrap_err().error.to_string();
    assert!(error.contains("the key is not that of the job"), "{error}");
    let error =
        scene.try_shard(&key(7), 99, ShardOptions::default()).unwrap_err().error.to_string();
    assert!(error.contains("no shard 99"), "{error}");
}
