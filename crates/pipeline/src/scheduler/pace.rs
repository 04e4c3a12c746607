//! How fast each engine does its claims: which of them is late, and which sessions are worth opening.

use std::time::Duration;

use evener_core::Kind;

use crate::Load;
use crate::costs::{EngineCosts, Processed};
use crate::policy::{Performed, Seat};
use crate::scheduler::Waiting;

/// The measured times of a run's claims.
pub(super) struct Pace {
    seats: Vec<Place>,
    engines: Vec<Engine>,
}

/// A worker's seat.
struct Place {
    engine: usize,
    kind: Kind,
    /// How long its session takes to open, if that is known.
    opening: Option<Duration>,
    claim: Option<Claim>,
}

struct Engine {
    name: String,
    costs: EngineCosts,
    /// Whether it has finished a claim.
    has_worked: bool,
}

/// A claim that is not finished.
struct Claim {
    load: Load,
    since: Duration,
}

impl Pace {
    pub(super) fn new(seats: &[Seat]) -> Pace {
        let mut engines: Vec<Engine> = Vec::new();
        let place = |seat: &Seat| {
            let known = engines.iter().position(|engine| engine.name == seat.engine);
            let engine = known.unwrap_or(engines.len());
            if known.is_none() {
                let costs = EngineCosts::new(seat.batch).of_bytes(seat.bytes);
                engines.push(Engine { name: seat.engine.clone(), costs, has_worked: false });
            }
            Place { engine, kind: seat.kind, opening: seat.opening, claim: None }
        };
        let seats = seats.iter().map(place).collect();
        Pace { seats, engines }
    }

    pub(super) fn is_module(&self, worker: usize) -> bool {
        self.seats[worker].kind == Kind::Module
    }

    /// Whether a worker's next claim is to be one task: nothing is known of a module before its first.
    pub(super) fn is_new_module(&self, worker: usize) -> bool {
        self.is_module(worker) && !self.engines[self.seats[worker].engine].has_worked
    }

    pub(super) fn begin(&mut self, worker: usize, load: Load, now: Duration) {
        self.seats[worker].claim = Some(Claim { load, since: now });
    }

    /// A worker has finished its claim, and learns from it, or has left.
    pub(super) fn end(&mut self, worker: usize, performed: Option<&Performed>) {
        let place = &mut self.seats[worker];
        let (Some(claim), Some(performed)) = (place.claim.take(), performed) else { return };
        let engine = &mut self.engines[place.engine];
        engine.has_worked = true;
        let bytes = claim.load.bytes.unwrap_or_default();
        let (jobs, wall) = (claim.load.jobs, performed.wall);
        let processed = Processed { batches: 1, jobs, bytes, wall, cpu: Duration::ZERO };
        engine.costs.learn(&processed, performed.opened);
    }

    /// When a claim should be done, with some room for chance. A module of which nothing is known should
    /// take no longer than the cores would.
    pub(super) fn due(&self, worker: usize) -> Option<Duration> {
        let place = &self.seats[worker];
        let claim = place.claim.as_ref()?;
        let own = self.time(place.engine, claim.load).map(|(wall, spread)| {
            wall + (SPREADS * spread).max(wall * LEAST_SPREAD).max(LEAST_LATE)
        });
        let due = own.or_else(|| self.on_cores(claim.load)).unwrap_or(0.0);
        Some(claim.since.saturating_add(from_micros(due)))
    }

    /// Has all claims begin later: meanwhile the process was stopped.
    pub(super) fn shift(&mut self, time: Duration) {
        for claim in self.seats.iter_mut().filter_map(|place| place.claim.as_mut()) {
            claim.since = claim.since.saturating_add(time);
        }
    }

    /// How long so many idle cores would take for a worker's claim.
    pub(super) fn again(&self, worker: usize, cores: usize) -> Option<Duration> {
        let claim = self.seats[worker].claim.as_ref()?;
        Some(from_micros(self.on_cores(claim.load)? / cores.max(1) as f64))
    }

    /// Whether the cores will still have something to do when a module's session is open. Where nothing
    /// is known of its opening, that is found out.
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
        // More may come while the feed goes on: as long as it has lasted is a fair guess.
        let waits = waits.map(|waits| from_micros(waits / cores as f64));
        let left = match waiting.closed {
            true => waits.unwrap_or(opening),
            false => waits.unwrap_or_default().max(now),
        };
        opening <= left.mul_f64(WORTH)
    }

    /// How long a core takes for a load, in microseconds: one of the fastest engine's.
    fn on_cores(&self, load: Load) -> Option<f64> {
        let cpu = self.seats.iter().filter(|place| place.kind == Kind::Cpu);
        let times = cpu.filter_map(|place| Some(self.time(place.engine, load)?.0));
        times.min_by(f64::total_cmp)
    }

    /// Mean and spread of an engine's time for a load, in microseconds.
    fn time(&self, engine: usize, load: Load) -> Option<(f64, f64)> {
        let jobs = load.jobs.max(1) as f64;
        let bytes = load.bytes.unwrap_or_default() as f64 / jobs;
        let cost = self.engines[engine].costs.cost(bytes, jobs)?;
        Some((cost.wall * jobs, cost.spread * jobs))
    }
}

fn from_micros(time: f64) -> Duration {
    Duration::from_nanos((time * 1000.0) as u64)
}

/// How many times its spread a claim may take longer than expected.
const SPREADS: f64 = 3.0;

/// How much longer a claim may take in any case, as a part of its time, and in microseconds.
const LEAST_SPREAD: f64 = 0.25;
const LEAST_LATE: f64 = 1_000.0;

/// An opening may take so much of the time that the cores have left.
const WORTH: f64 = 1.25;
