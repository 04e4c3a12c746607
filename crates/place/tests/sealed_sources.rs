//! Sealed trees of sources that are no local trees, or have unusual names.

mod common;

use std::fs;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use common::bytes;
use common::sealed::{Scene, key};
use common::slow::Slow;
use evener_place::indexed::{self, Keychain, SealedOptions};
use evener_place::{
    Abilities, Blob, Entry, Fault, Kind, Local, Memory, Metadata, Name, OperationError, Origin,
    Report, Store, TreeOptions,
};

/// Objects in the order of their whole names, as object stores list them: without directories.
struct Listed {
    objects: Memory,
    /// The object in place of which, and of all later ones, there is a failure.
    fails_at: Option<&'static str>,
}

impl Listed {
    fn new(names: &[&str]) -> Listed {
        let objects = Memory::new();
        for name in names {
            objects.insert(Name::new(name).unwrap(), name.as_bytes());
        }
        Listed { objects, fails_at: None }
    }

    fn entry(&self, name: Name) -> Result<Entry, Fault> {
        match Store::look(&self.objects, &name)? {
            _ if self.fails_at.is_some_and(|fails| name.path().to_str() >= Some(fails)) => {
                Err(Fault::Failed("the line is down".to_owned()))
            }
            Some(entry) => Ok(entry),
            None => Err(Fault::Missing(name)),
        }
    }
}

impl Origin for Listed {
    fn abilities(&self) -> Abilities {
        Abilities::QUICK
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        let mut names = self.objects.names();
        names.sort_by_key(|name| name.path().to_str().map(str::to_owned));
        let mut entries: Vec<_> = names.into_iter().map(|name| self.entry(name)).collect();
        // The marker of a directory, as programs make them.
        let marker = Entry::of(Name::new("b").unwrap(), Kind::Directory, Metadata::default());
        entries.push(Ok(marker));
        Box::new(entries.into_iter())
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        self.objects.open(name, first)
    }
}

fn seal(scene: &Scene, source: &dyn Origin, sealed: &SealedOptions) -> Report {
    let store = Local::new(scene.tree(), &TreeOptions::default());
    match indexed::seal(source, &store, &scene.run.run, &scene.run.transfer, sealed) {
        Ok((report, _)) => report,
        Err(error) => OperationError::into_report(error).unwrap(),
    }
}

const NAMES: [&str; 7] = ["a-b", "a.c", "a/x/deep", "a/x-", "b/1", "c", "z/y/x/w"];

#[test]
fn objects_in_another_order_are_sealed() {
    let (scene, source) = (Scene::new(), Listed::new(&NAMES));
    let sealed = scene.with_key("a");
    let report = seal(&scene, &source, &sealed);
    assert!(report.is_success(), "{report:?}");
    assert_eq!(report.files, 7);
    scene.open("out", &sealed);
    for name in NAMES {
        assert_eq!(fs::read(scene.path("out").join(name)).unwrap(), name.as_bytes());
    }
}

#[test]
fn an_object_with_names_below_it_fails_alone() {
    let (scene, source) = (Scene::new(), Listed::new(&["a", "a/x", "c"]));
    let sealed = scene.with_key("a");
    let report = seal(&scene, &source, &sealed);
    let failed: Vec<_> = report.failures.iter().map(|it| it.path.to_str().unwrap()).collect();
    assert_eq!((report.files, &failed[..]), (2, &["a"][..]));
    scene.open("out", &sealed);
    assert_eq!(fs::read(scene.path("out/a/x")).unwrap(), b"a/x");
}

#[test]
fn nothing_is_gone_after_a_list_that_breaks_off() {
    let (scene, mut source) = (Scene::new(), Listed::new(&NAMES));
    let sealed = scene.with_key("a");
    assert!(seal(&scene, &source, &sealed).is_success());
    source.fails_at = Some("a/x");
    let report = seal(&scene, &source, &sealed);
    assert_eq!(report.failures.len(), 1, "{report:?}");
    scene.open("out", &sealed);
    for name in NAMES {
        assert_eq!(fs::read(scene.path("out").join(name)).unwrap(), name.as_bytes());
    }
}

#[test]
fn names_of_wrapped_keys_are_names_like_others() {
    let scene = Scene::new();
    for name in ["evener-key.age", "below/evener-key-2.age", "x.enc.evener-key.age", "other"] {
        scene.write(name, &bytes(30));
    }
    let sealed = scene.with_key("a");
    scene.seal(&sealed);
    scene.open("out", &sealed);
    scene.assert_same("out");
    assert_eq!(scene.verify(&sealed).unwrap().files, 4);
}

#[test]
fn two_first_runs_of_one_machine_make_one_tree() {
    let scene = Scene::new();
    scene.write("a", b"a");
    scene.settle();
    // Both look before either has begun the tree.
    let store = Slow::new(Memory::new(), Duration::from_millis(20), 1 << 20);
    let run = || {
        let source = Local::new(scene.source(), &TreeOptions::default());
        let sealed = scene.with_key("a");
        indexed::seal(&source, &store, &scene.run.run, &scene.run.transfer, &sealed)
    };
    thread::scope(|scope| {
        let runs = [scope.spawn(run), scope.spawn(run)].map(|it| it.join().unwrap());
        for (report, made) in runs.map(|it| it.map_err(|error| error.to_string()).unwrap()) {
            assert!(report.is_success() && made.generation > 0, "{report:?}");
        }
    });
}

#[test]
fn a_tree_far_away_is_sealed_anew_with_few_calls() {
    let scene = Scene::new();
    scene.write("long", &bytes(4 << 20));
    scene.settle();
    let store = Slow::new(Memory::new(), Duration::ZERO, 1 << 20);
    let source = Local::new(scene.source(), &TreeOptions::default());
    let sealed = scene.with_key("a");
    indexed::seal(&source, &store, &scene.run.run, &scene.run.transfer, &sealed).unwrap();
    let calls = |from| store.calls.made.load(Ordering::SeqCst) - from;
    let before = calls(0);
    let (run, transfer) = (&scene.run.run, &scene.run.transfer);
    indexed::rekey(&store, run, transfer, &sealed, Some(&key(8))).unwrap();
    assert!(calls(before) < 100, "{}", calls(before));
    let sealed = SealedOptions {
        keychain: Keychain { keys: vec![key(8)], ..Keychain::default() },
        ..scene.with_key("b")
    };
    let before = calls(0);
    let (files, _) = indexed::open_files(&store, run, &sealed, &["long".into()]).unwrap();
    let mut at = 0;
    while at < files[0].length() {
        let mut chunk = vec![0; 16_400.min(files[0].length() - at) as usize];
        files[0].read_at(&mut chunk, at).unwrap();
        at += chunk.len() as u64;
    }
    assert!(calls(before) < 40, "{}", calls(before));
}
