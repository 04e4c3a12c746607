//! Sealed trees on full disks, with damaged files, and with junk in their place.

mod common;

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;

use common::child::shim;
use common::forge::Forge;
use common::sealed::{Scene, key, seal_in_child};
use common::{bytes, options};
use evener_place::indexed::{self, CleanOptions, Depth, SealedOptions};
use evener_place::{
    Abilities, Blob, Entry, Fault, Local, MOST_LISTED, Name, Operation, OperationError, Origin,
    Selection, TreeOptions,
};
use rustix::fs::{FlockOperation, flock};

#[test]
fn child() {
    seal_in_child();
}

fn local(scene: &Scene) -> Local {
    Local::new(scene.tree(), &TreeOptions::default())
}

#[test]
fn a_place_that_takes_nothing_is_told_once() {
    for (call, error, text) in [
        ("openat", "13", "Permission denied"),
        ("openat", "30", "Read-only file system"),
        ("pwrite", "28", "No space left on device"),
        ("pwrite", "122", "Disk quota exceeded"),
    ] {
        let scene = Scene::new();
        scene.write("first", b"first");
        scene.settle();
        scene.seal(&scene.with_key("a"));
        (0..100).for_each(|number| scene.write(&format!("{number}"), &bytes(20)));
        scene.settle();
        let mut command = scene.seal_command("key", "a");
        command.env("LD_PRELOAD", shim()).env("EVENER_FAULT_BELOW", scene.tree().join("data"));
        command.env("EVENER_FAULT_CALL", call).env("EVENER_FAULT_DO", error);
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        let lines: Vec<_> = told.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 1, "{told}");
        assert!(lines[0].contains(text) && lines[0].contains("no generation was made"), "{told}");
        assert_eq!(scene.seal(&scene.with_key("a")).1.generation, 2);
        scene.open("out", &scene.with_key("b"));
        scene.assert_same("out");
    }
}

/// A damaged file stops a new key. Once it is sealed again from its source, the same call succeeds.
#[test]
fn a_damaged_file_does_not_keep_the_old_key_for_ever() {
    let scene = Scene::new();
    (0..20).for_each(|number| scene.write(&format!("{number}"), &bytes(20)));
    scene.write("long", &bytes(300_000));
    scene.settle();
    scene.seal(&scene.with_key("a"));
    let damaged = Forge::of(&scene, &key(7)).file(1, "long");
    let mut content = fs::read(&damaged).unwrap();
    content[100_000] ^= 1;
    fs::write(&damaged, content).unwrap();
    let (run, new) = (&scene.run, key(8));
    let rekey = || {
        let sealed = scene.with_key("a");
        indexed::rekey(&local(&scene), &run.run, &run.transfer, &sealed, Some(&new))
    };
    for round in 0..2 {
        let report = rekey().unwrap_err().into_report().unwrap();
        assert_eq!(report.files, if round == 0 { 20 } else { 0 });
        let [failure] = &report.failures[..] else { panic!("{:?}", report.failures) };
        assert!(failure.path.ends_with("long"), "{failure}");
        let told = format!("{:?}", report.notices);
        assert!(told.contains("the tree keeps its key"), "{told}");
        assert!(told.contains("encrypt --sealed --checksum"), "{told}");
    }
    let compares = SealedOptions { compares: true, ..scene.with_key("a") };
    assert_eq!(scene.seal(&compares).0.files, 1);
    assert_eq!(rekey().unwrap().1.generation, 3);
    let mut reader = scene.with_key("b");
    reader.keychain.keys = vec![key(8)];
    scene.open("out", &reader);
    scene.assert_same("out");
}

/// A file under the next number that is too long for a root.
#[test]
fn writers_pass_over_a_file_of_any_length() {
    for kind in ["key", "recipient"] {
        let scene = Scene::new();
        for round in 0..3_u8 {
            scene.write("x", &[round]);
            scene.settle();
            let number = scene.seal(&scene.writer(kind, "a")).1.generation;
            assert_eq!(number, 2 * u64::from(round) + 1, "{kind}");
            let junk = scene.tree().join(format!("tree/{:019}", number + 1));
            fs::File::create(junk).unwrap().set_len((72 << 20) + 1).unwrap();
        }
        fs::remove_file(scene.tree().join("tree/0000000000000000006")).unwrap();
        assert_eq!(scene.open("out", &scene.reader(kind, "b")).number, 5);
        scene.assert_same("out");
        scene.copy("tree", "other");
        let clean = CleanOptions { keep: 1, ..CleanOptions::default() };
        let sealed =
            SealedOptions { keychain: scene.reader(kind, "a").keychain, ..scene.writer(kind, "a") };
        indexed::clean(&local(&scene), &scene.run.run, &sealed, &clean).unwrap();
    }
}

