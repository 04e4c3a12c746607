//! `adaptive`: engines are filled in the order of what a job costs in CPU time.
//!
//! Let an engine take wall time m and CPU time h for a job. The rates x that do the most jobs
//! in a time, with no engine busier than its workers and no more CPU time spent than the cores
//! have, solve a fractional knapsack: the engine with the least h comes first, and the others
//! get what CPU time it leaves (`ranking.rs`). So a module whose h is below the processor's own
//! cost never waits for a job, and one whose h is above gets none.
//!
//! Near the end claims shrink, and a worker declines one that it would finish after the others
//! have drained the queue (`ending.rs`). An engine of which too little is known is tried, for
//! a bounded part of the run's CPU time (`trials.rs`). Little work starts no threads.
//!
//! What no thread's clock shows is seen in how much gets done: which engines work together on
//! jobs of a size is chosen by the rates that such teams were seen to have (`teams.rs`,
//! `window.rs`), and so is whether those that compute let the others go first (`yielding.rs`).

mod ending;
mod ranking;
mod teams;
mod trials;
mod window;
mod yielding;

use std::time::Duration;

use evener_core::Kind;

use super::{Claim, Decision, Effect, Event, Performed, Policy, Seat, Setting};
use crate::costs::EngineCosts;
use crate::{Load, SizeClass, Waiting};

use ranking::Share;
use teams::{MOST, Teams};
use trials::Trials;
use window::Window;
use yielding::Yielding;

/// Engines, a bit each by its number, and [`teams::YIELDS`].
type Members = u64;

/// The policy that fills engines in the order of their CPU cost.
pub(super) struct Adaptive {
    workers: Vec<Worker>,
    engines: Vec<Engine>,
    /// How many cores there are to share.
    cores: usize,
    trials: Trials,
    teams: Teams,
    window: Option<Window>,
    yielding: Yielding,
    /// What is done around a job, such as reading and writing a file.
    around: Around,
    /// The mean length of jobs of unknown size, as far as some have been done, in bytes.
    usual_bytes: f64,
    /// For each class that was waiting at the last look, which engines took it.
    taken_by: TakenBy,
}

struct Worker {
    engine: usize,
    state: State,
    /// Whether it has worked before, so that starting it again costs nothing.
    has_worked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Idle,
    /// It is about to ask.
    Called,
    Working {
        load: Load,
        since: Duration,
        /// When it should be done.
        until: Duration,
        /// Whether it lets modules go first meanwhile.
        yields: bool,
    },
    Left,
}

struct Engine {
    name: String,
    kind: Kind,
    batch: usize,
    in_service: usize,
    costs: EngineCosts,
    /// When its CPU time was measured last.
    measured: Option<Duration>,
}

/// Averages of a job's wall and CPU time outside of engines, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Around {
    wall: f64,
    cpu: f64,
    is_known: bool,
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

impl Adaptive {
    pub(super) fn new(seats: &[Seat], setting: &Setting) -> Adaptive {
        let mut engines: Vec<Engine> = Vec::new();
        let mut workers = Vec::new();
        for seat in seats {
            let known = engines.iter().position(|engine| engine.name == seat.engine);
            let engine = known.unwrap_or(engines.len());
            if known.is_none() {
                let costs = setting.costs.engine(&seat.engine).cloned();
                engines.push(Engine {
                    name: seat.engine.clone(),
                    kind: seat.kind,
                    batch: seat.batch.max(1),
                    in_service: 0,
                    costs: costs.unwrap_or_else(|| EngineCosts::new(seat.batch)),
                    measured: None,
                });
            }
            engines[engine].in_service += 1;
            workers.push(Worker { engine, state: State::Idle, has_worked: false });
        }
        Adaptive {
            workers,
            trials: Trials::new(engines.len()),
            teams: Teams::default(),
            window: None,
            yielding: Yielding::default(),
            engines,
            cores: setting.cores.max(1),
            around: Around::default(),
            usual_bytes: USUAL_BYTES,
            taken_by: [0; SizeClass::COUNT],
        }
    }

    /// What waits of a class.
    fn group(&self, class: SizeClass, waiting: &Waiting) -> Group {
        let counts = waiting.of(class);
        let jobs = counts.jobs.max(1) as f64;
        let bytes = match class {
            SizeClass::UNKNOWN => self.usual_bytes,
            _ => counts.bytes as f64 / jobs,
        };
        Group { class, tasks: counts.tasks, jobs, bytes }
    }

    /// What to take of a class.
    fn claim(
        &self,
        worker: usize,
        group: Group,
        only_class: bool,
        waiting: &Waiting,
        now: Duration,
    ) -> Decision {
        let engine = &self.engines[self.workers[worker].engine];
        let Share { jobs, wall } = self.share(worker, &group, waiting);
        if waiting.closed
            && let Some(wait) = self.would_be_late(worker, wall, waiting, now)
        {
            return Decision::Wait(Some(wait));
        }
        let jobs_per_task = group.jobs / group.tasks.max(1) as f64;
        Decision::Claim(Claim {
            tasks: (jobs / jobs_per_task).floor().max(1.0) as usize,
            class: only_class.then_some(group.class),
            measured: engine.wants_measuring(&group, now),
            yields: engine.kind == Kind::Cpu && self.yields(&group, now),
        })
    }

