//! A target that answers differently each time that it is asked.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use common::sealed::{Scene, content, key};
use evener_place::indexed::{self, Ends, ShardEnd, ShardOptions};
use evener_place::{
    Abilities, Blob, Draft, Entry, Fault, Local, Name, NewObject, Origin, Store, Tree, TreeOptions,
};

/// A place that answers the first reads of a file with those of another file of its length.
struct Liar {
    honest: Local,
    file: Name,
    other: Name,
    lies: AtomicUsize,
}

impl Origin for Liar {
    fn abilities(&self) -> Abilities {
        Origin::abilities(&self.honest)
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        self.honest.walk()
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, Fault> {
        self.honest.list(directory)
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let (honest, read) = self.honest.open(name, first)?;
        if *name != self.file {
            return Ok((honest, read));
        }
        let (other, _) = self.honest.open(&self.other, &mut [])?;
        let lies = AtomicUsize::new(self.lies.load(Ordering::Relaxed));
        Ok((Box::new(Lying { honest, other, lies }), read))
    }
}

impl Store for Liar {
    fn abilities(&self) -> Abilities {
        Store::abilities(&self.honest)
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        self.honest.look(name)
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        self.honest.begin(object)
    }

    fn origin(&self) -> Option<&dyn Origin> {
        Some(self)
    }

    fn sync(&self) -> Result<(), Fault> {
        self.honest.sync()
    }

    fn tree(&self) -> Option<&dyn Tree> {
        self.honest.tree()
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        self.honest.remove(name)
    }
}

struct Lying {
    honest: Box<dyn Blob>,
    other: Box<dyn Blob>,
    lies: AtomicUsize,
}

impl Blob for Lying {
    fn length(&self) -> u64 {
        self.honest.length()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        let lie = |lies: usize| lies.checked_sub(1);
        match self.lies.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lie) {
            Ok(_) => self.other.read_at(buffer, at),
            Err(_) => self.honest.read_at(buffer, at),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        self.honest.check()
    }
}

/// The files in `data/` that have the length of another, as names in the tree.
fn alike(tree: &Path) -> Vec<PathBuf> {
    let files = content(&tree.join("data"));
    let mut files: Vec<_> =
        files.into_iter().map(|(path, (.., bytes))| (bytes.len(), path)).collect();
    files.sort();
    let (longest, _) = files[files.len() - 1];
    let alike = files.into_iter().filter(|(length, _)| *length == longest);
    alike.map(|(_, path)| Path::new("data").join(path)).collect()
}

/// A shard whose first attempt was killed before its receipt.
fn killed() -> Scene {
    let scene = Scene::new();
    for name in ["one", "two"] {
        scene.write(name, name.repeat(20_000).as_bytes());
    }
    scene.settle();
    scene.plan(100);
    assert_eq!(scene.run_shard(0).1, ShardEnd::Done);
    fs::remove_file(scene.job().join("receipts/000000000")).unwrap();
    scene
}

#[test]
fn an_entry_has_the_header_and_the_tag_that_were_authenticated() {
    for lies in 0..6 {
        let scene = killed();
        let files = alike(&scene.tree());
        assert_eq!(files.len(), 2);
        let all = TreeOptions::default();
        let name = |at: usize| Name::new(&files[at]).unwrap();
        let target = Liar {
            honest: Local::new(scene.tree(), &all),
            file: name(0),
            other: name(1),
            lies: AtomicUsize::new(lies),
        };
        let (source, job) = (Local::new(scene.source(), &all), Local::new(scene.job(), &all));
        let ends = Ends { source: &source, target: &target, job: &job, manifest: None };
        let run = &scene.run.run;
        let (_, end) = indexed::run_shard(&ends, run, &key(7), 0, ShardOptions::default()).unwrap();
        let expected = if lies == 0 { ShardEnd::Done } else { ShardEnd::Conflict };
        assert_eq!(end, expected, "{lies}");
    }
}
