//! A source and a target of an interrupted operation, and the conditions that must hold for them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::process;
use evener_place::Operation;
use tempfile::TempDir;

use super::child::{Errand, Flags, key_ring};
use super::{Entry, assert_same_tree, bytes, home, options, snapshot};

/// The trees on both sides of one operation.
pub struct Scene {
    pub operation: Operation,
    pub keys: &'static str,
    pub flags: Flags,
    home: TempDir,
    source_before: BTreeMap<PathBuf, Entry>,
}

/// Everything is in [`Scene::home`].
impl Scene {
    /// Makes a tree with `fill`, and the operation's inputs from it. With `overwrite` or `update`,
    /// the target holds an older state of the same tree.
    pub fn new(
        operation: Operation,
        keys: &'static str,
        flags: Flags,
        fill: impl Fn(&Path, Age),
    ) -> Scene {
        let home = home();
        let at = |name: &str| home.path().join(name);
        fill(&at("plain"), Age::New);
        fill(&at("old-plain"), Age::Old);
        for (plain, sealed) in [("plain", "sealed"), ("old-plain", "old-sealed")] {
            apply(Operation::Encrypt, keys, &at(plain), &at(sealed));
        }
        let (source, target) = match operation {
            Operation::Encrypt => ("plain", "old-sealed"),
            Operation::Decrypt | Operation::Verify => ("sealed", "old-plain"),
        };
        // The plain tree stays as the reference for comparisons.
        copy_tree(&at(source), &at("source"));
        if flags.overwrite || flags.update {
            copy_tree(&at(target), &at("target"));
        }
        let source_before = snapshot(&at("source"));
        Scene { operation, keys, flags, home, source_before }
    }

    pub fn source(&self) -> PathBuf {
        self.home.path().join("source")
    }

    pub fn target(&self) -> PathBuf {
        self.home.path().join("target")
    }

    /// The place where a process can leave a mark.
    pub fn mark(&self) -> PathBuf {
        self.home.path().join("mark")
    }

    pub fn command(&self) -> std::process::Command {
        let (source, target) = (self.source(), self.target());
        self.errand(&source, &target, self.flags).command()
    }

