//! `adaptive`: fills engines in the order of a job's CPU cost.
//!
//! Let an engine take wall time m and CPU time h for a job. A fractional knapsack gives the rates x
//! that finish the most jobs in a given time, with no engine busier than its workers and no more
//! CPU time than the cores have: the engine with the least h comes first, and the others get the
//! CPU time that it leaves (`engines.rs`). So a module whose h is below the processor's own cost
//! never waits for a job, and a module whose h is above it gets none.
//!
//! Threads' clocks do not show all costs. So the policy picks the set of engines for jobs of a size
//! by the measured rates of such sets (`sets.rs`, `window.rs`). It tries an engine about which too
//! little is known, for a bounded part of the run's CPU time. Near the end a worker declines a job
//! that the other workers would finish sooner (`ending.rs`). Small amounts of work start no
//! threads.

mod ending;
mod engines;
mod plan;
mod sets;
mod window;

use std::cell::Cell;
use std::time::Duration;

use super::{Claim, Decision, Effect, Event, Policy, Seat, Setting};
use crate::{Load, SizeClass, Waiting};

use ending::{NOT_LATE, Other, would_drain};
use engines::{Engines, micros};
use plan::Plan;
use sets::Sets;
use window::Window;

/// A set of engines: one bit for each, by its number.
type Members = u64;

/// The maximum number of engines in a set.
const MOST: usize = Members::BITS as usize;

fn has(members: Members, engine: usize) -> bool {
    engine < MOST && members >> engine & 1 == 1
}

/// The policy that fills engines in the order of their CPU cost.
pub(super) struct Adaptive {
    workers: Vec<Worker>,
    engines: Engines,
    /// For each engine, its workers' claim until something changes.
    plans: Vec<Cell<Option<Plan>>>,
    sets: Sets,
    window: Option<Window>,
    /// CPU time that went into trials, in microseconds.
    tried: f64,
    /// For each class that waited at the last check, the engines that would claim from it.
    taken_by: TakenBy,
}

struct Worker {
    engine: usize,
    state: State,
    /// True once it has asked for tasks: its session is open.
    is_open: bool,
    /// True once it has finished a claim: its first claim is slower than later ones.
    has_worked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Idle,
    /// It has been opening its module's session since this time, and will ask for tasks after that.
    Opening(Duration),
    /// It is about to ask for tasks.
    Called,
    Working(Working),
    Left,
}

/// A worker's current claim.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Working {
    load: Load,
    since: Duration,
    /// The expected end.
    until: Duration,
    /// True if its engine would otherwise get no such work.
    is_trial: bool,
}

/// The waiting jobs of one class.
#[derive(Clone, Copy, Debug)]
struct Group {
    class: SizeClass,
    tasks: usize,
    jobs: f64,
    /// The mean length of a job.
    bytes: f64,
}

impl Group {
    /// The jobs of a load, with this mean length.
    fn of(load: Load, bytes: f64) -> Group {
        Group { class: load.class(), tasks: 1, jobs: load.jobs as f64, bytes }
    }
}

impl Adaptive {
    pub(super) fn new(seats: &[Seat], setting: &Setting) -> Adaptive {
        let mut engines = Engines::new(setting);
        let worker = |seat| Worker {
            engine: engines.add(seat, setting),
            state: State::Idle,
            is_open: false,
            has_worked: false,
        };
        let workers = seats.iter().map(worker).collect();
        Adaptive {
            workers,
            plans: (0..engines.len()).map(|_| Cell::new(None)).collect(),
            engines,
            sets: Sets::new(),
            window: None,
            tried: 0.0,
            taken_by: [0; SizeClass::COUNT],
        }
    }

    /// The waiting jobs of a class.
    fn group(&self, class: SizeClass, waiting: &Waiting) -> Group {
        let counts = waiting.of(class);
        let load = match class {
            SizeClass::UNKNOWN => Load::unknown(counts.jobs),
            _ => Load::jobs(counts.jobs, counts.bytes),
        };
        Group { tasks: counts.tasks, ..Group::of(load, self.engines.mean_bytes(load)) }
    }

    fn groups(&self, waiting: &Waiting) -> impl Iterator<Item = Group> {
        waiting.classes().map(|class| self.group(class, waiting))
    }

