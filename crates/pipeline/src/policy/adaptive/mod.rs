//! `adaptive`: engines are filled in the order of what a job costs in CPU time.
//!
//! Let an engine take wall time m and CPU time h for a job. The rates x that do the most jobs
//! in a time, with no engine busier than its workers and no more CPU time spent than the cores
//! have, solve a fractional knapsack: the engine with the least h comes first, and the others
//! get what CPU time it leaves (`engines.rs`). So a module whose h is below the processor's own
//! cost never waits for a job, and one whose h is above gets none.
//!
//! What no thread's clock shows is seen in how much gets done: which engines work together on
//! jobs of a size is chosen by the rates that such sets were seen to have (`sets.rs`,
//! `window.rs`). An engine of which too little is known is tried, for a bounded part of the run's
//! CPU time. Near the end a worker declines a job that the others would do sooner (`ending.rs`).
//! Little work starts no threads.

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

/// Engines, a bit each by its number.
type Members = u64;

/// How many engines a set can have.
const MOST: usize = Members::BITS as usize;

fn has(members: Members, engine: usize) -> bool {
    engine < MOST && members >> engine & 1 == 1
}

/// The policy that fills engines in the order of their CPU cost.
pub(super) struct Adaptive {
    workers: Vec<Worker>,
    engines: Engines,
    /// What the workers of each engine claim, until something changes.
    plans: Vec<Cell<Option<Plan>>>,
    sets: Sets,
    window: Option<Window>,
    /// CPU time that went into trials, in microseconds.
    tried: f64,
    /// For each class that was waiting at the last look, which engines would claim of it.
    taken_by: TakenBy,
}

struct Worker {
    engine: usize,
    state: State,
    /// Whether it has asked for tasks: its session is open.
    is_open: bool,
    /// Whether it has worked before, so that starting it again costs nothing.
    has_worked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Idle,
    /// It opens its module's session since then, and will ask when that is open.
    Opening(Duration),
    /// It is about to ask.
    Called,
    Working(Working),
    Left,
}

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Working {
    load: Load,
    since: Duration,
    /// When it should be done.
    until: Duration,
    /// Whether its engine would not work on this otherwise.
    is_trial: bool,
}

/// The jobs of one class that wait.
#[derive(Clone, Copy, Debug)]
struct Group {
    class: SizeClass,
    tasks: usize,
    jobs: f64,
    /// The mean length of a job.
    bytes: f64,
}

impl Group {
    /// Jobs of a load, of this mean length.
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

    /// What waits of a class.
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

    /// Whether an engine is among those that work on a group.
    fn takes(&self, engine: usize, group: &Group) -> bool {
        self.engines.len() == 1 || has(self.sets.working(group, &self.engines), engine)
    }

    /// How much CPU time what waits will cost about, in microseconds.
    fn work(&self, waiting: &Waiting) -> f64 {
        self.groups(waiting).map(|group| group.jobs * self.engines.cheapest(&group)).sum()
    }

    /// What a worker claims of what its engine takes: the class that most wait of. One engine
    /// alone takes all in order.
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
        let jobs = self.share(engine, &group, wall);
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

    /// How many jobs of a group a worker takes: as many as its engine likes in a batch, or what
    /// takes it long enough beside its time at the queue; near the end less, so that there is
    /// something left for the worker that is free first.
    fn share(&self, engine: usize, group: &Group, wall: Option<f64>) -> f64 {
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
        // A task comes whole.
        jobs.max(group.jobs / group.tasks.max(1) as f64).max(1.0)
    }

    /// Whether the other workers would have drained the queue before this one is done with a
    /// claim that takes it at most so many microseconds. A module of which that is not known is late near
    /// the end.
    fn would_be_late(
        &self,
        worker: usize,
        longest: Option<f64>,
        waiting: &Waiting,
        now: Duration,
    ) -> bool {
        let is_cpu = self.engines.is_cpu(self.workers[worker].engine);
        let wall = longest.unwrap_or(if is_cpu { 0.0 } else { NEAR_THE_END });
        // Several workers can share a divisible task, so nobody finishes it late.
        if !waiting.closed || wall <= NOT_LATE || waiting.divisible > 0 {
            return false;
        }
        let jobs = waiting.jobs as f64;
        // Far from the end this is all that has to be looked at.
        if self.in_time(wall, waiting) < jobs {
            return false;
        }
        let each = |engine| self.wall_of_all(engine, waiting).map(|all| all / jobs);
        let others = (0..self.engines.len()).flat_map(|engine| {
            let each = each(engine);
            let workers = self.workers.iter().enumerate();
            workers.filter_map(move |(number, other)| {
                // An idle worker has declined too: two that count on each other would leave the
                // tasks to nobody.
                let free = match other.state {
                    State::Left | State::Idle | State::Opening(_) => return None,
                    // One that is late may be late for as long again.
                    State::Working(at) => micros(at.until.abs_diff(now)),
                    State::Called => 0.0,
                };
                let each = each.filter(|_| other.engine == engine && number != worker)?;
                Some(Other { free, each })
            })
        });
        would_drain(others, jobs, wall)
    }