    fn errand<'a>(&'a self, source: &'a Path, target: &'a Path, flags: Flags) -> Errand<'a> {
        Errand { operation: self.operation, keys: self.keys, source, target, flags }
    }

    /// Restores the initial state.
    pub fn reset(&self) {
        let [source, target] = [self.source(), self.target()];
        let _ = fs::remove_dir_all(&target);
        let _ = fs::remove_file(self.mark());
        let (from, old) = match self.operation {
            Operation::Encrypt => ("plain", "old-sealed"),
            Operation::Decrypt | Operation::Verify => ("sealed", "old-plain"),
        };
        if self.flags.remove_source {
            fs::remove_dir_all(&source).unwrap();
            copy_tree(&self.home.path().join(from), &source);
        }
        if self.flags.overwrite || self.flags.update {
            copy_tree(&self.home.path().join(old), &target);
        }
    }

    /// Checks that an interrupted operation left only whole or absent outputs, and lost nothing.
    pub fn assert_whole(&self, what: &str) {
        let new = files(&self.home.path().join("plain"));
        let old = files(&self.home.path().join("old-plain"));
        let in_target = self.contents(&self.target(), self.output_is_sealed(), what);
        for (name, content) in &in_target {
            let is_new = new.get(name) == Some(content);
            let replaces = self.flags.overwrite || self.flags.update;
            let is_old = replaces && old.get(name) == Some(content);
            assert!(is_new || is_old, "{what}: {name:?} in the target is neither new nor old");
        }
        if !self.flags.remove_source {
            assert!(snapshot(&self.source()) == self.source_before, "{what}: the source changed");
            return;
        }
        let in_source = self.contents(&self.source(), !self.output_is_sealed(), what);
        for (name, content) in &new {
            let there = |side: &BTreeMap<PathBuf, Vec<u8>>| side.get(name) == Some(content);
            assert!(there(&in_source) || there(&in_target), "{what}: {name:?} is lost");
        }
    }

    /// Checks that nothing unfinished is in the target.
    pub fn assert_no_leftovers(&self, what: &str) {
        if !self.target().exists() {
            return;
        }
        for path in snapshot(&self.target()).keys() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            assert!(!name.starts_with(".evener-"), "{what}: {path:?} was left behind");
        }
    }

    /// The number of new files in the target.
    pub fn count_new(&self, what: &str) -> u64 {
        let new = files(&self.home.path().join("plain"));
        let there = self.contents(&self.target(), self.output_is_sealed(), what);
        there.iter().filter(|(name, content)| new.get(*name) == Some(content)).count() as u64
    }

    /// Runs the operation again with `--resume`, or to update, and checks that everything is there
    /// afterwards.
    pub fn assert_resumes(&self, what: &str) {
        let (source, target) = (self.source(), self.target());
        let flags = Flags { resume: !self.flags.update, ..self.flags };
        let report = self.errand(&source, &target, flags).perform();
        assert!(report.is_success(), "{what}: resuming: {:?}", report.failures);
        self.assert_no_leftovers(what);
        self.assert_whole(what);
        let new = files(&self.home.path().join("plain"));
        assert!(
            self.contents(&target, self.output_is_sealed(), what) == new,
            "{what}: the tree is not complete"
        );
        if self.operation == Operation::Decrypt && !self.flags.remove_source {
            assert_same_tree(&self.home.path().join("plain"), &target);
        }
    }

    fn output_is_sealed(&self) -> bool {
        self.operation == Operation::Encrypt
    }

    /// The plain contents of all files of a tree, each of which must be whole.
    fn contents(&self, tree: &Path, sealed: bool, what: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        if !tree.exists() {
            return BTreeMap::new();
        }
        if !sealed {
            let mut files = files(tree);
            files.retain(|name, _| !name.to_string_lossy().contains(".evener-"));
            return files;
        }
        let opened = home();
        let opened = opened.path().join("opened");
        let report =
            process(Operation::Decrypt, &key_ring(self.keys), tree, Some(&opened), &options());
        let report = report.unwrap();
        assert!(report.is_success(), "{what}: not whole: {:?}", report.failures);
        files(&opened)
    }
}

/// One of two states of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Age {
    Old,
    New,
}

impl Age {
    /// Creates a file with content of this age, and a modification time to match.
    pub fn write(self, path: &Path, length: usize) {
        let mut content = bytes(length);
        if self == Age::Old {
            content.iter_mut().for_each(|byte| *byte ^= 0xA5);
            content.extend(b"old");
        }
        fs::write(path, content).unwrap();
        if self == Age::Old {
            let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
    }
}

/// A few files of every type.
pub fn fill_small(root: &Path, age: Age) {
    fs::create_dir_all(root.join("sub/empty")).unwrap();
    for (name, length) in
        [("nothing", 0), ("short", 100), ("long", 150_000), ("sub/other", 17_000), ("sub/x", 1)]
    {
        age.write(&root.join(name), length);
    }
    fs::hard_link(root.join("short"), root.join("sub/same")).unwrap();
    symlink("../short", root.join("sub/link")).unwrap();
}

fn apply(operation: Operation, keys: &str, source: &Path, target: &Path) {
    let flags = Flags::default();
    let report = Errand { operation, keys, source, target, flags }.perform();
    assert!(report.is_success(), "{:?}", report.failures);
}

fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = snapshot(root).into_iter();
    entries
        .filter(|(_, entry)| entry.is_file())
        .map(|(path, entry)| (path, entry.content))
        .collect()
}

/// `cp -a`: copies hard links, times and everything else.
fn copy_tree(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}
