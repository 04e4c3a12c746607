//! Which engine is for which jobs: the fractional knapsack.

use std::time::Duration;

use evener_core::Kind;

use super::{Adaptive, Group};
use crate::costs::Cost;
use crate::{Load, SizeClass, Waiting};

/// What a worker would take.
pub(super) struct Share {
    pub(super) jobs: f64,
    /// How long that would take it, in microseconds.
    pub(super) wall: f64,
}

impl Adaptive {
    /// What a job of a group costs on an engine, in a batch as full as the group allows.
    pub(super) fn price(&self, engine: usize, group: &Group) -> Option<Cost> {
        let engine = &self.engines[engine];
        let cost = engine.costs.cost(group.bytes, group.jobs.min(engine.batch as f64))?;
        // A module also wakes threads and interrupts others, which no clock of a thread shows.
        let margin = if engine.kind == Kind::Module { MODULE_MARGIN } else { 1.0 };
        Some(Cost { cpu: cost.cpu * margin, ..cost })
    }

    /// The CPU time that a job of a group costs at least, with what is done around it, in
    /// microseconds; a guess where nothing is known.
    pub(super) fn cheapest(&self, group: &Group) -> f64 {
        let known = (0..self.engines.len())
            .filter(|&engine| self.engines[engine].in_service > 0)
            .filter_map(|engine| Some(self.price(engine, group)?.cpu));
        let least = known.fold(f64::INFINITY, f64::min);
        let around = match group.class {
            SizeClass::UNKNOWN if !self.around.is_known => AROUND_UNKNOWN,
            _ => self.around.cpu,
        };
        around + if least.is_finite() { least } else { GUESS + GUESS_PER_BYTE * group.bytes }
    }

    /// Whether an engine is for jobs of a group: engines that cost less CPU time leave some of
    /// the cores' time.
    pub(super) fn takes(&self, engine: usize, group: &Group) -> bool {
        if self.engines.len() == 1 {
            return true;
        }
        let mine = self.price(engine, group);
        if mine.is_some() && !self.teams.admits(engine, group.class) {
            return false;
        }
        if mine.is_none() && self.is_default(engine, group) {
            return true;
        }
        let cores = self.cores as f64;
        let mut busy = 0.0;
        for (number, other) in self.engines.iter().enumerate() {
            let Some(cost) = self.price(number, group) else { continue };
            if !self.teams.admits(number, group.class) {
                continue;
            }
            let is_cheaper = match mine {
                _ if number == engine => false,
                None => true,
                Some(mine) => (cost.cpu, number) < (mine.cpu, engine),
            };
            if !is_cheaper {
                continue;
            }
            match other.kind {
                Kind::Cpu => busy += other.in_service as f64,
                // Time in which it waited for a core is not time that it leaves to others.
                _ => {
                    let wall = cost.least_wall.max(cost.cpu).max(1e-6);
                    busy += other.in_service as f64 * cost.cpu / wall;
                }
            }
        }
        busy < cores - LEAST_LEFT
    }

    /// Whether to begin with this engine where nothing is known of any: a CPU engine, and of
    /// those one that likes batches as large as what waits.
    fn is_default(&self, engine: usize, group: &Group) -> bool {
        let serves = |number: &usize| self.engines[*number].in_service > 0;
        if (0..self.engines.len()).filter(serves).any(|number| self.price(number, group).is_some())
        {
            return false;
        }
        let fitness = |number: &usize| {
            let engine = &self.engines[*number];
            let fills = group.jobs >= engine.batch as f64 / 2.0;
            (engine.kind == Kind::Cpu, fills, if fills { engine.batch } else { 0 })
        };
        // Of several alike the one that was named first.
        (0..self.engines.len()).rev().filter(serves).max_by_key(fitness) == Some(engine)
    }

    /// The jobs that an engine should take next, and whether it should take none but of their
    /// class.
    pub(super) fn choose(&self, engine: usize, waiting: &Waiting) -> Option<(Group, bool)> {
        let mut groups = waiting.classes().map(|class| self.group(class, waiting));
        let first = groups.next()?;
        if waiting.of(first.class).tasks == waiting.tasks {
            return self.takes(engine, &first).then_some((first, false));
        }
        // Of what it takes, the class that most wait of; one engine alone takes all in order.
        let is_alone = self.engines.len() == 1;
        let groups = std::iter::once(first).chain(groups);
        let own = groups.filter(|group| is_alone || self.takes(engine, group));
        own.max_by_key(|group| group.tasks).map(|group| (group, !is_alone))
    }

