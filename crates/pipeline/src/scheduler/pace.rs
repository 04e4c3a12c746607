//! The speed of each engine: it shows which claims are late, which sessions are worth opening, and
//! which modules take more time from the cores than they save.

use std::time::Duration;

use evener_core::Kind;

use super::model::Model;
use crate::Load;
use crate::costs::EngineCosts;
use crate::policy::{Performed, Seat};
use crate::scheduler::Waiting;

/// The measured times of a run's claims.
pub(super) struct Pace {
    seats: Vec<Place>,
    engines: Vec<Engine>,
    /// The number of cores, if no module may be a burden to them.
    cores: Option<f64>,
    /// True if the time of a core for a job is known.
    knows_cores: bool,
}

/// A worker's seat.
struct Place {
    engine: usize,
    kind: Kind,
    /// The time to open its session, if known.
    opening: Option<Duration>,
    claim: Option<Claim>,
}

struct Engine {
    name: String,
    costs: Model,
    /// The CPU time of its jobs, if it computes on the cores.
    on_cores: Model,
    /// The number of its finished claims.
    claims: u64,
    /// The CPU time that a module has taken, and that the cores would have taken, in microseconds.
    spent: f64,
    saved: f64,
}

/// An unfinished claim.
struct Claim {
    load: Load,
    since: Duration,
}

impl Pace {
    pub(super) fn new(seats: &[Seat], cores: Option<usize>) -> Pace {
        let mut engines: Vec<Engine> = Vec::new();
        let place = |seat: &Seat| {
            let known = engines.iter().position(|engine| engine.name == seat.engine);
            let engine = known.unwrap_or(engines.len());
            if known.is_none() {
                let costs = Model::new(EngineCosts::new(seat.batch).of_bytes(seat.bytes));
                engines.push(Engine {
                    name: seat.engine.clone(),
                    on_cores: costs.clone(),
                    costs,
                    claims: 0,
                    spent: 0.0,
                    saved: 0.0,
                });
            }
            Place { engine, kind: seat.kind, opening: seat.opening, claim: None }
        };
        let seats: Vec<_> = seats.iter().map(place).collect();
        let is_mixed =
            [Kind::Cpu, Kind::Module].iter().all(|kind| seats.iter().any(|it| it.kind == *kind));
        let cores = cores.filter(|_| is_mixed).map(|cores| cores as f64);
        Pace { seats, engines, cores, knows_cores: false }
    }

    pub(super) fn is_module(&self, worker: usize) -> bool {
        self.seats[worker].kind == Kind::Module
    }

    /// Returns whether a module has no known costs, or nothing to compare them with yet.
    pub(super) fn is_new_module(&self, worker: usize) -> bool {
        let is_compared = || !self.knows_cores && self.cores.is_some() && self.cores_are_at_work();
        self.is_module(worker)
            && (self.engines[self.seats[worker].engine].claims == 0 || is_compared())
    }

    fn cores_are_at_work(&self) -> bool {
        self.seats.iter().any(|place| place.kind == Kind::Cpu && place.claim.is_some())
    }

    pub(super) fn begin(&mut self, worker: usize, load: Load, now: Duration) {
        self.seats[worker].claim = Some(Claim { load, since: now });
    }

    pub(super) fn renew(&mut self, worker: usize, now: Duration) {
        if let Some(claim) = &mut self.seats[worker].claim {
            claim.since = now;
        }
    }

