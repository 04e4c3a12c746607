//! Kills runs that change a sealed tree, at moments spread evenly over each run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use super::sealed::{Scene, content};

/// The number of rounds: more in the nightly run.
pub fn rounds(usual: u32) -> u32 {
    let rounds = std::env::var("EVENER_TEST_ROUNDS").ok().and_then(|it| it.parse().ok());
    let rounds = rounds.unwrap_or(usual);
    if super::is_emulated() { rounds / 10 } else { rounds }
}

/// Kills runs of one kind, which all begin with the same tree, and counts the results.
pub struct Kills<'s> {
    scene: &'s Scene,
    spawn: Box<dyn Fn(&Scene) -> Child + 's>,
    before: BTreeSet<PathBuf>,
    /// The number of files in each directory of the tree after a whole run.
    after: BTreeMap<PathBuf, usize>,
    whole_run: Duration,
    /// Roughly the time from a run's first change of the tree to its end.
    work: Duration,
    rounds: u32,
    killed: u32,
    half_done: u32,
}

impl<'s> Kills<'s> {
    /// Measures a whole run in the tree as it is, and leaves it changed.
    pub fn new(scene: &'s Scene, spawn: impl Fn(&Scene) -> Child + 's) -> Kills<'s> {
        let (before, begun) = (names(scene), Instant::now());
        let mut run = spawn(scene);
        await_change(scene, &mut run);
        let changed = Instant::now();
        assert!(run.wait().unwrap().success());
        let (whole_run, work, after) = (begun.elapsed(), changed.elapsed(), counts(&names(scene)));
        let (rounds, killed, half_done) = (0, 0, 0);
        let spawn = Box::new(spawn);
        Kills { scene, spawn, before, after, whole_run, work, rounds, killed, half_done }
    }

    /// Kills a run: every second one at any moment, the others after they have begun to change the
    /// tree. The tree is as it was before the first one.
    pub fn kill(&mut self) {
        let mut run = (self.spawn)(self.scene);
        // Multiples of the golden ratio spread evenly over the time, for any number of rounds.
        let share = (f64::from(self.rounds) * 0.618_034).fract();
        let is_at_work = self.rounds % 2 == 1;
        if is_at_work {
            await_change(self.scene, &mut run);
        }
        thread::sleep(if is_at_work { self.work } else { self.whole_run }.mul_f64(share));
        drop(run.kill());
        let is_killed = run.wait().unwrap().code().is_none();
        if is_at_work {
            // The time depends on the load of the machine.
            self.work = self.work.mul_f64(if is_killed { 1.1 } else { 0.8 });
        }
        self.rounds += 1;
        self.killed += u32::from(is_killed);
        let names = names(self.scene);
        let is_half_done = names != self.before && counts(&names) != self.after;
        self.half_done += u32::from(is_killed && is_half_done);
    }

    #[track_caller]
    pub fn assert_some(&self) {
        assert!(self.killed > 0, "every run was over before it was killed");
        // On a busy machine, a few kills may all miss the work.
        let is_some = self.half_done > 0 || self.rounds < 50;
        assert!(is_some, "no run was killed while it changed the tree: {self}");
    }
}

impl Display for Kills<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Kills { rounds, killed, half_done, .. } = self;
        write!(f, "{killed} of {rounds} killed, {half_done} left the tree half done")
    }
}

/// Waits until a run changes the tree, or ends.
fn await_change(scene: &Scene, run: &mut Child) {
    let glance = || {
        let entries = |name| fs::read_dir(scene.tree().join(name)).map_or(0, Iterator::count);
        ["", "tree", "keys", "data", "writers"].map(entries)
    };
    let before = glance();
    while glance() == before && run.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_micros(100));
    }
}

/// The paths of all files of the tree. The number of directories in `data/` is random.
fn names(scene: &Scene) -> BTreeSet<PathBuf> {
    match scene.tree().exists() {
        true => {
            let names = content(&scene.tree()).into_keys();
            names.filter(|name| !name.starts_with("data") || name.iter().count() == 3).collect()
        }
        false => BTreeSet::new(),
    }
}

/// The number of paths in each directory of the tree.
fn counts(names: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, usize> {
    let mut counts = BTreeMap::new();
    for directory in names.iter().filter_map(|name| name.iter().next()) {
        *counts.entry(PathBuf::from(directory)).or_default() += 1;
    }
    counts
}
