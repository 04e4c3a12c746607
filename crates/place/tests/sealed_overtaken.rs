//! Writers and readers of a sealed tree that others overtake: a stopped writer goes on after another
//! run and a cleaning, and a generation is removed while it is read.

mod common;

use std::env;
use std::fs;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use common::bytes;
use common::meddler::meddling;
use common::sealed::{Scene, content};
use evener_keys::signing::OwnKey;
use evener_place::indexed::{self, At, CleanOptions, Cleaned, Depth, SealedOptions, Sign, Signer};
use evener_place::{Local, Operation, Selection, TreeOptions};
use rustix::process::{Pid, Signal, getpid, kill_process};

/// Somebody who can write the tree, and read it.
fn holder(scene: &Scene, kind: &str) -> SealedOptions {
    let keychain = scene.reader(kind, "a").keychain;
    SealedOptions { keychain, ..scene.writer(kind, "a") }
}

/// A writer that stops at the moment that its environment names, once.
#[test]
fn child() {
    let Some(home) = env::var_os("EVENER_TEST_STOPPED_HOME") else { return };
    let [kind, moment] =
        ["KIND", "MOMENT"].map(|it| env::var(format!("EVENER_TEST_{it}")).unwrap());
    let mut scene = Scene::at(home.as_ref());
    let mut sealed = holder(&scene, &kind);
    let has_stopped = AtomicBool::new(false);
    let stop = move || {
        if !has_stopped.swap(true, Ordering::SeqCst) {
            kill_process(getpid(), Signal::STOP).unwrap();
        }
    };
    if moment == "when it signs" {
        let state = fs::read_dir(scene.path("state-a")).unwrap().next().unwrap().unwrap().path();
        let own = OwnKey::load(&state.join("key")).unwrap();
        let public = own.public();
        let sign: Sign = Arc::new(move |message| {
            stop();
            Ok(own.sign(message))
        });
        sealed.signer = Some(Signer { public, sign });
    } else {
        scene.run.run = meddling(stop).run;
    }
    match scene.try_seal(&sealed) {
        Ok(_) => std::process::exit(0),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

fn spawn(scene: &Scene, kind: &str, moment: &str) -> Child {
    let mut command = std::process::Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--quiet", "--nocapture"]);
    command.env("EVENER_TEST_STOPPED_HOME", scene.path(""));
    command.env("EVENER_TEST_KIND", kind).env("EVENER_TEST_MOMENT", moment);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn await_stop(child: &mut Child) {
    let status = format!("/proc/{}/stat", child.id());
    while !fs::read_to_string(&status).unwrap().contains(") T ") {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it stopped");
        sleep(Duration::from_millis(1));
    }
}

fn local(scene: &Scene) -> Local {
    Local::new(scene.tree(), &TreeOptions::default())
}

fn clean(scene: &Scene, sealed: &SealedOptions, abandon: &[String]) -> Cleaned {
    let options = CleanOptions { keep: 1, abandon: abandon.to_vec(), ..CleanOptions::default() };
    indexed::clean(&local(scene), &scene.run.run, sealed, &options).unwrap()
}

/// Makes all files in `data/` twenty days old.
fn age(scene: &Scene) {
    let then = SystemTime::now() - Duration::from_secs(20 * 24 * 60 * 60);
    for directory in fs::read_dir(scene.tree().join("data")).unwrap() {
        for file in fs::read_dir(directory.unwrap().path()).unwrap() {
            let file = fs::File::options().write(true).open(file.unwrap().path()).unwrap();
            file.set_modified(then).unwrap();
        }
    }
}

#[track_caller]
fn assert_whole(scene: &Scene, kind: &str) {
    let faults = scene.faults(&scene.reader(kind, "r"));
    assert!(faults.is_empty(), "{faults:?}");
    drop(fs::remove_dir_all(scene.path("out")));
    scene.open("out", &scene.reader(kind, "r"));
    scene.assert_same("out");
}

/// Meanwhile another run drops a file that it carries, and its content is removed; if somebody
/// believes that it was killed, so is what it has sealed itself.
fn stop_a_writer(kind: &str, moment: &str, abandons: bool) {
    let scene = Scene::new();
    for name in ["x", "y"] {
        scene.write(name, name.as_bytes());
    }
    scene.settle();
    scene.seal(&holder(&scene, kind));
    age(&scene);
    scene.write("x", b"changed");
    scene.write("z", b"new");
    scene.settle();
    let mut writer = spawn(&scene, kind, moment);
    await_stop(&mut writer);

    let mut transfer = scene.run.transfer.clone();
    transfer.selection = Selection::new(&[], &["y"]).unwrap();
    let source = Local::new(scene.source(), &TreeOptions::default());
    let sealed = holder(&scene, kind);
    let made = indexed::seal(&source, &local(&scene), &scene.run.run, &transfer, &sealed);
    assert_eq!(made.unwrap().1.generation, 2);
    let mut abandoned = Vec::new();
    if abandons {
        age(&scene);
        let names = fs::read_dir(scene.tree().join("writers")).unwrap();
        abandoned.extend(names.map(|it| it.unwrap().file_name().into_string().unwrap()));
        assert_eq!(abandoned.len(), 1);
    }
    let before = content(&scene.tree().join("data")).len();
    let cleaned = clean(&scene, &sealed, &abandoned);
    assert_eq!(cleaned.generation, Some(3));
    assert!(content(&scene.tree().join("data")).len() < before);

    kill_process(Pid::from_child(&writer), Signal::CONT).unwrap();
    let ended = writer.wait_with_output().unwrap();
    let ended = (ended.status.code(), String::from_utf8(ended.stderr).unwrap());
    let what = format!("{kind}, stopped {moment}, abandoned: {abandons}: {ended:?}");
    println!("{what}");
    match ended {
        (Some(0), _) => assert_whole(&scene, kind),
        (Some(1), told) => {
            assert!(!told.is_empty(), "{what}");
            assert!(scene.faults(&scene.reader(kind, "r")).is_empty(), "{what}");
        }
        _ => panic!("{what}"),
    }
    // And after it, all goes on.
    scene.write("w", b"later");
    scene.seal(&sealed);
    assert_whole(&scene, kind);
}

#[test]
fn a_writer_that_was_stopped_publishes_nothing_that_was_removed() {
    for abandons in [false, true] {
        stop_a_writer("key", "while it seals", abandons);
        stop_a_writer("recipient", "while it seals", abandons);
        stop_a_writer("recipient", "when it signs", abandons);
    }
}

/// A tree of two generations, and the source of the first as `first`. Half of the files differ, and
/// whatever the first generation alone needs is old.
fn two_generations(files: usize) -> Scene {
    let scene = Scene::new();
    let write = |number: usize, byte: u8| {
        let content = [&[byte; 10][..], &bytes(number % 3_000)].concat();
        scene.write(&format!("{}/{number}", number % 7), &content);
    };
    (0..files).for_each(|number| write(number, 1));
    scene.settle();
    scene.seal(&scene.with_key("a"));
    scene.copy("source", "first");
    (0..files).step_by(2).for_each(|number| write(number, 2));
    scene.settle();
    scene.seal(&scene.with_key("a"));
    age(&scene);
    scene
}

#[test]
fn a_reader_whose_generation_is_removed_is_told() {
    let scene = two_generations(200);
    let expected = content(&scene.path("first"));
    let (home, is_done) = (scene.path(""), AtomicBool::new(false));
    let options = meddling(move || {
        // The engine also opens roots and the index.
        if home.join("out").exists() && !is_done.swap(true, Ordering::SeqCst) {
            let scene = Scene::at(&home);
            assert_eq!(clean(&scene, &scene.with_key("a"), &[]).generation, Some(3));
        }
    });
    let options = options.with(|it| it.run.memory = 4 * (70 << 10));
    let first = SealedOptions { at: At::Number(1), ..scene.with_key("b") };
    let failures = scene.failures_with(&options, Operation::Decrypt, &first);
    assert!(!failures.is_empty());
    for (path, error) in &failures {
        assert_eq!(error, "generation 1 was removed", "{path}");
        assert!(!scene.path("out").join(path).exists(), "{path}");
    }
    let there = content(&scene.path("out"));
    for (path, (_, _, bytes)) in &there {
        assert!(expected.get(path).is_some_and(|(_, _, expected)| bytes == expected), "{path:?}");
    }
    assert_eq!(there.len() + failures.len(), expected.len());
    // The next reader is told before it begins.
    assert_eq!(scene.refusal(&first), "generation 1 was removed");
    assert!(scene.faults(&scene.with_key("c")).is_empty());
}

/// Its index has several blocks.
#[test]
fn a_list_of_a_generation_that_is_removed_ends() {
    let scene = two_generations(2_000);
    let first = SealedOptions { at: At::Number(1), ..scene.with_key("b") };
    let (all, mut found, mut told) = (Selection::default(), 0, Vec::new());
    indexed::list(&local(&scene), &scene.run.run, &all, Depth::All, &first, &mut |entry| {
        if found == 0 {
            clean(&scene, &scene.with_key("a"), &[]);
        }
        match entry {
            Ok(_) => found += 1,
            Err(error) => told.push(error.to_string()),
        }
        true
    })
    .unwrap();
    assert!((1..2_000).contains(&found) && !told.is_empty(), "{found}, {told:?}");
    assert!(told.iter().all(|it| it.ends_with("generation 1 was removed")), "{told:?}");
}