    /// Ends a claim, and learns from it unless its worker has left.
    pub(super) fn end(&mut self, worker: usize, performed: Option<&Performed>) {
        let place = &mut self.seats[worker];
        let (Some(claim), Some(performed)) = (place.claim.take(), performed) else { return };
        let (number, kind, load) = (place.engine, place.kind, claim.load);
        let done = match (load.bytes, performed.done) {
            (Some(_), (jobs @ 1.., bytes)) => Load::jobs(jobs, bytes),
            _ => load,
        };
        let saved = self.time_of_cores(done);
        let engine = &mut self.engines[number];
        engine.claims += 1;
        engine.costs.learn(load, performed, performed.wall);
        if performed.cpu == Duration::ZERO {
            return;
        }
        if kind != Kind::Module {
            engine.on_cores.learn(load, performed, performed.cpu);
            self.knows_cores = true;
        } else if let Some(saved) = saved {
            engine.spent += performed.cpu.as_secs_f64() * 1e6;
            engine.saved += saved;
        }
    }

    /// Returns whether a worker's next claim must be timed: every claim of a module, and some of a
    /// core.
    pub(super) fn is_timed(&self, worker: usize) -> bool {
        let engine = &self.engines[self.seats[worker].engine];
        let is_sample = engine.claims.is_multiple_of(SAMPLE);
        self.cores.is_some() && (self.is_module(worker) || is_sample)
    }

    /// The time that a module must rest before it may try again, if it is a burden.
    pub(super) fn rest(&self, worker: usize, now: Duration) -> Option<Duration> {
        let cores = self.cores.filter(|_| self.is_module(worker))?;
        let over = self.burden(worker) - allowance(cores, now);
        (over > 0.0).then(|| from_micros(over / (cores * ALLOWED_PART)))
    }

    /// The number of jobs like a load's that a module may claim: one at first, then as many as keep
    /// its burden within bounds if they cost as much as earlier jobs.
    pub(super) fn most_jobs(&self, worker: usize, load: Load, now: Duration) -> Option<u64> {
        if self.is_new_module(worker) {
            return Some(1);
        }
        let cores = self.cores.filter(|_| self.is_module(worker))?;
        let excess = self.excess(self.seats[worker].engine, load)? / load.jobs.max(1) as f64;
        let left = allowance(cores, now) - self.burden(worker);
        (excess > 0.0).then(|| ((left / excess).max(0.0) as u64).max(1))
    }

    /// The CPU time that a module has taken and is about to take beyond its savings, in
    /// microseconds.
    fn burden(&self, worker: usize) -> f64 {
        let number = self.seats[worker].engine;
        let engine = &self.engines[number];
        let open = self.seats.iter().filter(|place| place.engine == number);
        let open = open.filter_map(|place| self.excess(number, place.claim.as_ref()?.load));
        engine.spent - engine.saved + open.map(|excess| excess.max(0.0)).sum::<f64>()
    }

    /// The CPU time that an engine takes for a load beyond that of the cores, if it costs as much
    /// as earlier loads.
    fn excess(&self, engine: usize, load: Load) -> Option<f64> {
        let Engine { spent, saved, .. } = self.engines[engine];
        Some(self.time_of_cores(load)? * (spent / saved.max(1e-3) - 1.0)).filter(|_| saved > 0.0)
    }

    /// Returns whether this many workers are enough for all cores.
    pub(super) fn are_enough(&self, workers: usize) -> bool {
        self.cores.is_some_and(|cores| workers as f64 >= cores)
    }

    /// Returns whether another worker performs the module's first claim.
    pub(super) fn is_being_tried(&self, worker: usize) -> bool {
        let engine = self.seats[worker].engine;
        let is_at_work = |place: &Place| place.engine == engine && place.claim.is_some();
        self.is_new_module(worker) && self.seats.iter().any(is_at_work)
    }

    /// The CPU time that the cores would need for a load, in microseconds.
    fn time_of_cores(&self, load: Load) -> Option<f64> {
        let cpu = self.seats.iter().filter(|place| place.kind == Kind::Cpu);
        let times = cpu.filter_map(|place| Some(self.engines[place.engine].on_cores.time(load)?.0));
        times.min_by(f64::total_cmp)
    }

