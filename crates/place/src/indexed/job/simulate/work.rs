//! The work of a job: sums of each shard.

use std::cmp::Reverse;

use evener_core::Key;

use super::super::manifest::Job;
use super::super::shards::{Cutter, ShardRule};
use super::object::{Passage, passage};
use super::sizes::{Draw, Sizes};
use crate::place::Store;
use crate::{Control, Failure, RunSettings};

/// The shards of a job, the one with the most bytes first.
#[derive(Clone, Debug)]
pub struct Work {
    pub(super) shards: Vec<ShardSum>,
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

/// The sums of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShardSum {
    /// Its place in the index's order.
    pub(super) place: u64,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// The bytes of the longest object.
    pub(super) longest: u64,
    /// All objects together.
    pub(super) passage: Passage,
}

impl ShardSum {
    fn add(&mut self, objects: u64, bytes: u64) {
        let Passage { requests, waits, sealed } = passage(bytes);
        self.objects += objects;
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(objects));
        self.longest = self.longest.max(bytes);
        self.passage.requests += requests.times(objects);
        self.passage.waits += waits * objects;
        self.passage.sealed = self.passage.sealed.saturating_add(sealed.saturating_mul(objects));
    }
}

impl Work {
    /// The work with so many objects, whose sizes are drawn, as the planner's rule cuts it. Objects
    /// are drawn one by one in the index's order and not kept.
    ///
    /// `None` if it was stopped, or has more than 10,000,000 shards.
    pub fn of_rows(
        rows: u64,
        sizes: &Sizes,
        seed: u64,
        rule: ShardRule,
        control: &Control,
    ) -> Option<Work> {
        let (mut draw, mut cutter) = (Draw::new(sizes, seed), Cutter::new(rule));
        let (mut shards, mut shard) = (Vec::new(), ShardSum::default());
        for row in 0..rows {
            let bytes = draw.next();
            if cutter.cuts_before(bytes) {
                shards.push(shard);
                shard = ShardSum { place: shard.place + 1, ..ShardSum::default() };
                if shards.len() > MOST_SHARDS {
                    return None;
                }
            }
            shard.add(1, bytes);
            if row % LOOKS_EACH == 0 && control.is_stopped() {
                return None;
            }
        }
        if shard.objects > 0 {
            shards.push(shard);
        }
        Some(Work::of(shards))
    }

    /// The work of a planned job, as its manifest has it.
    ///
    /// # Errors
    /// When it can't be read, or the key is another one.
    pub fn of_job(store: &dyn Store, run: &RunSettings, key: &Key) -> Result<Work, Failure> {
        let job = Job::open(store, run, key, None);
        let job = job.map_err(|error| Failure { path: store.label(), error })?;
        let shards = job.manifest.shards.iter();
        Ok(Work::of_shards(shards.map(|shard| (shard.place, shard.objects, shard.bytes))))
    }

    /// The work of shards: the place of each in the index's order, its objects and its bytes. All
    /// objects of a shard count as equally long.
    pub fn of_shards(shards: impl IntoIterator<Item = (u64, u64, u64)>) -> Work {
        let sums = shards.into_iter().map(|(place, objects, bytes)| {
            let mut sum = ShardSum { place, ..ShardSum::default() };
            let mean = bytes.checked_div(objects).unwrap_or(0);
            let longer = bytes - mean * objects;
            sum.add(objects - longer.min(objects), mean);
            sum.add(longer.min(objects), mean + 1);
            sum
        });
        Work::of(sums.collect())
    }

    fn of(mut shards: Vec<ShardSum>) -> Work {
        shards.sort_unstable_by_key(|shard| (Reverse(shard.bytes), shard.place));
        let objects = shards.iter().map(|shard| shard.objects).sum();
        let bytes = shards.iter().fold(0, |sum: u64, shard| sum.saturating_add(shard.bytes));
        Work { shards, objects, bytes }
    }

    /// The number of shards.
    pub fn shards(&self) -> u64 {
        self.shards.len() as u64
    }

    /// The number of objects.
    pub fn objects(&self) -> u64 {
        self.objects
    }

    /// The bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A shard takes some 150 bytes of memory.
const MOST_SHARDS: usize = 10_000_000;
/// The rows after which a stop is noticed.
const LOOKS_EACH: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::indexed::job::simulate::Requests;

    fn requests(work: &Work) -> Requests {
        work.shards.iter().fold(Requests::default(), |sum, shard| sum + shard.passage.requests)
    }

    #[test]
    fn rows_are_cut_by_the_rule_of_the_planner() {
        let rule = ShardRule { objects: 10, bytes: 1000 };
        let work = |rows, sizes: &str| {
            Work::of_rows(rows, &sizes.parse().unwrap(), 1, rule, &Control::default()).unwrap()
        };
        assert_eq!(work(101, "50").shards(), 11);
        assert_eq!(work(101, "300").shards(), 34);
        assert_eq!(work(0, "300").shards(), 0);
        let drawn = work(1000, "lognormal:100:1");
        assert!((100..200).contains(&drawn.shards()), "{}", drawn.shards());
        assert!(drawn.shards.is_sorted_by_key(|shard| Reverse(shard.bytes)));
        assert_eq!(drawn.shards.iter().map(|shard| shard.objects).sum::<u64>(), 1000);
        assert_eq!(requests(&drawn).put, 1000);
    }

    #[test]
    fn shards_of_a_manifest_have_objects_of_their_mean() {
        let work = Work::of_shards([(0, 3, 10), (1, 0, 0), (2, 2, 20_000_000)]);
        assert_eq!((work.shards(), work.objects(), work.bytes()), (3, 5, 20_000_010));
        assert_eq!((requests(&work).put, requests(&work).begin), (3, 2));
    }

    #[test]
    fn a_stop_ends_it() {
        let control = Control::default();
        control.stop();
        let sizes = Sizes::Listed(vec![(1, 1.0)]);
        assert!(Work::of_rows(10, &sizes, 1, ShardRule::default(), &control).is_none());
    }
}
