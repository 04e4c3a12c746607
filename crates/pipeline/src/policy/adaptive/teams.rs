//! Which engines work together on the jobs of a class.
//!
//! The knapsack knows what a thread's clock shows. What it does not show counts as well: a
//! module's driver has threads and interrupts, whose CPU time the other workers lack, and a
//! worker that runs beside a module's makes that late. So the price of an engine is taken from
//! what it changes. Let a team do x jobs in a microsecond with the engine and x' without:
//! it is worth a job if x > x', whatever it costs and wherever.
//!
//! Each window (`window.rs`) is a sample of the rate of the team at work. Where a team has not
//! been seen for a while, the knapsack says what it would do if there were no hidden cost, which
//! is a bound from above. The team with the highest bound is the one to work: either it does as
//! well as that, or it is soon known not to. That is the rule of upper confidence bounds (Auer,
//! Cesa-Bianchi and Fischer, Finite-time Analysis of the Multiarmed Bandit Problem, 2002): a
//! sampled team's bound is its mean rate, and a bit more while samples are few.
//!
//! There are as many teams as sets of engines, but only those near the best are looked at: all,
//! all but one, one module alone, and all that compute on the cores. Where both kinds work, it is
//! another team whose members that compute let modules go first (`yielding.rs`).

use std::time::Duration;

use evener_core::Kind;

use super::window::{LENGTH, Sample};
use super::{Adaptive, Group, Members};
use crate::{SizeClass, Waiting};

/// What is known of teams, and which works on what.
pub(super) struct Teams {
    records: Vec<Record>,
    /// Which engines work on each class, by its number; `None` leaves it to the knapsack.
    chosen: [Option<Members>; SizeClass::COUNT],
    /// When that was changed last.
    changed: Option<Duration>,
}

/// How much a team did of a class.
#[derive(Clone, Debug)]
struct Record {
    class: SizeClass,
    engines: Members,
    bytes: f64,
    /// Jobs in a microsecond.
    rate: f64,
    samples: f64,
    /// The rate of the last sample, if that was far from it.
    surprise: Option<f64>,
    /// When it was seen last; `None` once too much has changed since.
    seen: Option<Duration>,
}

impl Teams {
    /// Whether an engine may work on a class.
    pub(super) fn admits(&self, engine: usize, class: SizeClass) -> bool {
        self.chosen[class.number()].is_none_or(|members| has(members, engine))
    }

    /// Who works on a class; `None` leaves it to the knapsack.
    pub(super) fn chosen(&self, class: SizeClass) -> Option<Members> {
        self.chosen[class.number()]
    }

    /// From when on those work who should.
    pub(super) fn settled_at(&self) -> Duration {
        self.changed.map_or(Duration::ZERO, |changed| changed + SETTLING)
    }

    fn record(&self, class: SizeClass, engines: Members) -> Option<&Record> {
        self.records.iter().find(|known| known.class == class && known.engines == engines)
    }

    /// Takes a sample in. One that is far from what is known, twice in a row, means that
    /// something has changed, and nobody knows what that does to the other teams.
    fn learn(&mut self, sample: &Sample, now: Duration) {
        let &Sample { class, engines, bytes, rate } = sample;
        let index =
            self.records.iter().position(|known| known.class == class && known.engines == engines);
        let Some(index) = index else {
            let seen = Some(now);
            let record = Record { class, engines, bytes, rate, samples: 1.0, surprise: None, seen };
            self.records.push(record);
            return;
        };
        let known = &mut self.records[index];
        let is_far = rate > known.rate * FAR || rate * FAR < known.rate;
        if !known.is_about(bytes) || is_far && known.surprise.is_some() {
            let is_changed = known.is_about(bytes);
            *known =
                Record { bytes, rate, samples: 1.0, surprise: None, seen: Some(now), ..*known };
            for other in self.records.iter_mut().filter(|_| is_changed) {
                if other.class == class && other.engines != engines {
                    other.seen = None;
                }
            }
            return;
        }
        known.seen = Some(now);
        known.surprise = is_far.then_some(rate);
        if !is_far {
            known.samples = (known.samples.max(1.0) + 1.0).min(MOST_SAMPLES);
            known.rate += (rate - known.rate) / known.samples;
            known.bytes += (bytes - known.bytes) / known.samples;
        }
    }
}

impl Default for Teams {
    fn default() -> Teams {
        Teams { records: Vec::new(), chosen: [None; SizeClass::COUNT], changed: None }
    }
}

impl Record {
    /// Whether it is of jobs of about this length.
    fn is_about(&self, bytes: f64) -> bool {
        (self.bytes - bytes).abs() <= NEAR * bytes.max(16.0)
    }

    fn is_fresh(&self, now: Duration) -> bool {
        self.seen.is_some_and(|seen| now.saturating_sub(seen) < LOOK_AGAIN)
    }
}

impl Adaptive {
    /// Learns from a window, and says who works on its class from now on. True when that are
    /// others than before.
    pub(super) fn learn_of_team(
        &mut self,
        sample: &Sample,
        waiting: &Waiting,
        now: Duration,
    ) -> bool {
        self.teams.learn(sample, now);
        let group = self.group(sample.class, waiting);
        if group.tasks == 0 {
            return false;
        }
        // A look costs a window or two of the work that is left.
        let left = Duration::from_nanos((group.jobs / sample.rate.max(1e-9) * 1e3) as u64);
        let may_look = !waiting.closed || left >= WORTH_A_LOOK * LENGTH;
        let best = self.best_team(&group, may_look, now);
        let chosen = &mut self.teams.chosen[sample.class.number()];
        if *chosen == best {
            return false;
        }
        *chosen = best;
        self.teams.changed = Some(now);
        self.window = None;
        true
    }

