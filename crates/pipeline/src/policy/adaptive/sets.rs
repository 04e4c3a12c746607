//! The choice of the engines that work together on the jobs of a class.
//!
//! The knapsack uses the times that threads' clocks show. These miss some costs: a module's driver
//! has threads and interrupts, which take CPU time from the other workers, and a worker that runs
//! beside a module's worker delays it. So sets of engines are compared by the work that they
//! finish.
//!
//! Each window (`window.rs`) samples the rate of the set at work. For a set without samples, the
//! knapsack gives an upper bound: its rate if the only hidden costs were those in a profile. The
//! set with the highest bound works: either it reaches the bound, or its samples soon show that it
//! does not. That is the rule of upper confidence bounds (Auer, Cesa-Bianchi and Fischer,
//! Finite-time Analysis of the Multiarmed Bandit Problem, 2002): a sampled set's bound is its mean
//! rate, plus a margin while it has few samples. Samples age: a slower set is tried again at
//! intervals, and when the rate of the set at work changes much, all other sets are.
//!
//! Every subset of the engines is a set, but only those near the best are compared: all engines,
//! all but one, one module alone, and all engines that compute on the cores.

use std::time::Duration;

use super::engines::Engines;
use super::window::{LENGTH, Sample};
use super::{Group, MOST, Members, has};
use crate::SizeClass;

/// The sets' records, and the chosen set for each class.
pub(super) struct Sets {
    records: Vec<Record>,
    /// The engines that work on each class, by its number; `None` leaves the choice to the
    /// knapsack.
    chosen: [Option<Members>; SizeClass::COUNT],
}

/// The measured rate of a set for a class.
#[derive(Clone, Debug)]
struct Record {
    class: SizeClass,
    engines: Members,
    /// The mean length of the jobs.
    bytes: f64,
    /// Jobs per microsecond.
    rate: f64,
    samples: f64,
    /// The time of the last sample.
    seen: Duration,
}

impl Sets {
    pub(super) fn new() -> Sets {
        Sets { records: Vec::new(), chosen: [None; SizeClass::COUNT] }
    }

    /// The engines that work on a group.
    pub(super) fn working(&self, group: &Group, engines: &Engines) -> Members {
        let chosen = self.chosen[group.class.number()];
        chosen.unwrap_or_else(|| engines.fill(Members::MAX, &engines.prices(group)).1)
    }

    /// Adds a sample.
    pub(super) fn learn(&mut self, sample: &Sample, now: Duration) {
        let &Sample { class, engines, .. } = sample;
        let known = self.records.iter().find(|it| it.class == class && it.engines == engines);
        // The same cause may have changed the rates of the other sets.
        if known.is_some_and(|known| known.has_changed(sample)) {
            self.records.retain(|it| it.class != class || it.engines == engines);
        }
        let known = self.records.iter_mut().find(|it| it.class == class && it.engines == engines);
        match known {
            Some(known) => known.learn(sample, now),
            None => self.records.push(Record::new(sample, now)),
        }
    }

    /// Chooses the engines for a group from now on: the set with the highest bound. Returns whether
    /// they changed.
    pub(super) fn choose(&mut self, group: &Group, engines: &Engines, now: Duration) -> bool {
        let known =
            |working| self.records.iter().find(|it| it.is_of(group) && it.engines == working);
        let prices = engines.prices(group);
        let candidates = candidates(engines);
        let sets = candidates.iter().map(|&set| engines.fill(set, &prices));
        let sets: Vec<_> = sets.map(|(most, working)| (most, working, known(working))).collect();
        let rates = sets.iter().filter_map(|(.., known)| Some(known.as_ref()?.rate));
        let best_rate = rates.fold(0.0, f64::max);
        let bounds = sets.iter().map(|&(most, working, known)| match known {
            Some(known) => (known.bound(most, best_rate, now), working),
            // A profile's hidden costs count as much as one sample.
            None => {
                let by_clocks = engines.fill_by_clocks(working, &prices).0;
                ((most * (1.0 + DOUBT)).min(by_clocks), working)
            }
        });
        // A profile's hidden costs are doubted for a set that has not worked yet, once a window is
        // negligible beside the run so far.
        let doubts = LENGTH.as_secs_f64() <= PART * now.as_secs_f64();
        let doubted = candidates.iter().filter(|_| doubts).filter_map(|&set| {
            let (most, working) = engines.fill_by_clocks(set, &prices);
            known(working).is_none().then_some((most, working))
        });
        let best = bounds.chain(doubted).max_by(|(one, _), (other, _)| one.total_cmp(other));
        let Some((_, working)) = best.filter(|(bound, _)| *bound > 0.0) else { return false };
        let is_new = working != self.working(group, engines);
        self.chosen[group.class.number()] = Some(working);
        is_new
    }

