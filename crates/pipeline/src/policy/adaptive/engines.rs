//! The engines' costs, and the engines that are worth their CPU time: the fractional knapsack.

use std::time::Duration;

use evener_core::{Kind, batch_of};

use super::{Group, MOST, Members, has};
use crate::costs::{Cost, EngineCosts};
use crate::policy::{Performed, Seat, Setting};
use crate::{Load, SizeClass};

/// The engines of a run, by their numbers.
pub(super) struct Engines {
    list: Vec<Engine>,
    /// The number of cores to share.
    cores: f64,
    /// The work around a job, such as reading and writing a file.
    around: Around,
    /// The mean length of jobs of unknown size, in bytes, measured once some have finished.
    usual_bytes: f64,
}

pub(super) struct Engine {
    name: String,
    pub(super) kind: Kind,
    batch: usize,
    bytes: usize,
    /// The number of its workers that have not left.
    pub(super) in_service: usize,
    costs: EngineCosts,
    /// The time of its last CPU measurement.
    measured: Option<Duration>,
}

/// Averages of a job's wall and CPU time outside of engines, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Around {
    wall: f64,
    cpu: f64,
    is_known: bool,
}

impl Engines {
    pub(super) fn new(setting: &Setting) -> Engines {
        let cores = setting.cores.max(1) as f64;
        Engines { list: Vec::new(), cores, around: Around::default(), usual_bytes: USUAL_BYTES }
    }

    /// Adds a worker, and returns the number of its engine.
    pub(super) fn add(&mut self, seat: &Seat, setting: &Setting) -> usize {
        let known = self.list.iter().position(|engine| engine.name == seat.engine);
        let number = known.unwrap_or(self.list.len());
        if known.is_none() {
            let costs = setting.costs.engine(&seat.engine).cloned();
            self.list.push(Engine {
                name: seat.engine.clone(),
                kind: seat.kind,
                batch: seat.batch.max(1),
                bytes: seat.bytes,
                in_service: 0,
                costs: costs.unwrap_or_else(|| EngineCosts::new(seat.batch).of_bytes(seat.bytes)),
                measured: None,
            });
        }
        self.list[number].in_service += 1;
        number
    }

    pub(super) fn get(&self, number: usize) -> &Engine {
        &self.list[number]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn is_cpu(&self, number: usize) -> bool {
        self.list[number].kind == Kind::Cpu
    }

    /// Removes a worker that has left.
    pub(super) fn remove_worker(&mut self, number: usize) {
        let in_service = &mut self.list[number].in_service;
        *in_service = in_service.saturating_sub(1);
    }

    /// The CPU time that the cores have had since the run began, in microseconds.
    pub(super) fn time_of_cores(&self, now: Duration) -> f64 {
        self.cores * micros(now)
    }

    /// The numbers of those members that still have workers.
    fn numbers(&self, members: Members) -> impl Iterator<Item = usize> + '_ {
        (0..self.list.len().min(MOST))
            .filter(move |&number| has(members, number) && self.list[number].in_service > 0)
    }

    /// The mean length of a load's jobs, in bytes.
    pub(super) fn mean_bytes(&self, load: Load) -> f64 {
        load.bytes.map_or(self.usual_bytes, |bytes| bytes as f64 / load.jobs.max(1) as f64)
    }

    /// The cost of a group's job on an engine, in a batch as full as the group allows.
    pub(super) fn price(&self, number: usize, group: &Group) -> Option<Cost> {
        let engine = &self.list[number];
        engine.costs.cost(group.bytes, group.jobs.min(engine.batch_of(group.bytes)))
    }

    /// A worker's time for a job with the work around it, in microseconds.
    pub(super) fn wall_of(&self, price: Cost) -> f64 {
        price.wall + self.around.wall
    }

    /// A worker's expected time for a load; zero if unknown.
    pub(super) fn duration(&self, number: usize, load: Load) -> Duration {
        let group = Group::of(load, self.mean_bytes(load));
        let wall = self.price(number, &group).map_or(0.0, |price| self.wall_of(price));
        let wall = wall * load.jobs as f64;
        Duration::from_nanos((wall * 1000.0) as u64)
    }

    /// The least CPU time of a group's job with the work around it, in microseconds; a guess if no
    /// cost is known.
    pub(super) fn cheapest(&self, group: &Group) -> f64 {
        let around = match group.class {
            SizeClass::UNKNOWN if !self.around.is_known => AROUND_UNKNOWN,
            _ => self.around.cpu,
        };
        let known = self.least(Members::MAX, group);
        around + known.unwrap_or(GUESS + GUESS_PER_BYTE * group.bytes)
    }

    /// The least CPU time of a group's job on the cores, with the work around it.
    pub(super) fn cheapest_on_cores(&self, group: &Group) -> Option<f64> {
        Some(self.least(self.of_cpu(), group)? + self.around.cpu)
    }

    /// The CPU time of a group's job on the engine that needs the least, in microseconds.
    pub(super) fn least(&self, members: Members, group: &Group) -> Option<f64> {
        let costs = self.numbers(members).filter_map(|number| Some(self.price(number, group)?.cpu));
        costs.min_by(f64::total_cmp)
    }

    /// The engines that have workers.
    pub(super) fn all(&self) -> Members {
        self.numbers(Members::MAX).fold(0, |members, number| members | 1 << number)
    }

    /// The engines that compute on the cores.
    pub(super) fn of_cpu(&self) -> Members {
        self.numbers(Members::MAX)
            .filter(|&number| self.is_cpu(number))
            .fold(0, |members, number| members | 1 << number)
    }