    /// How many jobs of a group a worker would take: as many as its engine likes, but no more
    /// than its part of what waits.
    pub(super) fn share(&self, worker: usize, group: &Group, waiting: &Waiting) -> Share {
        let number = self.workers[worker].engine;
        let engine = &self.engines[number];
        let likes = engine.batch as f64;
        let Some(cost) = self.price(number, group) else {
            let jobs = likes.min(group.jobs / self.workers.len() as f64).max(1.0);
            return Share { jobs, wall: 0.0 };
        };
        let wall = cost.wall + self.around.wall;
        let rate = 1.0 / wall.max(1e-3);
        let all = self.rate(group).max(rate);
        let target = match engine.batch {
            1 => ((group.jobs / all / CLAIMS).clamp(CLAIM, LONGEST_CLAIM) * rate).max(1.0),
            _ => likes,
        };
        let jobs = if group.jobs > 4.0 * target * self.workers.len() as f64 {
            target
        } else {
            let part = group.jobs * rate / all;
            // A batch is done in one go; of single jobs half are left for a later turn.
            let part = if engine.batch > 1 { part.ceil() } else { part / 2.0 };
            target.min(part).max(1.0)
        };
        let jobs = match engine.batch {
            1 => jobs.floor(),
            _ => jobs.min(group.jobs),
        };
        // A task comes whole.
        let jobs = jobs.max(group.jobs / group.tasks.max(1) as f64).min(waiting.jobs as f64);
        let alone = engine.costs.cost(group.bytes, jobs.min(likes));
        let wall = alone.map_or(wall, |cost| cost.wall + self.around.wall);
        Share { jobs, wall: wall * jobs }
    }

    /// How many jobs of a group all workers that are for it do in a microsecond.
    fn rate(&self, group: &Group) -> f64 {
        let mut sum = 0.0;
        for (number, engine) in self.engines.iter().enumerate() {
            if engine.in_service == 0 || !self.takes(number, group) {
                continue;
            }
            let Some(cost) = self.price(number, group) else { continue };
            sum += engine.in_service as f64 / (cost.wall + self.around.wall).max(1e-3);
        }
        sum
    }

    /// The mean length of a load's jobs.
    pub(super) fn mean_bytes(&self, load: Load) -> f64 {
        load.bytes.map_or(self.usual_bytes, |bytes| bytes as f64 / load.jobs.max(1) as f64)
    }

    /// How long a worker will take for a load.
    pub(super) fn duration(&self, worker: usize, load: Load) -> Duration {
        let number = self.workers[worker].engine;
        let jobs = load.jobs as f64;
        let engine = &self.engines[number];
        let cost = engine.costs.cost(self.mean_bytes(load), jobs.min(engine.batch as f64));
        let micros = cost.map_or(0.0, |cost| (cost.wall + self.around.wall) * jobs);
        Duration::from_nanos((micros * 1000.0) as u64)
    }

    pub(super) fn cheapest_cpu_engine(&self, group: &Group) -> Option<f64> {
        (0..self.engines.len())
            .filter(|&number| {
                let engine = &self.engines[number];
                engine.kind == Kind::Cpu && engine.in_service > 0
            })
            .filter_map(|number| Some(self.price(number, group)?.cpu))
            .min_by(f64::total_cmp)
    }
}

/// How many times its thread's CPU time a module's job costs.
const MODULE_MARGIN: f64 = 1.05;

/// How much of a core must be left for an engine, to be worth its while.
pub(super) const LEAST_LEFT: f64 = 0.02;

/// How long a claim of several jobs should take, in microseconds: long beside the time at the
/// queue, short beside what a run takes. Where much is left it is longer, so that there are
/// about so many claims to come.
const CLAIM: f64 = 500.0;
const LONGEST_CLAIM: f64 = 2000.0;
const CLAIMS: f64 = 64.0;

/// What a job costs where nothing is known, in microseconds, and what a byte more of it does.
const GUESS: f64 = 0.5;
const GUESS_PER_BYTE: f64 = 0.0005;

/// What is done around a job of unknown size where nothing is known: opening a file and making
/// another, in microseconds.
const AROUND_UNKNOWN: f64 = 30.0;