    /// An engine has no workers any more, so nothing that is known of it holds.
    pub(super) fn dissolve_teams_of(&mut self, engine: usize) {
        self.window = None;
        self.teams.chosen = [None; SizeClass::COUNT];
        self.teams.records.retain(|known| !has(known.engines, engine));
    }

    /// The team that does most jobs of a group, or, if it may be looked at, could do most.
    fn best_team(&self, group: &Group, may_look: bool, now: Duration) -> Option<Members> {
        let known = |&number: &usize| {
            self.engines[number].in_service > 0 && self.price(number, group).is_some()
        };
        let all = (0..self.engines.len().min(MOST)).filter(known);
        let all = all.fold(0, |members: Members, number| members | 1 << number);
        let of_cpu = |number: &usize| has(all, *number) && self.engines[*number].kind == Kind::Cpu;
        let numbers = 0..self.engines.len().min(MOST);
        let cores: Members = numbers.clone().filter(of_cpu).map(|number| 1 << number).sum();
        let single = numbers.clone().map(|number| 1 << number & all & !cores);
        let without = numbers.map(|number| all & !(1 << number));
        let teams = [all, cores].into_iter().chain(without).chain(single);
        let current = self.teams.chosen[group.class.number()];
        let mut best: Option<(f64, Members)> = None;
        for (team, yields) in teams.flat_map(|team| [(team, YIELDS), (team, 0)]) {
            let (mut rate, working) = self.expected(team, group);
            if working == 0 || yields != 0 && !self.may_yield(working, group) {
                continue;
            }
            let working = working | yields;
            let of = |team| {
                let record = self.teams.record(group.class, team);
                record.filter(|known| known.is_about(group.bytes))
            };
            let record = of(working);
            match record {
                Some(known) if !may_look && known.seen.is_some() => rate = known.rate,
                Some(known) if known.is_fresh(now) => {
                    // Who surprises by doing more may go on, and show whether it lasts.
                    let most = known.surprise.map_or(known.rate, |rate| rate.max(known.rate));
                    rate = most * (1.0 + DOUBT / known.samples.sqrt());
                }
                // What was never seen is not tried when it is too late to gain by it.
                _ if !may_look && self.has_records(group) => continue,
                // It may do again what it did; of a poor team the other manner is poor too.
                _ => {
                    rate = match record {
                        Some(known) => rate.max(known.rate),
                        // Their cost may have been seen beside modules only.
                        None if working & !cores == 0 => rate * (1.0 + DOUBT),
                        None => rate,
                    };
                    if let Some(known) = of(working ^ YIELDS).filter(|known| known.is_fresh(now)) {
                        rate = rate.min(known.rate * MANNER);
                    }
                }
            }
            if current == Some(working) {
                rate *= STAYING;
            }
            if best.is_none_or(|(least, _)| rate > least) {
                best = Some((rate, working));
            }
        }
        best.map(|(_, working)| working)
    }

    fn has_records(&self, group: &Group) -> bool {
        let is_of = |known: &&Record| known.class == group.class && known.is_about(group.bytes);
        self.teams.records.iter().filter(is_of).any(|known| known.seen.is_some())
    }

    /// How many jobs a team would do in a microsecond if no cost were hidden, and which of its
    /// engines would work: the knapsack.
    fn expected(&self, team: Members, group: &Group) -> (f64, Members) {
        let mut engines: Vec<_> = (0..self.engines.len().min(MOST))
            .filter(|&number| has(team, number))
            .filter_map(|number| Some((number, self.price(number, group)?)))
            .collect();
        engines.sort_by(|(_, one), (_, other)| one.cpu.total_cmp(&other.cpu));
        let (mut rate, mut working): (f64, Members) = (0.0, 0);
        let mut cores = self.cores as f64;
        for (number, cost) in engines {
            if cores < super::ranking::LEAST_LEFT {
                break;
            }
            let engine = &self.engines[number];
            let cpu = (cost.cpu + self.around.cpu).max(1e-3);
            let most = match engine.kind {
                Kind::Cpu => (engine.in_service as f64).min(cores) / cpu,
                // Beside others it may have waited for a core, but not for most of the time; the
                // few jobs of a trial may all have done so.
                _ => {
                    let least = if cost.is_firm() { cost.least_wall } else { 0.0 };
                    engine.in_service as f64 / least.max(cost.wall / 2.0).max(cpu)
                }
            };
            let jobs = most.min(cores / cpu);
            if jobs > 0.0 {
                rate += jobs;
                cores -= jobs * cpu;
                working |= 1 << number;
            }
        }
        (rate, working)
    }
}

pub(super) fn has(members: Members, engine: usize) -> bool {
    engine < MOST && members >> engine & 1 == 1
}

/// The team's workers that compute let those of its modules go first.
pub(super) const YIELDS: Members = 1 << MOST;

/// How many engines there can be in a team.
pub(super) const MOST: usize = Members::BITS as usize - 1;

/// How long it takes until those work who should.
const SETTLING: Duration = Duration::from_millis(3);

/// After what time a team may have changed.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How many windows' work must be left for a look.
const WORTH_A_LOOK: u32 = 5;

/// How much faster than a sample a team may be; less by the root of their number.
const DOUBT: f64 = 0.12;

/// How much better another team must be.
const STAYING: f64 = 1.02;

/// How many times faster or slower is far.
const FAR: f64 = 1.25;

/// How many times faster a team may be for yielding, or for not yielding.
const MANNER: f64 = 1.25;

/// How much of a job's length another may differ by, for the same to be true of it.
const NEAR: f64 = 0.15;

/// How many samples count at most, so that old ones are forgotten.
const MOST_SAMPLES: f64 = 8.0;