    /// The cost of a group's job on each engine, by the engines' numbers.
    pub(super) fn prices(&self, group: &Group) -> Prices {
        (0..self.list.len().min(MOST)).map(|number| self.price(number, group)).collect()
    }

    /// The number of jobs that these engines would finish in a microsecond if the only hidden costs
    /// were those in a profile, and the engines that would work: those with the least CPU time
    /// first, while the cores have time. Engines with unknown costs come last and add nothing to
    /// the rate.
    pub(super) fn fill(&self, members: Members, prices: &Prices) -> (f64, Members) {
        self.fill_at(members, |number| prices[number])
    }

    /// The same, without the hidden costs that a profile gives.
    pub(super) fn fill_by_clocks(&self, members: Members, prices: &Prices) -> (f64, Members) {
        let by_clock = |cost: Cost| Cost { cpu: cost.cpu - cost.hidden, ..cost };
        self.fill_at(members, |number| prices[number].map(by_clock))
    }

    fn fill_at(&self, members: Members, price: impl Fn(usize) -> Option<Cost>) -> (f64, Members) {
        let mut prices: Vec<_> =
            self.numbers(members).map(|number| (number, price(number))).collect();
        let order = |(number, price): &(usize, Option<Cost>)| match price {
            Some(cost) => (0, cost.cpu),
            None => (if self.is_cpu(*number) { 1 } else { 2 }, 0.0),
        };
        prices.sort_by(|one, other| {
            let ((class, cpu), (other_class, other_cpu)) = (order(one), order(other));
            class.cmp(&other_class).then(cpu.total_cmp(&other_cpu))
        });
        let (mut rate, mut working) = (0.0, 0);
        let mut cores = self.cores;
        for (number, price) in prices {
            if cores < LEAST_LEFT {
                break;
            }
            working |= 1 << number;
            let workers = self.list[number].in_service as f64;
            let is_cpu = self.is_cpu(number);
            let Some(cost) = price else {
                cores -= if is_cpu { workers } else { 0.0 };
                continue;
            };
            let cpu = (cost.cpu + self.around.cpu).max(1e-3);
            let most = if is_cpu {
                workers.min(cores) / cpu
            } else {
                // Beside other workers it may have waited for a core.
                workers / cost.least_wall.max(cpu)
            };
            let jobs = most.min(cores / cpu);
            rate += jobs;
            cores -= jobs * cpu;
        }
        (rate, working)
    }

    /// Returns whether to measure a claim. That costs some system calls, so firm knowledge is
    /// renewed only now and then.
    pub(super) fn wants_measuring(
        &self,
        number: usize,
        price: Option<Cost>,
        now: Duration,
    ) -> bool {
        !price.is_some_and(|price| price.is_firm())
            || !self.was_measured(number, now, MEASURE_EVERY)
    }

    /// The time at which an engine's costs must be measured again.
    pub(super) fn measure_again(&self, number: usize) -> Duration {
        self.list[number].measured.unwrap_or_default().saturating_add(MEASURE_EVERY)
    }

    pub(super) fn is_firm(&self, number: usize, group: &Group) -> bool {
        self.price(number, group).is_some_and(|cost| cost.is_firm())
    }

    /// Returns whether the engine was measured less than `within` before `now`. A profile counts as
    /// measured when the run began.
    pub(super) fn was_measured(&self, number: usize, now: Duration, within: Duration) -> bool {
        now.saturating_sub(self.list[number].measured.unwrap_or_default()) < within
    }

    /// Learns from a measured claim.
    pub(super) fn learn(
        &mut self,
        number: usize,
        load: Load,
        performed: &Performed,
        now: Duration,
    ) {
        let Some(processed) = performed.engine.filter(|processed| processed.jobs > 0) else {
            return;
        };
        let engine = &mut self.list[number];
        engine.measured = Some(now);
        let jobs = processed.jobs as f64;
        let bytes = processed.bytes as f64 / jobs;
        engine.costs.learn(&processed, performed.opened);
        if load.class() == SizeClass::UNKNOWN {
            let weight = if self.around.is_known { 0.2 } else { 1.0 };
            self.usual_bytes += (bytes - self.usual_bytes) * weight;
        }
        if performed.opened && self.around.is_known {
            return;
        }
        let outside = |all: Duration, engine: Duration| micros(all.saturating_sub(engine)) / jobs;
        self.around
            .learn(outside(performed.wall, processed.wall), outside(performed.cpu, processed.cpu));
    }
}

/// The cost of a job on each engine, if known.
pub(super) type Prices = Vec<Option<Cost>>;

impl Engine {
    /// The recommended number of jobs of this mean length in a batch.
    pub(super) fn batch_of(&self, bytes: f64) -> f64 {
        batch_of(self.batch, self.bytes, bytes)
    }
}

impl Around {
    fn learn(&mut self, wall: f64, cpu: f64) {
        let weight = if self.is_known { 0.2 } else { 1.0 };
        self.wall += (wall - self.wall) * weight;
        self.cpu += (cpu - self.cpu) * weight;
        self.is_known = true;
    }
}

pub(super) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The least part of a core that makes adding an engine worthwhile.
const LEAST_LEFT: f64 = 0.02;

/// The assumed costs of a job and of each of its bytes if nothing is known, in microseconds.
const GUESS: f64 = 0.5;
const GUESS_PER_BYTE: f64 = 0.0005;

/// The assumed time around a job of unknown size if nothing is known, in microseconds: opening a
/// file and making another.
const AROUND_UNKNOWN: f64 = 30.0;

/// The assumed length of jobs of unknown size until some have finished, in bytes.
const USUAL_BYTES: f64 = 16_384.0;

/// The interval at which an engine's costs are measured again.
const MEASURE_EVERY: Duration = Duration::from_millis(4);
