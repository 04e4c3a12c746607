//! Generations that cleaning makes, gaps between them, and writers that are no more.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use common::sealed::{ACTION, Scene, content, seal_in_child};
use evener_place::indexed::{
    self, At, Change, CleanOptions, Cleaned, Later, SealedOptions, SignerChange,
};
use evener_place::{FileError, Local, Selection, TreeOptions};

fn local(scene: &Scene) -> Local {
    Local::new(scene.tree(), &TreeOptions::default())
}

fn clean(scene: &Scene, keep: u64, sealed: &SealedOptions) -> Result<Cleaned, FileError> {
    let options = CleanOptions { keep, ..CleanOptions::default() };
    indexed::clean(&local(scene), &scene.run.run, sealed, &options)
}

/// Makes all files in `data/` as old as three days.
fn age(scene: &Scene) {
    let then = SystemTime::now() - Duration::from_secs(3 * 24 * 60 * 60);
    for (path, (_, _, _)) in content(&scene.tree().join("data")) {
        let path = scene.tree().join("data").join(path);
        if path.is_file() {
            fs::File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
        }
    }
}

/// A tree with so many versions of the file `x`, made by a machine that can read it.
fn versions(kind: &str, number: u32) -> Scene {
    let scene = Scene::new();
    for version in 1..=number {
        scene.write("x", &version.to_le_bytes());
        scene.write("y", b"y");
        scene.settle();
        scene.seal(&scene.writer(kind, "a"));
    }
    scene
}

/// The state of machine `a`, and what opens the tree.
fn holder(scene: &Scene, kind: &str) -> SealedOptions {
    let keychain = scene.reader(kind, "a").keychain;
    SealedOptions { keychain, ..scene.writer(kind, "a") }
}

fn root(scene: &Scene, number: u64) -> PathBuf {
    scene.tree().join(format!("tree/{number:019}"))
}

#[test]
fn child() {
    seal_in_child();
}

#[test]
fn cleaning_keeps_snapshots_and_not_its_own_generations() {
    let scene = versions("key", 5);
    let sealed = scene.writer("key", "a");
    let cleaned = clean(&scene, 3, &sealed).unwrap();
    assert_eq!((cleaned.generation, cleaned.removed), (Some(6), vec![1, 2]));
    let before = content(&scene.tree().join("tree"));
    for _ in 0..4 {
        let cleaned = clean(&scene, 3, &sealed).unwrap();
        assert_eq!((cleaned.generation, cleaned.files), (None, 0));
        assert_eq!(cleaned.kept, [3, 4, 5, 6]);
    }
    assert!(content(&scene.tree().join("tree")) == before);
    for number in 3..=5_u32 {
        let at = SealedOptions { at: At::Number(number.into()), ..sealed.clone() };
        scene.open("out", &at);
        assert_eq!(fs::read(scene.path("out/x")).unwrap(), number.to_le_bytes());
        fs::remove_dir_all(scene.path("out")).unwrap();
    }
    // The last snapshot was made when its source was read, not when it was cleaned.
    let options = CleanOptions { keep: 1, keep_within: Some(3600), ..CleanOptions::default() };
    let cleaned = indexed::clean(&local(&scene), &scene.run.run, &sealed, &options).unwrap();
    assert_eq!((cleaned.generation, cleaned.removed), (None, vec![]));
    let cleaned = clean(&scene, 1, &sealed).unwrap();
    assert_eq!((cleaned.removed, cleaned.kept), (vec![3, 4], vec![5, 6, 7]));
}

/// Changes `x` so that only its time of change tells, and renames `y`.
fn change_unseen(scene: &Scene) {
    let path = scene.source().join("x");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let length = fs::metadata(&path).unwrap().len() as usize;
    fs::write(&path, vec![0xEE; length]).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    fs::rename(scene.source().join("y"), scene.source().join("z")).unwrap();
    scene.settle();
}

#[test]
fn a_machine_that_cleans_keeps_its_notes() {
    for kind in ["key", "recipient"] {
        let scene = versions(kind, 3);
        for keep in [2, 1] {
            age(&scene);
            assert!(clean(&scene, keep, &holder(&scene, kind)).unwrap().generation.is_some());
        }
        let (report, made) = scene.seal(&scene.writer(kind, "a"));
        assert!(!made.is_new && report.notices.is_empty(), "{kind}: {:?}", report.notices);
        change_unseen(&scene);
        let (report, made) = scene.seal(&scene.writer(kind, "a"));
        assert_eq!((report.files, made.moved), (1, 1), "{kind}");
        assert!(report.notices.is_empty(), "{kind}: {:?}", report.notices);
        scene.open("out", &scene.reader(kind, "r"));
        scene.assert_same("out");
    }
}