    /// Returns whether an engine works on a group.
    fn takes(&self, engine: usize, group: &Group) -> bool {
        self.engines.len() == 1 || has(self.sets.working(group, &self.engines), engine)
    }

    /// The approximate CPU time of all waiting jobs, in microseconds.
    fn work(&self, waiting: &Waiting) -> f64 {
        self.groups(waiting).map(|group| group.jobs * self.engines.cheapest(&group)).sum()
    }

    /// The same if the cores do them, although a module may need less CPU time.
    fn work_of_cores(&self, waiting: &Waiting) -> f64 {
        let each = |group: &Group| {
            let on_cores = self.engines.cheapest_on_cores(group);
            on_cores.unwrap_or_else(|| self.engines.cheapest(group))
        };
        self.groups(waiting).map(|group| group.jobs * each(&group)).sum()
    }

    /// Returns a worker's claim, or a wait if the claim would end late. It takes from the class with
    /// the most waiting tasks among those that its engine takes. A single engine takes all in order.
    fn claim(&self, worker: usize, waiting: &Waiting, now: Duration) -> Option<Decision> {
        let engine = self.workers[worker].engine;
        if let Some(plan) = self.plans[engine].get().filter(|plan| plan.holds(waiting)) {
            let measured = now >= self.engines.measure_again(engine);
            let claim = Claim { tasks: plan.tasks, class: None, measured };
            return Some(Decision::Claim(claim));
        }
        let own = self.groups(waiting).filter(|group| self.takes(engine, group));
        let group = own.max_by_key(|group| group.tasks)?;
        let price = self.engines.price(engine, &group);
        let wall = price.map(|price| self.engines.wall_of(price));
        let jobs = self.share(engine, &group, wall, waiting.closed);
        let longest = price.map(|price| jobs * (wall.unwrap_or_default() + SPREADS * price.spread));
        if self.would_be_late(worker, longest, waiting, now) {
            return Some(Decision::Wait(Some(DECLINED)));
        }
        let is_mixed = self.engines.len() > 1 && group.tasks < waiting.tasks;
        let claim = Claim {
            tasks: group.tasks_of(jobs),
            class: is_mixed.then_some(group.class),
            measured: self.engines.wants_measuring(engine, price, now),
        };
        let is_certain = !claim.measured && group.tasks == waiting.tasks;
        self.plans[engine].set(wall.filter(|_| is_certain).map(|wall| {
            let counts = waiting.of(group.class);
            let bytes = (group.class != SizeClass::UNKNOWN).then_some(counts.bytes);
            let in_time = self.in_time(wall * jobs, waiting);
            let least = in_time.max(jobs * self.workers.len() as f64);
            Plan {
                class: group.class,
                bytes: plan::mean(bytes, counts.jobs),
                tasks: claim.tasks,
                each: Duration::from_nanos((wall * 1000.0) as u64),
                least_waiting: group.tasks_of(least).saturating_add(1),
            }
        }));
        Some(Decision::Claim(claim))
    }

    /// The number of a group's jobs that a worker takes: a full batch, or enough to outweigh its
    /// time at the queue. Near the end it takes fewer, to leave jobs for the worker that is free
    /// first.
    fn share(&self, engine: usize, group: &Group, wall: Option<f64>, closed: bool) -> f64 {
        let part = group.jobs / self.workers.len() as f64;
        let batch = self.engines.get(engine).batch_of(group.bytes);
        let jobs = match wall {
            Some(wall) if batch <= 1.0 => {
                let all = self.engines.get(engine).in_service as f64;
                let at_once = if self.engines.is_cpu(engine) { 1.0 } else { all };
                (CLAIM * at_once / wall.max(1e-3)).min(part)
            }
            _ => batch.min(part.ceil()),
        };
        // A claim takes whole tasks. Those of unknown size are lists of files, which the scheduler
        // divides at the end.
        let whole = group.jobs / group.tasks.max(1) as f64;
        let is_divided = closed && group.class == SizeClass::UNKNOWN;
        jobs.max(if is_divided { whole.min(part.ceil()) } else { whole }).max(1.0)
    }