#[test]
fn a_root_that_counts_other_entries_than_it_has_is_an_error() {
    let scene = Scene::new();
    let forge = Forge::begin(&scene, &key(7));
    forge.publish_as(1, Vec::new(), None, |_, body| body.entries = 1 << 63);
    let sealed = scene.with_key("a");
    let told = "the index has 0 entries with 0 bytes of content, and its root says \
                9223372036854775808 with 0";
    for operation in [Operation::Verify, Operation::Decrypt] {
        let failures = scene.failures_with(&options(), operation, &sealed);
        let [(path, reason)] = &failures.iter().collect::<Vec<_>>()[..] else {
            panic!("{operation:?}: {failures:?}")
        };
        assert!(path.ends_with("tree") && reason.starts_with(told), "{path}: {reason}");
    }
    let (run, transfer) = (&scene.run.run, &scene.run.transfer);
    let report = |result: Result<_, OperationError>| {
        result.map(drop).unwrap_err().into_report().unwrap().failures
    };
    let quick = report(indexed::verify_quickly(&local(&scene), run, transfer, &sealed));
    let sample = report(indexed::verify_sample(&local(&scene), run, transfer, &sealed, 3));
    for failures in [quick, sample] {
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert!(failures[0].error.to_string().starts_with(told), "{failures:?}");
    }
    let mut listed = Vec::new();
    let all = Selection::default();
    indexed::list(&local(&scene), run, &all, Depth::All, &sealed, &mut |entry| {
        listed.push(entry);
        true
    })
    .unwrap();
    let [Err(failure)] = &listed[..] else { panic!("{listed:?}") };
    assert!(failure.error.to_string().starts_with(told), "{failure}");
}

#[test]
fn cleaning_removes_what_killed_writers_left_unfinished() {
    let scene = Scene::new();
    scene.write("x", b"x");
    scene.settle();
    scene.seal(&scene.with_key("a"));
    let data = fs::read_dir(scene.tree().join("data")).unwrap().next().unwrap().unwrap().path();
    let directories = ["", "tree", "keys", "writers"].map(|it| scene.tree().join(it));
    let unfinished = |directory: &Path, name| {
        fs::create_dir_all(directory).unwrap();
        let path = directory.join(format!(".evener-000000000000000{name}.part"));
        fs::write(&path, "unfinished").unwrap();
        path
    };
    let places = || directories.iter().chain([&data]);
    let left: Vec<_> = places().map(|it| unfinished(it, 1)).collect();
    let living: Vec<_> = places().map(|it| unfinished(it, 2)).collect();
    let open: Vec<_> = living.iter().map(|it| fs::File::open(it).unwrap()).collect();
    open.iter().for_each(|it| flock(it.as_fd(), FlockOperation::LockExclusive).unwrap());
    let clean = |dry_run| {
        let options = CleanOptions { keep: 1, dry_run, ..CleanOptions::default() };
        indexed::clean(&local(&scene), &scene.run.run, &scene.with_key("a"), &options).unwrap();
    };
    clean(true);
    assert!(left.iter().all(|path| path.exists()));
    clean(false);
    assert!(left.iter().all(|path| !path.exists()), "{left:?}");
    assert!(living.iter().all(|path| path.exists()), "{living:?}");
}

/// A place that lists other wrapped keys than there are.
struct Lying<F>(Local, F);

impl<F: Fn(Vec<Entry>) -> Result<Vec<Entry>, Fault> + Send + Sync> Origin for Lying<F> {
    fn abilities(&self) -> Abilities {
        Origin::abilities(&self.0)
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        self.0.walk()
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, Fault> {
        let entries = self.0.list(directory)?;
        if directory.path() == "keys" { (self.1)(entries) } else { Ok(entries) }
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        self.0.open(name, first)
    }
}

#[test]
fn wrapped_keys_without_number_are_refused() {
    let scene = Scene::new();
    scene.write("x", b"x");
    scene.settle();
    scene.seal(&scene.writer("recipient", "a"));
    let mut keys = fs::read_dir(scene.tree().join("keys")).unwrap();
    let wrapping = keys.next().unwrap().unwrap().path();
    let add = |number: u32| {
        fs::write(wrapping.with_extension(number.to_string()), "junk").unwrap();
    };
    (2..=100).for_each(add);
    let reader = scene.reader("recipient", "b");
    scene.open("out", &reader);
    let refusal = |origin: &dyn Origin| {
        let (run, transfer) = (&scene.run.run, &scene.run.transfer);
        let opened = indexed::open(Operation::Verify, origin, None, run, transfer, &reader);
        opened.unwrap_err().to_string()
    };
    let error = refusal(&Lying(local(&scene), |mut entries: Vec<Entry>| {
        let name = |number: usize| Name::new(format!("keys/{number}")).unwrap();
        entries.extend((0..MOST_LISTED).map(|number| Entry::new(name(number), None)));
        Ok(entries)
    }));
    assert!(error.contains("`keys` has more than 100000"), "{error}");
    let (name, reason) = (Name::new("keys/bad").unwrap(), "such a name is not taken".to_owned());
    let error = refusal(&Lying(local(&scene), |_: Vec<Entry>| {
        Err(Fault::Entry { name: name.clone(), reason: reason.clone() })
    }));
    assert!(error.contains("`keys/bad`: such a name is not taken"), "{error}");
    add(101);
    let error = scene.refusal(&reader);
    assert!(error.contains("of the 101 wrappings"), "{error}");
    assert!(error.contains("the last 100 were tried"), "{error}");
}