#[test]
fn notes_count_after_another_machine_has_cleaned() {
    let scene = versions("key", 3);
    clean(&scene, 1, &scene.writer("key", "b")).unwrap();
    assert!(!scene.seal(&scene.writer("key", "a")).1.is_new);
    change_unseen(&scene);
    let (report, made) = scene.seal(&scene.writer("key", "a"));
    assert_eq!((report.files, made.moved), (1, 1));

    let scene = versions("recipient", 3);
    let (a, b) = (holder(&scene, "recipient"), {
        let keychain = scene.reader("recipient", "b").keychain;
        SealedOptions { keychain, ..scene.writer("recipient", "b") }
    });
    let add = vec![indexed::own_signer(&local(&scene), &b).unwrap()];
    let change = SignerChange { add, ..SignerChange::default() };
    indexed::change_signers(&local(&scene), &scene.run.run, &change, &a).unwrap();
    // This machine has made it, so it needs no identity to go on.
    assert!(!scene.seal(&scene.writer("recipient", "a")).1.is_new);
    scene.write("more", b"more");
    scene.settle();
    assert_eq!(scene.seal(&scene.writer("recipient", "a")).0.files, 1);
    clean(&scene, 1, &b).unwrap();
    let (report, made) = scene.seal(&scene.writer("recipient", "a"));
    assert!(!made.is_new && report.notices.is_empty(), "{:?}", report.notices);
    // b drops what a has made.
    fs::rename(scene.source().join("y"), scene.path("y")).unwrap();
    scene.seal(&b);
    clean(&scene, 1, &b).unwrap();
    let (report, _) = scene.seal(&scene.writer("recipient", "a"));
    let told = format!("{:?}", report.notices);
    assert!(told.contains("everything is sealed again"), "{told}");
}

#[test]
fn a_gap_is_refused_and_junk_is_not() {
    for kind in ["key", "recipient"] {
        let scene = versions(kind, 1);
        scene.verify(&scene.reader(kind, "r")).unwrap();
        scene.copy("state-a", "state-1");
        for version in 2..=3_u32 {
            scene.write("x", &version.to_le_bytes());
            scene.settle();
            scene.seal(&scene.writer(kind, "a"));
        }
        age(&scene);
        scene.copy("tree", "whole");
        scene.copy("state-1", "state-a");
        fs::remove_file(root(&scene, 2)).unwrap();
        let told = "generation 3 is there, and the root of generation 2 is missing";
        let refused = [
            scene.refusal(&scene.reader(kind, "r")),
            scene.refusal(&scene.reader(kind, "new")),
            clean(&scene, 1, &holder(&scene, kind)).unwrap_err().to_string(),
            scene.try_seal(&scene.writer(kind, "a")).unwrap_err().to_string(),
            scene.try_seal(&holder(&scene, kind)).unwrap_err().to_string(),
        ];
        assert!(refused.iter().all(|it| it.contains(told)), "{kind}: {refused:?}");
        let mut accepts = scene.reader(kind, "r");
        accepts.trust.rollback = true;
        assert_eq!(scene.open("old", &accepts).beyond, [3]);
        // Nobody has signed these.
        let first = fs::read(root(&scene, 1)).unwrap();
        fs::remove_file(root(&scene, 3)).unwrap();
        for number in [5, 17, 1 << 40, i64::MAX as u64] {
            fs::write(root(&scene, number), "junk").unwrap();
            fs::write(root(&scene, number - 1), &first).unwrap();
        }
        fs::create_dir(root(&scene, 30)).unwrap();
        assert!(!scene.open("beside", &scene.reader(kind, "r")).beyond.is_empty());
        clean(&scene, 1, &holder(&scene, kind)).unwrap();
        assert_eq!(scene.seal(&scene.writer(kind, "a")).1.generation, 3);
    }
}