    /// Returns whether the other workers would drain the queue before this worker finishes a claim
    /// of at most `longest` microseconds. Nobody is late for whom that is unknown.
    fn would_be_late(
        &self,
        worker: usize,
        longest: Option<f64>,
        waiting: &Waiting,
        now: Duration,
    ) -> bool {
        let wall = longest.unwrap_or_default();
        // Several workers can share a divisible task, so no worker finishes it late.
        if !waiting.closed || wall <= NOT_LATE || waiting.divisible > 0 {
            return false;
        }
        let jobs = waiting.jobs as f64;
        // Far from the end, this check suffices.
        if self.in_time(wall, waiting) < jobs {
            return false;
        }
        // Nobody leaves tasks to a module of which too little is known.
        let is_known = |engine| {
            let is_firm = |group: Group| self.engines.is_firm(engine, &group);
            self.engines.is_cpu(engine) || self.groups(waiting).all(is_firm)
        };
        let each = |engine| {
            let all = self.wall_of_all(engine, waiting).filter(|_| is_known(engine));
            all.map(|all| all / jobs)
        };
        let others = (0..self.engines.len()).flat_map(|engine| {
            let each = each(engine);
            let workers = self.workers.iter().enumerate();
            workers.filter_map(move |(number, other)| {
                // An idle worker has declined too: two workers that rely on each other would both
                // leave the tasks.
                let free = match other.state {
                    State::Left | State::Idle | State::Opening(_) => return None,
                    // A late worker may be late for as long again.
                    State::Working(at) => micros(at.until.abs_diff(now)),
                    State::Called => 0.0,
                };
                let each = each.filter(|_| other.engine == engine && number != worker)?;
                Some(Other { free, each })
            })
        });
        would_drain(others, jobs, wall)
    }

    /// The number of waiting jobs that all workers together would finish in `wall` microseconds.
    fn in_time(&self, wall: f64, waiting: &Waiting) -> f64 {
        let jobs = waiting.jobs as f64;
        let of_engine = |engine| {
            let workers = self.engines.get(engine).in_service as f64;
            let each = self.wall_of_all(engine, waiting).map(|all| all / jobs);
            each.map_or(0.0, |each| workers * wall / each.max(1e-3))
        };
        (0..self.engines.len()).map(of_engine).sum()
    }

    /// The time in which one worker of an engine would finish all waiting jobs, in microseconds;
    /// `None` if the engine does not work on all of them or a cost is unknown.
    fn wall_of_all(&self, engine: usize, waiting: &Waiting) -> Option<f64> {
        let walls = self.groups(waiting).map(|group| {
            let takes = self.takes(engine, &group);
            let price = takes.then(|| self.engines.price(engine, &group)).flatten()?;
            Some(group.jobs * self.engines.wall_of(price))
        });
        walls.sum()
    }

    /// A trial batch for a worker whose engine would otherwise get no work. A trial is due if too
    /// little or nothing recent is known about the engine, and must cost little compared with the
    /// run so far and the waiting jobs. One trial runs at a time, the cheapest first.
    fn trial(&self, worker: usize, waiting: &Waiting, now: Duration) -> Option<Claim> {
        let is_trial = |state: State| matches!(state, State::Working(at) if at.is_trial);
        if self.workers.iter().any(|other| is_trial(other.state)) {
            return None;
        }
        // The largest group is the most informative.
        let weight = |group: &Group| group.jobs * group.bytes.max(64.0);
        let most = self.groups(waiting).max_by(|one, it| weight(one).total_cmp(&weight(it)))?;
        let due = self.workers.iter().enumerate().filter_map(|(number, other)| {
            let is_free = match other.state {
                State::Idle | State::Called => true,
                // Its turn will come, unless its session opens slowly.
                State::Opening(since) => now.saturating_sub(since) < SLOW_OPENING,
                _ => number == worker,
            };
            Some((self.trial_cost(other, &most, now).filter(|_| is_free)?, number))
        });
        let (each, first) = due.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        // Only a known usual cost shows which cost is too high.
        self.engines.least(Members::MAX, &most)?;
        let budget = PART * (self.engines.time_of_cores(now) + self.work(waiting)) - self.tried;
        let batch = self.engines.get(self.workers[worker].engine).batch_of(most.bytes);
        let jobs = batch.min(most.jobs / 2.0).min(budget / each).floor();
        let is_late = || {
            let price = self.engines.price(self.workers[worker].engine, &most);
            let longest = price.map(|price| jobs * (price.wall + SPREADS * price.spread));
            self.would_be_late(worker, longest, waiting, now)
        };
        (first == worker && jobs >= 1.0 && !is_late()).then(|| Claim {
            tasks: most.tasks_of(jobs),
            class: Some(most.class),
            measured: true,
        })
    }