    /// Drops the choices, and the records of an engine's sets: it has lost a worker.
    pub(super) fn remove(&mut self, engine: usize) {
        self.chosen = [None; SizeClass::COUNT];
        self.records.retain(|known| !has(known.engines, engine));
    }
}

/// The sets to compare.
fn candidates(engines: &Engines) -> Vec<Members> {
    let (all, cores) = (engines.all(), engines.of_cpu());
    let numbers = 0..engines.len().min(MOST);
    let alone = numbers.clone().map(move |number| 1 << number & all & !cores);
    let without = numbers.map(move |number| all & !(1 << number));
    let mut sets: Vec<_> = [all, cores].into_iter().chain(without).chain(alone).collect();
    sets.sort_unstable();
    sets.dedup();
    sets.retain(|&set| set != 0);
    sets
}

impl Record {
    fn new(sample: &Sample, now: Duration) -> Record {
        let &Sample { class, engines, bytes, rate } = sample;
        Record { class, engines, bytes, rate, samples: 1.0, seen: now }
    }

    fn learn(&mut self, sample: &Sample, now: Duration) {
        if !self.is_about(sample.bytes) {
            *self = Record::new(sample, now);
            return;
        }
        self.samples += 1.0;
        let weight = (1.0 / self.samples).max(LEAST_WEIGHT);
        self.rate += (sample.rate - self.rate) * weight;
        self.bytes += (sample.bytes - self.bytes) * weight;
        self.seen = now;
    }

    /// The upper bound of the set's rate, in jobs per microsecond; `most` is its rate if no cost is
    /// hidden. A set slower than the best is tried again once a window of it loses little compared
    /// with the time since its last sample.
    fn bound(&self, most: f64, best_rate: f64, now: Duration) -> f64 {
        let bound = self.rate * (1.0 + DOUBT / self.samples.sqrt());
        let loss = LENGTH.as_secs_f64() * (1.0 - bound / best_rate);
        let since = now.saturating_sub(self.seen).as_secs_f64();
        match loss > 0.0 && loss <= PART * since {
            true => most.max(self.rate),
            false => bound,
        }
    }

    fn is_of(&self, group: &Group) -> bool {
        self.class == group.class && self.is_about(group.bytes)
    }

    /// Returns whether the record is for jobs of about this length.
    fn is_about(&self, bytes: f64) -> bool {
        (self.bytes - bytes).abs() <= NEAR * bytes.max(16.0)
    }

    /// Returns whether the rate has changed for the same jobs.
    fn has_changed(&self, sample: &Sample) -> bool {
        let ratio = sample.rate / self.rate;
        self.is_about(sample.bytes) && !(1.0 / CHANGE..=CHANGE).contains(&ratio)
    }
}

/// The part by which a set may be faster than one sample; divided by the root of the number of
/// samples.
const DOUBT: f64 = 0.12;

/// The part of the time that may be lost by trying a slower set again.
const PART: f64 = 0.004;

/// The factor by which a rate must rise or fall to count as changed.
const CHANGE: f64 = 2.0;

/// The largest difference in length between jobs that count as alike, as a part of the length.
const NEAR: f64 = 0.15;

/// The least weight of a sample, which makes old samples fade.
const LEAST_WEIGHT: f64 = 0.25;