#[test]
fn a_generation_passes_over_no_more_than_the_format_allows() {
    let scene = versions("key", 1);
    let sealed = scene.writer("key", "a");
    (2..=1002).for_each(|number| fs::write(root(&scene, number), "junk").unwrap());
    scene.write("x", b"other");
    scene.settle();
    let before = content(&scene.tree()).len();
    let error = scene.try_seal(&sealed).unwrap_err().to_string();
    assert!(error.contains("remove `tree/0000000000000000002`"), "{error}");
    assert_eq!(content(&scene.tree()).len(), before);
    let error = scene.refusal(&scene.reader("key", "a"));
    assert!(error.contains("--generation 1 reads the one before"), "{error}");
    fs::remove_file(root(&scene, 1002)).unwrap();
    assert_eq!(scene.seal(&sealed).1.generation, 1002);
    assert!(scene.faults(&scene.reader("key", "a")).is_empty());
}

#[test]
fn a_selection_of_nothing_is_refused() {
    let mut scene = versions("key", 1);
    let sealed = scene.writer("key", "a");
    for (include, exclude) in [(&[][..], &["*"][..]), (&["*.none"], &[])] {
        scene.run.transfer.selection = Selection::new(include, exclude).unwrap();
        let error = scene.try_seal(&sealed).unwrap_err().to_string();
        assert!(error.contains("leave out all files"), "{error}");
    }
    scene.run.transfer.selection = Selection::default().only(&["none"]).unwrap();
    assert!(scene.try_seal(&sealed).unwrap_err().to_string().contains("leave out all files"));
    assert!(!root(&scene, 2).exists());
}

/// The complete files in `writers/`.
fn writers(scene: &Scene) -> BTreeSet<PathBuf> {
    // A run may be at work there. Before the first one, the directory is not there.
    let entries = fs::read_dir(scene.tree().join("writers")).into_iter().flatten().flatten();
    let names = entries.map(|entry| PathBuf::from(entry.file_name()));
    names.filter(|name| name.as_os_str().len() == 32).collect()
}

/// Kills a run once its file is in `writers/`. Returns false if each one was over before that.
fn kill(scene: &Scene, action: &str) -> bool {
    let writers = || writers(scene);
    for _ in 0..100 {
        let before = writers();
        let mut command = scene.seal_command("recipient", "a");
        command.env(ACTION, action).stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = command.spawn().unwrap();
        while writers().is_subset(&before) && run.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        drop(run.kill());
        run.wait().unwrap();
        if !writers().is_subset(&before) {
            return true;
        }
    }
    false
}

/// The same for a run that has much to do.
fn kill_sealing(scene: &Scene) {
    scene.write("much", &vec![7; 32 << 20]);
    scene.settle();
    assert!(kill(scene, ""), "every run was over before it was killed");
    fs::remove_file(scene.source().join("much")).unwrap();
}

#[test]
fn killed_writers_of_the_same_machine_are_forgotten() {
    let scene = versions("recipient", 2);
    let writers = || writers(&scene).len();
    // Cleaning is over soon.
    kill(&scene, "clean");
    kill_sealing(&scene);
    assert!(writers() > 0);
    scene.write("x", b"more");
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    assert_eq!(writers(), 0);
    kill_sealing(&scene);
    let cleaned = clean(&scene, 1, &holder(&scene, "recipient")).unwrap();
    assert_eq!((writers(), cleaned.writers.len()), (0, 0));
}

#[test]
fn a_comparison_of_a_part_is_of_that_part() {
    let scene = versions("key", 1);
    scene.write("new", b"");
    scene.settle();
    scene.seal(&scene.writer("key", "a"));
    let sealed = SealedOptions { at: At::Number(1), ..scene.writer("key", "a") };
    let source = Local::new(scene.source(), &TreeOptions::default());
    let diff = |path: &str, later: Later<'_>| {
        let only = Selection::default().only(&[path]).unwrap();
        let mut found = Vec::new();
        let run = &scene.run.run;
        indexed::diff(&local(&scene), later, run, &only, &sealed, &mut |it| {
            found.push((it.path, it.change));
            true
        })
        .map(|()| found)
    };
    for later in [Later::Generation(At::Newest), Later::Place(&source)] {
        assert_eq!(diff("new", later).unwrap(), [(PathBuf::from("new"), Change::Added)]);
        assert_eq!(diff("y", later).unwrap(), []);
        let error = diff("nope", later).unwrap_err().to_string();
        assert!(error.contains("`nope`: nothing of this name"), "{error}");
    }
}