    /// How many of the jobs that wait all workers together would do in so many microseconds.
    fn in_time(&self, wall: f64, waiting: &Waiting) -> f64 {
        let jobs = waiting.jobs as f64;
        let of_engine = |engine| {
            let workers = self.engines.get(engine).in_service as f64;
            let each = self.wall_of_all(engine, waiting).map(|all| all / jobs);
            each.map_or(0.0, |each| workers * wall / each.max(1e-3))
        };
        (0..self.engines.len()).map(of_engine).sum()
    }

    /// How long a worker of an engine would take for all that waits, in microseconds; `None` where
    /// the engine does not work on all of it.
    fn wall_of_all(&self, engine: usize, waiting: &Waiting) -> Option<f64> {
        let walls = self.groups(waiting).map(|group| {
            let takes = self.takes(engine, &group);
            let price = takes.then(|| self.engines.price(engine, &group)).flatten()?;
            Some(group.jobs * self.engines.wall_of(price))
        });
        walls.sum()
    }

    /// A batch for a worker whose engine would get nothing otherwise, if too little or nothing
    /// recent is known of that, and what it may cost is little beside the run so far and what
    /// waits. One at a time, the cheapest first.
    fn trial(&self, worker: usize, waiting: &Waiting, now: Duration) -> Option<Claim> {
        let is_trial = |state: State| matches!(state, State::Working(at) if at.is_trial);
        if self.workers.iter().any(|other| is_trial(other.state)) {
            return None;
        }
        // What there is most of says most.
        let weight = |group: &Group| group.jobs * group.bytes.max(64.0);
        let most = self.groups(waiting).max_by(|one, it| weight(one).total_cmp(&weight(it)))?;
        let due = self.workers.iter().enumerate().filter_map(|(number, other)| {
            let is_free = match other.state {
                State::Idle | State::Called => true,
                // Its turn comes, unless it is slow.
                State::Opening(since) => now.saturating_sub(since) < SLOW_OPENING,
                _ => number == worker,
            };
            Some((self.trial_cost(other, &most, now).filter(|_| is_free)?, number))
        });
        let (each, first) = due.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        // What is usual must be known before it can be said what is too much.
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

    /// What a trial would cost in CPU time for each job, in microseconds; `None` where none is due.
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

    /// Counts what a worker has performed, and learns when that ends a window. Returns whether the
    /// chosen engines changed.
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
        // A busy worker has done a part of its batch already: as much as its expected time says.
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

    /// What was planned no longer follows from what is known.
    fn forget_plans(&self) {
        self.plans.iter().for_each(|plan| plan.set(None));
    }

    /// Whether a window can begin: only workers of the chosen engines work, and none will lack tasks.
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

    /// Whether another engine would claim something now that it did not before, or the reverse.
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
        // One more worker takes the work off those at it; that must be worth a thread.
        let saved = self.work(waiting) / (active + 1.0) / active.max(1.0);
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
                // A worker's first claim is slower than others, which says nothing of its rate.
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
                    // Opening its session is paid once, and is no reason to learn nothing for it.
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
                // It may have left a core to a worker of another engine.
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

    /// It would plan with a worker that rests.
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
    /// So many jobs in whole tasks.
    fn tasks_of(&self, jobs: f64) -> usize {
        (jobs * self.tasks as f64 / self.jobs).floor().max(1.0) as usize
    }
}

/// Which engines take which of the classes that wait.
type TakenBy = [Members; SizeClass::COUNT];

/// How long a claim of several jobs takes, in microseconds: long beside the time at the queue,
/// short beside what a run takes.
const CLAIM: f64 = 700.0;

/// How soon a worker that has declined asks again.
const DECLINED: Duration = Duration::from_micros(500);

/// How many times its spread a claim may take longer than expected.
const SPREADS: f64 = 2.0;

/// How long a claim may take of a module of which nothing is known, in microseconds.
const NEAR_THE_END: f64 = 20_000.0;

/// How long trials of other engines wait for a session that opens.
const SLOW_OPENING: Duration = Duration::from_millis(20);

/// What starting a thread costs, in microseconds.
const THREAD: f64 = 50.0;

/// How much of the CPU time of a run may go into trials.
const PART: f64 = 0.015;

/// After what time an engine that gets nothing is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(500);