    /// Learns from a claim that was measured.
    fn learn(&mut self, worker: usize, load: Load, performed: &Performed, now: Duration) {
        let Some(processed) = performed.engine.filter(|processed| processed.jobs > 0) else {
            return;
        };
        let number = self.workers[worker].engine;
        let is_interrupted = self.is_of_cpu(number) && self.is_beside_modules();
        let engine = &mut self.engines[number];
        engine.measured = Some(now);
        let jobs = processed.jobs as f64;
        let mut own = processed;
        if is_interrupted {
            // What a module's driver does in the thread's time is no cost of the engine's.
            let batch = jobs / processed.batches.max(1) as f64;
            let known = engine.costs.cost(processed.bytes as f64 / jobs, batch);
            let most = known.map(|known| Duration::try_from_secs_f64(known.cpu * jobs / 1e6));
            own.cpu = most.and_then(Result::ok).map_or(own.cpu, |most| own.cpu.min(most));
        }
        engine.costs.learn(&own, performed.opened);
        if load.class() == SizeClass::UNKNOWN {
            let bytes = processed.bytes as f64 / jobs;
            let weight = if self.around.is_known { 0.2 } else { 1.0 };
            self.usual_bytes += (bytes - self.usual_bytes) * weight;
        }
        if performed.opened && self.around.is_known {
            return;
        }
        let micros =
            |all: Duration, engine: Duration| all.saturating_sub(engine).as_secs_f64() * 1e6 / jobs;
        self.around
            .learn(micros(performed.wall, processed.wall), micros(performed.cpu, processed.cpu));
    }

    /// Whether a worker of a module is at work.
    fn is_beside_modules(&self) -> bool {
        let is_at_work =
            |worker: &Worker| matches!(worker.state, State::Called | State::Working { .. });
        self.workers.iter().any(|worker| !self.is_of_cpu(worker.engine) && is_at_work(worker))
    }

    /// How much CPU time what waits will cost about, in microseconds.
    fn work(&self, waiting: &Waiting) -> f64 {
        let of = |class| {
            let group = self.group(class, waiting);
            group.jobs * self.cheapest(&group)
        };
        waiting.classes().map(of).sum()
    }

    /// Whether another engine takes something now that it did not before, or the reverse.
    fn has_changed_its_mind(&mut self, waiting: &Waiting) -> bool {
        let takes = |class, engine| self.takes(engine, &self.group(class, waiting));
        let taken_by = taken_by(waiting.classes(), self.engines.len(), takes);
        std::mem::replace(&mut self.taken_by, taken_by) != taken_by
    }
}

fn asking_if(has_changed: bool) -> Effect {
    if has_changed { Effect::AskAgain } else { Effect::Nothing }
}

impl Policy for Adaptive {
    fn next(&self, worker: usize, waiting: &Waiting, now: Duration) -> Decision {
        let engine = self.workers[worker].engine;
        if let Some(trial) = self.trials.planned_for(worker) {
            let yields = self.is_of_cpu(engine) && self.yielding.now;
            return Decision::Claim(Claim { yields, ..trial });
        }
        match self.choose(engine, waiting) {
            None => Decision::Wait(None),
            Some((group, only_class)) => self.claim(worker, group, only_class, waiting, now),
        }
    }

    fn starts(&self, worker: usize, waiting: &Waiting, now: Duration) -> bool {
        if self.trials.is_planned_for(worker) {
            return true;
        }
        let is_active =
            |worker: &&Worker| matches!(worker.state, State::Called | State::Working { .. });
        let active = self.workers.iter().filter(is_active).count() as f64;
        // One more worker takes the work off those at it; that must be worth a thread.
        let saved = self.work(waiting) / (active + 1.0) / active.max(1.0);
        let kind = self.engines[self.workers[worker].engine].kind;
        let price = if kind == Kind::Cpu { THREAD } else { OPENING };
        saved > price && matches!(self.next(worker, waiting, now), Decision::Claim(_))
    }

    fn starts_at_once(&self) -> bool {
        false
    }

