//! Tests sealed trees: what goes in comes out, and updates do no more than they must.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::bytes;
use common::sealed::Scene;
use evener_format::index::Padding;
use evener_keys::age::Identity;
use evener_place::indexed::{self, SealedOptions};
use evener_place::{
    Abilities, Blob, Control, Entry, Failure, Fault, FileError, Local, Name, Operation,
    OperationError, Origin, Selection, TreeOptions,
};
use rustix::fs::{XattrFlags, getxattr, setxattr};

/// A source with every kind of entry.
fn filled() -> Scene {
    let scene = Scene::new();
    for (number, length) in [0, 1, 16_384, 16_385, 300_000, 3_000_001].iter().enumerate() {
        scene.write(&format!("files/{number}"), &bytes(*length));
    }
    scene.write("files-2/a", b"a");
    scene.write("files/below/b", b"b");
    fs::create_dir(scene.source().join("empty")).unwrap();
    symlink("files/1", scene.source().join("link")).unwrap();
    fs::hard_link(scene.source().join("files/4"), scene.source().join("files/again")).unwrap();
    scene.settle();
    scene
}

#[test]
fn a_tree_goes_there_and_back() {
    let scene = filled();
    let sealed = scene.with_key("a");
    let (report, made) = scene.seal(&sealed);
    assert_eq!((report.files, made.generation, made.is_new), (8, 1, true));
    assert_eq!((report.hard_links, report.symlinks), (1, 1));
    let info = scene.open("out", &scene.with_key("b"));
    assert_eq!((info.number, info.signer), (1, None));
    scene.assert_same("out");
    assert!(scene.verify(&sealed).unwrap().is_success());
}

#[test]
fn recipients_alone_update_a_tree() {
    let scene = filled();
    let identity = Identity::generate();
    let sealed = scene.with_recipient(&identity, "a");
    assert_eq!(scene.seal(&sealed).1.generation, 1);
    scene.write("files/1", b"changed");
    fs::rename(scene.source().join("files/3"), scene.source().join("moved")).unwrap();
    fs::remove_file(scene.source().join("files/2")).unwrap();
    scene.settle();
    let (report, made) = scene.seal(&sealed);
    assert_eq!((report.files, made.generation, made.gone, made.moved), (1, 2, 1, 1));
    let (report, made) = scene.seal(&sealed);
    assert_eq!((report.files, made.generation, made.is_new), (0, 2, false));
    let info = scene.open("out", &scene.with_identity(&identity, "b"));
    assert!(info.signer.is_some() && info.number == 2);
    scene.assert_same("out");
}

#[test]
fn an_unchanged_update_writes_nothing() {
    let scene = filled();
    let sealed = scene.with_key("a");
    scene.seal(&sealed);
    let before = common::sealed::content(&scene.tree());
    let (report, made) = scene.seal(&sealed);
    assert_eq!((report.files, report.files_unchanged, made.is_new), (0, 8, false));
    let names = |content: std::collections::BTreeMap<std::path::PathBuf, _>| {
        content.into_keys().collect::<Vec<_>>()
    };
    assert_eq!(names(common::sealed::content(&scene.tree())), names(before));
    // On another machine, size and time decide.
    let (report, made) = scene.seal(&scene.with_key("b"));
    assert_eq!((report.files, made.is_new), (0, false));
    assert!(report.notices.iter().any(|notice| notice.reason.contains("no state")));
}

#[test]
fn one_changed_file_is_sealed_before_many_unchanged_entries() {
    let scene = Scene::new();
    scene.write("a", b"a");
    for number in 0..70_000 {
        symlink("a", scene.source().join(format!("link-{number}"))).unwrap();
    }
    scene.settle();
    let sealed = scene.with_key("a");
    let dry_run = SealedOptions { dry_run: true, ..sealed.clone() };
    for sealed in [&dry_run, &sealed] {
        let (report, _) = scene.seal(sealed);
        assert_eq!((report.files, report.symlinks), (1, 70_000));
    }
}