    /// The time at which a claim should be done, with a margin for chance. A module with unknown
    /// times should take no longer than the cores would.
    pub(super) fn due(&self, worker: usize) -> Option<Duration> {
        let place = &self.seats[worker];
        let claim = place.claim.as_ref()?;
        let own = self.time(place.engine, claim.load).map(|(wall, spread)| {
            wall + (SPREADS * spread).max(wall * LEAST_SPREAD).max(LEAST_LATE)
        });
        let due = own.or_else(|| self.on_cores(claim.load)).unwrap_or(UNKNOWN);
        Some(claim.since.saturating_add(from_micros(due)))
    }

    /// Moves the start of all claims by `time`, for which the process was stopped.
    pub(super) fn shift(&mut self, time: Duration) {
        for claim in self.seats.iter_mut().filter_map(|place| place.claim.as_mut()) {
            claim.since = claim.since.saturating_add(time);
        }
    }

    /// The time that this many idle cores would take for a worker's claim.
    pub(super) fn again(&self, worker: usize, cores: usize) -> Option<Duration> {
        let claim = self.seats[worker].claim.as_ref()?;
        Some(from_micros(self.on_cores(claim.load)? / cores.max(1) as f64))
    }

    /// Returns whether the cores will still have work when a module's session is open. True if the
    /// opening time is unknown, to find it out.
    pub(super) fn is_worth_opening(&self, worker: usize, waiting: &Waiting, now: Duration) -> bool {
        let cores = self.seats.iter().filter(|place| place.kind == Kind::Cpu).count();
        let Some(opening) = self.seats[worker].opening.filter(|_| cores > 0) else { return true };
        let loads = waiting.classes().map(|class| {
            let counts = waiting.of(class);
            let load = match class {
                crate::SizeClass::UNKNOWN => Load::unknown(counts.jobs),
                _ => Load::jobs(counts.jobs, counts.bytes),
            };
            self.on_cores(load)
        });
        let waits = loads.sum::<Option<f64>>();
        // More tasks may come while the feed continues; the time that it has lasted is a fair
        // guess.
        let waits = waits.map(|waits| from_micros(waits / cores as f64));
        let left = match waiting.closed {
            true => waits.unwrap_or(opening),
            false => waits.unwrap_or_default().max(now),
        };
        opening <= left
    }

    /// The time of a core for a load with the fastest engine, in microseconds.
    fn on_cores(&self, load: Load) -> Option<f64> {
        let cpu = self.seats.iter().filter(|place| place.kind == Kind::Cpu);
        let times = cpu.filter_map(|place| Some(self.time(place.engine, load)?.0));
        times.min_by(f64::total_cmp)
    }

    /// Mean and spread of an engine's time for a load, in microseconds.
    fn time(&self, engine: usize, load: Load) -> Option<(f64, f64)> {
        self.engines[engine].costs.time(load)
    }
}

/// The CPU time beyond its savings that a module may take until now, in microseconds.
fn allowance(cores: f64, now: Duration) -> f64 {
    cores * (ALLOWED + ALLOWED_PART * now.as_secs_f64() * 1e6)
}

fn from_micros(time: f64) -> Duration {
    Duration::from_nanos((time * 1000.0) as u64)
}

/// The delay that a claim may have over its expected time, as a multiple of its spread.
const SPREADS: f64 = 3.0;

/// The delay that a claim may have in any case, as a part of its time, and in microseconds.
const LEAST_SPREAD: f64 = 0.25;
const LEAST_LATE: f64 = 1_000.0;

/// The time that a module may cost the cores beyond its savings, in microseconds, and as a part of
/// the time: so it is tried again now and then.
const ALLOWED: f64 = 6_000.0;
const ALLOWED_PART: f64 = 0.0008;

/// One in so many claims of a core is timed.
const SAMPLE: u64 = 4;

/// The time after which a claim of unknown length is late, in microseconds: as long as idle cores
/// wait.
const UNKNOWN: f64 = super::watch::PATIENCE.as_micros() as f64;