    /// The CPU time of each job of a trial, in microseconds; `None` if no trial is due.
    fn trial_cost(&self, worker: &Worker, group: &Group, now: Duration) -> Option<f64> {
        let engine = worker.engine;
        if self.takes(engine, group)
            || self.engines.was_measured(engine, now, TRY_AGAIN)
                && self.engines.is_firm(engine, group)
        {
            return None;
        }
        let known = self.engines.price(engine, group).map(|known| known.cpu);
        Some(known.unwrap_or(2.0 * self.engines.cheapest(group)))
    }

    /// Counts a worker's finished claim, and learns from the window if that ends it. Returns
    /// whether the chosen engines changed.
    fn watch(&mut self, engine: usize, at: Working, waiting: &Waiting, now: Duration) -> bool {
        let Some(window) = &mut self.window else {
            self.window = self.may_begin(waiting).then(|| Window::new(now));
            return false;
        };
        window.count(engine, at.load, (at.since, now), &self.engines, now);
        if waiting.tasks > 0 && !window.is_long_enough(now) {
            return false;
        }
        let Some(mut window) = self.window.take().filter(|_| waiting.tasks > 0) else {
            return false;
        };
        // A busy worker has already done part of its batch; its expected time gives the share.
        for other in &self.workers {
            if let State::Working(at) = other.state {
                let time = (at.since, at.until.max(now));
                window.count(other.engine, at.load, time, &self.engines, now);
            }
        }
        self.window = Some(Window::new(now));
        let Some(sample) = window.sample(&self.engines, now) else { return false };
        self.sets.learn(&sample, now);
        self.choose(sample.class, waiting, now)
    }

    /// Chooses the engines for a class. Returns whether they changed.
    fn choose(&mut self, class: SizeClass, waiting: &Waiting, now: Duration) -> bool {
        let group = self.group(class, waiting);
        let is_new = group.tasks > 0 && self.sets.choose(&group, &self.engines, now);
        if is_new {
            self.window = None;
            self.forget_plans();
        }
        is_new
    }

    /// Drops all plans: their basis has changed.
    fn forget_plans(&self) {
        self.plans.iter().for_each(|plan| plan.set(None));
    }

    /// Returns whether a window can begin: only workers of the chosen engines work, and none will
    /// lack tasks.
    fn may_begin(&self, waiting: &Waiting) -> bool {
        let is_foreign = |worker: &Worker| match worker.state {
            State::Working(at) => {
                let group = Group::of(at.load, self.engines.mean_bytes(at.load));
                at.is_trial || !worker.has_worked || !self.takes(worker.engine, &group)
            }
            _ => false,
        };
        waiting.tasks > self.workers.len() && !self.workers.iter().any(is_foreign)
    }

    /// Returns whether an engine would now claim tasks that it did not claim before, or the
    /// reverse.
    fn has_changed_its_mind(&mut self, waiting: &Waiting, now: Duration) -> bool {
        let mut taken_by = [0; SizeClass::COUNT];
        for group in self.groups(waiting) {
            taken_by[group.class.number()] = self.sets.working(&group, &self.engines);
        }
        let tries = |worker: &usize| {
            self.workers[*worker].state == State::Idle
                && self.trial(*worker, waiting, now).is_some()
        };
        let is_tried = (0..self.workers.len()).any(|worker| tries(&worker));
        std::mem::replace(&mut self.taken_by, taken_by) != taken_by || is_tried
    }
}

impl Policy for Adaptive {
    fn next(&self, worker: usize, waiting: &Waiting, now: Duration) -> Decision {
        self.claim(worker, waiting, now)
            .or_else(|| self.trial(worker, waiting, now).map(Decision::Claim))
            .unwrap_or(Decision::Wait(None))
    }

    fn starts(&self, worker: usize, waiting: &Waiting, now: Duration) -> bool {
        let active = self.workers.iter().filter(|worker| worker.is_active()).count() as f64;
        // One more worker shortens the work of the active workers; that must be worth a thread.
        let saved = self.work_of_cores(waiting) / (active + 1.0) / active.max(1.0);
        saved > THREAD && matches!(self.next(worker, waiting, now), Decision::Claim(_))
    }