#[test]
fn a_tree_may_be_padded_to_much() {
    let scene = Scene::new();
    scene.write("a", b"a");
    scene.seal(&SealedOptions { padding: Some(6 << 20), ..scene.with_key("a") });
    scene.open("out", &scene.with_key("b"));
    scene.assert_same("out");
    fs::remove_dir_all(scene.tree()).unwrap();
    let longer = SealedOptions { padding: Some(Padding::MOST_FLOOR + 1), ..scene.with_key("c") };
    assert!(scene.try_seal(&longer).is_err());
}

#[test]
fn a_run_goes_on_where_another_was_stopped() {
    let identity = Identity::generate();
    for has_key in [true, false] {
        let mut scene = Scene::new();
        for number in 0..6000 {
            scene.write(&format!("{}/{number}", number % 7), &bytes(50));
        }
        scene.settle();
        let sealed = match has_key {
            true => scene.with_key("a"),
            false => scene.with_recipient(&identity, "a"),
        };
        let run = scene.run.run.clone();
        let (control, done) = (Arc::new(Control::default()), AtomicU64::new(0));
        let stop = control.clone();
        scene.run.run.control = control;
        scene.run.run.listener = Some(Arc::new(move |_, _| {
            if done.fetch_add(1, Ordering::Relaxed) == 5000 {
                stop.stop();
            }
        }));
        let report = scene.try_seal(&sealed).unwrap_err().into_report().unwrap();
        assert!(report.interrupted && (5000..6000).contains(&report.files), "{}", report.files);
        scene.run.run = run;
        let stopped = report.files;
        let (report, made) = scene.seal(&sealed);
        assert_eq!((report.files + report.files_unchanged, made.generation), (6000, 1));
        // Each worker may seal a file again that it ended as the run stopped.
        assert!((6000..6010).contains(&(stopped + report.files)), "{stopped} + {}", report.files);
        let reader = match has_key {
            true => sealed,
            false => scene.with_identity(&identity, "b"),
        };
        scene.open("out", &reader);
        scene.assert_same("out");
        let left = |name: &str| fs::read_dir(scene.tree().join(name)).unwrap().count();
        assert_eq!(left("writers"), 0);
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let scene = Scene::new();
    // So many entries make several blocks.
    for number in 0..3_000 {
        fs::create_dir(scene.source().join(number.to_string())).unwrap();
    }
    let sealed = SealedOptions { dry_run: true, ..scene.with_key("a") };
    scene.seal(&sealed);
    assert!(!scene.tree().exists());
}

#[test]
fn attributes_of_unchanged_files_are_kept() {
    let scene = Scene::new();
    for name in ["a", "b"] {
        scene.write(name, b"content");
        let path = scene.source().join(name);
        if setxattr(path, "user.of", name.as_bytes(), XattrFlags::empty()).is_err() {
            evener_core::skipped!("the file system has no extended attributes");
            return;
        }
    }
    scene.settle();
    let with = SealedOptions { xattrs: true, ..scene.with_key("a") };
    scene.seal(&scene.with_key("a"));
    for round in ["first", "second"] {
        // The first run that keeps them, and one that finds them known.
        assert_eq!(scene.seal(&with).0.files, 0);
        scene.open(round, &with);
        let mut value = [0; 8];
        let length = getxattr(scene.path(round).join("b"), "user.of", &mut value[..]).unwrap();
        assert_eq!(value[..length], *b"b");
    }
}

#[test]
fn what_can_not_be_read_stays_as_it_was() {
    let scene = filled();
    let sealed = scene.with_key("a");
    scene.seal(&sealed);
    let closed = scene.source().join("files");
    // The superuser can read everything, so this source says that it can't.
    let hidden = scene.path("hidden");
    fs::rename(&closed, &hidden).unwrap();
    let origin = Unread(Local::new(scene.source(), &TreeOptions::default()));
    fs::create_dir(&closed).unwrap();
    let store = Local::new(scene.tree(), &TreeOptions::default());
    let (run, transfer) = (&scene.run.run, &scene.run.transfer);
    let error = indexed::seal(&origin, &store, run, transfer, &sealed).unwrap_err();
    let report = error.into_report().unwrap();
    assert_eq!(report.failures.len(), 1);
    fs::remove_dir(&closed).unwrap();
    fs::rename(&hidden, &closed).unwrap();
    scene.open("out", &sealed);
    let names =
        |root: &str| common::sealed::content(&scene.path(root)).into_keys().collect::<Vec<_>>();
    assert_eq!(names("out"), names("source"));
}

/// A place whose directory `files` can't be read.
struct Unread(Local);

impl Origin for Unread {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        let entries = self.0.walk().flat_map(|entry| {
            let is_it = entry.as_ref().is_ok_and(|entry| entry.name.path() == Path::new("files-2"));
            let name = Name::new("files").unwrap();
            let fault = Fault::Entry { name, reason: "can't be read".to_owned() };
            let fault = is_it.then_some(Err(fault));
            [Some(entry), None].into_iter().flatten().chain(fault).collect::<Vec<_>>()
        });
        // The fault comes where the directory would be read: after the entries of the root.
        let (faults, mut entries): (Vec<_>, Vec<_>) = entries.partition(Result::is_err);
        let below = |entry: &Result<Entry, Fault>| {
            entry.as_ref().is_ok_and(|entry| entry.name.path().components().count() > 1)
        };
        let at = entries.iter().position(below).unwrap_or(entries.len());
        entries.splice(at..at, faults);
        Box::new(entries.into_iter())
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        self.0.open(name, first)
    }
}