    fn note(&mut self, worker: usize, event: &Event, waiting: &Waiting, now: Duration) -> Effect {
        match *event {
            Event::Called => self.workers[worker].state = State::Called,
            Event::Claimed { load, yields } => {
                let until = now + self.duration(worker, load);
                self.workers[worker].state = State::Working { load, since: now, until, yields };
                let is_cpu = self.is_of_cpu(self.workers[worker].engine);
                if self.trials.claimed(worker) || is_cpu && self.yielding.note(yields, now) {
                    self.window = None;
                }
            }
            Event::Performed(performed) => {
                let state = std::mem::replace(&mut self.workers[worker].state, State::Called);
                let State::Working { load, since, yields, .. } = state else {
                    return Effect::Nothing;
                };
                self.learn(worker, load, &performed, now);
                if self.is_of_cpu(self.workers[worker].engine) {
                    self.yielding.note_performed(yields);
                }
                self.workers[worker].has_worked = true;
                let engine = self.workers[worker].engine;
                // Opening its session is paid once, and is no reason to learn nothing for it.
                let cpu = performed.engine.map_or(performed.cpu, |processed| processed.cpu);
                let was_trial = self.trials.performed(worker, engine, cpu, now);
                if self.engines.len() == 1 {
                    return Effect::Nothing;
                }
                let sample = self.watch(worker, load, since, waiting, now);
                let is_new = sample.is_some_and(|it| self.learn_of_team(&it, waiting, now));
                if !(is_new || was_trial || performed.engine.is_some()) {
                    return Effect::Nothing;
                }
                let planned = self.plan_trial(waiting, now);
                return asking_if(self.has_changed_its_mind(waiting) || planned);
            }
            Event::Parked => {
                self.workers[worker].state = State::Idle;
                if waiting.tasks == 0 {
                    self.window = None;
                }
                // It may have left a core to a worker of another engine.
                return asking_if(self.engines.len() > 1);
            }
            Event::Left => {
                let seat = &mut self.workers[worker];
                if seat.state != State::Left {
                    seat.state = State::Left;
                    let engine = seat.engine;
                    self.engines[engine].in_service -= 1;
                    if waiting.tasks > 0 {
                        self.dissolve_teams_of(engine);
                    }
                }
                self.trials.left(worker);
                return Effect::AskAgain;
            }
        }
        Effect::Nothing
    }
}

/// For each class, by its number, which engines take it.
type TakenBy = [Members; SizeClass::COUNT];

/// Which engines take which of the classes that wait.
fn taken_by(
    classes: impl Iterator<Item = SizeClass>,
    engines: usize,
    takes: impl Fn(SizeClass, usize) -> bool,
) -> TakenBy {
    let mut taken_by = [0; SizeClass::COUNT];
    for class in classes {
        let taking = (0..engines.min(MOST)).filter(|&engine| takes(class, engine));
        taken_by[class.number()] = taking.fold(0, |members, engine| members | 1 << engine);
    }
    taken_by
}

impl Group {
    /// Jobs of a load, of this mean length.
    fn of(load: Load, bytes: f64) -> Group {
        Group { class: load.class(), tasks: 1, jobs: load.jobs as f64, bytes }
    }
}

impl Engine {
    /// Measuring costs some system calls, so firm knowledge is renewed only now and then.
    fn wants_measuring(&self, group: &Group, now: Duration) -> bool {
        let known = self.costs.cost(group.bytes, self.batch.min(group.jobs as usize) as f64);
        let is_old = |measured| now.saturating_sub(measured) >= MEASURE_EVERY;
        !known.is_some_and(|cost| cost.is_firm()) || self.measured.is_none_or(is_old)
    }
}

impl Around {
    fn learn(&mut self, wall: f64, cpu: f64) {
        let weight = if self.is_known { 0.2 } else { 1.0 };
        let near = |known: f64, sample: f64| {
            if self.is_known { sample.min(3.0 * known + 1.0) } else { sample }
        };
        self.wall += (near(self.wall, wall) - self.wall) * weight;
        self.cpu += (near(self.cpu, cpu) - self.cpu) * weight;
        self.is_known = true;
    }
}

/// What starting a thread costs, in microseconds.
const THREAD: f64 = 50.0;

/// What it costs for a module, whose session is tested before its first job.
const OPENING: f64 = 200.0;

/// How long jobs of unknown size are taken to be until some have been done, in bytes.
const USUAL_BYTES: f64 = 16_384.0;

/// How often what is known of an engine is renewed.
const MEASURE_EVERY: Duration = Duration::from_millis(4);

#[cfg(test)]
mod tests {
    use super::*;

    /// Were all classes and engines folded into one number, two changes at a time could undo
    /// each other, and a parked worker that is wanted now would stay parked.
    #[test]
    fn no_two_changes_of_mind_cancel() {
        let classes = || (0..SizeClass::COUNT).map(SizeClass::from_number);
        let engines = 8;
        let all: Vec<_> =
            classes().flat_map(|class| (0..engines).map(move |engine| (class, engine))).collect();
        let before = taken_by(classes(), engines, |_, _| false);
        for (number, one) in all.iter().enumerate() {
            for other in &all[number + 1..] {
                let takes = |class, engine| (class, engine) == *one || (class, engine) == *other;
                assert_ne!(taken_by(classes(), engines, takes), before, "{one:?} and {other:?}");
            }
        }
    }
}