    fn starts_at_once(&self) -> bool {
        false
    }

    fn note(&mut self, worker: usize, event: &Event, waiting: &Waiting, now: Duration) -> Effect {
        let engine = self.workers[worker].engine;
        match *event {
            Event::Called => {
                let opens = !self.engines.is_cpu(engine) && !self.workers[worker].is_open;
                let opening = State::Opening(now);
                self.workers[worker].state = if opens { opening } else { State::Called };
            }
            Event::Claimed { load } => {
                self.workers[worker].is_open = true;
                let planned = self.plans[engine].get().and_then(|plan| plan.time_of(load));
                let is_trial = planned.is_none() && {
                    let group = Group::of(load, self.engines.mean_bytes(load));
                    !self.takes(engine, &group)
                };
                // A worker's first claim is slower than later ones, and does not show its rate.
                if is_trial || !self.workers[worker].has_worked {
                    self.window = None;
                }
                let lasts = planned.unwrap_or_else(|| self.engines.duration(engine, load));
                let until = now.saturating_add(lasts);
                self.workers[worker].state =
                    State::Working(Working { load, since: now, until, is_trial });
            }
            Event::Performed(performed) => {
                let state = std::mem::replace(&mut self.workers[worker].state, State::Called);
                let State::Working(at) = state else { return Effect::Nothing };
                self.workers[worker].has_worked = true;
                if performed.engine.is_some() {
                    self.engines.learn(engine, at.load, &performed, now);
                    self.forget_plans();
                }
                if at.is_trial {
                    // Opening its session costs time only once, and must not use up the budget for
                    // trials.
                    self.tried += micros(performed.engine.map_or(performed.cpu, |it| it.cpu));
                }
                if self.engines.len() == 1 {
                    return Effect::Nothing;
                }
                let is_new = match at.is_trial {
                    true => self.choose(at.load.class(), waiting, now),
                    false => self.watch(engine, at, waiting, now),
                };
                let may_differ = is_new || at.is_trial || performed.engine.is_some();
                if may_differ && self.has_changed_its_mind(waiting, now) {
                    return Effect::AskAgain;
                }
            }
            Event::Parked => {
                self.workers[worker].is_open = true;
                self.workers[worker].state = State::Idle;
                if waiting.tasks == 0 {
                    self.window = None;
                }
                // It may have freed a core for a worker of another engine.
                if self.engines.len() > 1 {
                    return Effect::AskAgain;
                }
            }
            Event::Left => {
                if self.workers[worker].state != State::Left {
                    self.workers[worker].state = State::Left;
                    self.engines.remove_worker(engine);
                    self.window = None;
                    self.sets.remove(engine);
                    self.forget_plans();
                }
                return Effect::AskAgain;
            }
        }
        Effect::Nothing
    }

    /// The worker leaves, because the policy would still plan with a resting worker.
    fn restrain(&self, _: Duration) -> Option<Decision> {
        Some(Decision::Leave)
    }
}

impl Worker {
    fn is_active(&self) -> bool {
        matches!(self.state, State::Called | State::Working(_))
    }
}

impl Group {
    /// This many jobs in whole tasks.
    fn tasks_of(&self, jobs: f64) -> usize {
        (jobs * self.tasks as f64 / self.jobs).floor().max(1.0) as usize
    }
}

/// The engines that take each waiting class.
type TakenBy = [Members; SizeClass::COUNT];

/// The time of a claim of several jobs, in microseconds: long compared with the time at the queue,
/// short compared with a run.
const CLAIM: f64 = 700.0;

/// The wait of a worker that has declined, before it asks again.
const DECLINED: Duration = Duration::from_micros(500);

/// The delay that a claim may have over its expected time, as a multiple of its spread.
const SPREADS: f64 = 2.0;

/// The longest time that trials of other engines wait for a session to open.
const SLOW_OPENING: Duration = Duration::from_millis(20);

/// The cost of starting a thread, in microseconds.
const THREAD: f64 = 50.0;

/// The part of a run's CPU time that trials may use.
const PART: f64 = 0.015;

/// The interval after which an engine without work is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(500);