#[test]
fn the_total_is_told_to_whom_asks_for_it() {
    let scene = filled();
    let sealed = scene.with_key("a");
    scene.seal(&sealed);
    let part = Selection::default().only(&["files/below"]).unwrap();
    for (selection, is_all) in [(Selection::default(), true), (part, false)] {
        for asks in [false, true] {
            let options = scene.run.clone().with(|it| {
                it.run.control = Arc::default();
                it.transfer.selection = selection.clone();
            });
            let control = options.run.control.clone();
            if asks {
                control.want_total();
            }
            let failures = scene.failures_with(&options, Operation::Decrypt, &sealed);
            assert!(failures.is_empty(), "{failures:?}");
            let progress = control.progress();
            let expected = (progress.done_files, progress.done_bytes);
            assert!(expected.0 > 0 && is_all == (expected.0 > 5), "{expected:?}");
            assert_eq!(control.total(), asks.then_some(expected));
        }
    }
}

/// As where a disk is not mounted.
#[test]
fn a_source_that_holds_nothing_makes_no_generation() {
    let scene = Scene::new();
    let sealed = scene.with_key("a");
    let refusal = || match scene.try_seal(&sealed).unwrap_err() {
        OperationError::NotBegun(Failure { path, error }) => {
            assert_eq!(path, scene.source());
            error.to_string()
        }
        error => panic!("{error}"),
    };
    assert!(refusal().contains("nothing was sealed"));
    assert!(!scene.tree().exists());
    scene.write("x", b"x");
    scene.settle();
    scene.seal(&sealed);
    fs::remove_file(scene.source().join("x")).unwrap();
    assert!(refusal().contains("nothing was sealed"));
    assert_eq!(scene.open("out", &sealed).number, 1);
}

#[test]
fn a_stop_while_the_root_is_read_is_no_damage() {
    let scene = filled();
    let sealed = scene.with_key("a");
    scene.seal(&sealed);
    scene.run.run.control.stop();
    for stopped in [scene.try_seal(&sealed).err(), scene.try_open("out", &sealed).err()] {
        match stopped.unwrap().into_report() {
            Ok(report) => assert!(report.interrupted),
            Err(failure) => assert_eq!(failure.error, FileError::Interrupted),
        }
    }
}
