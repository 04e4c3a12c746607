//! One run: workers, their engines and a queue, on a simulated clock.

use std::collections::VecDeque;
use std::time::Duration;

use evener_core::{EngineProfile, Kind, batch_of};
use evener_pipeline::Load;
use evener_pipeline::costs::{Costs, EngineCosts};
use evener_pipeline::policy::{Performed, Processed, Seat, Setting};
use evener_pipeline::scheduler::{Call, Scheduler, Turn};

use super::processor::Processor;
use crate::done::{Amount, all_done};
use crate::{LabError, Rival};

/// The machine and its jobs.
pub struct Scene<'a> {
    /// Number of cores.
    pub cores: usize,
    /// The engines, each with `depth` workers.
    pub engines: Vec<&'a EngineProfile>,
    /// The length of every job, in queue order. The queue is filled before the clock starts.
    pub jobs: Vec<usize>,
    /// The factor on the profile's wall and CPU time of a job, for engines whose speed changes. The
    /// arguments are the engine's number and the time.
    pub slowness: fn(usize, Duration) -> (f64, f64),
    /// The factor on the profile's hidden CPU time of a job.
    pub hidden: fn(usize, Duration) -> f64,
    /// The time to open a module's session, on a core and then in the device.
    pub opening: (Duration, Duration),
    /// The batch at which the modules' device begins to hang, counted from 1 over all modules.
    pub hangs_at: Option<u64>,
    /// True if, under `pull`, modules rest that take more of the cores' time than they save, as in
    /// the program but not in the papers.
    pub pull_spares_cores: bool,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The time from before the first worker's start to after the last one's end.
    pub wall: Duration,
    /// The number of jobs of each engine, in the order of the scene's engines; together they are
    /// all jobs.
    pub jobs: Vec<u64>,
    /// CPU time used.
    pub cpu: Duration,
    /// The number of workers' threads started.
    pub threads: usize,
    /// The number of batches that the modules began.
    pub module_batches: u64,
}

impl<'a> Scene<'a> {
    /// A scene whose engines keep their speed.
    pub fn new(cores: usize, engines: Vec<&'a EngineProfile>, jobs: Vec<usize>) -> Scene<'a> {
        let (slowness, hidden) = (|_, _| (1.0, 1.0), |_, _| 1.0);
        let opening = (Duration::ZERO, Duration::ZERO);
        Scene {
            cores,
            engines,
            jobs,
            slowness,
            hidden,
            opening,
            hangs_at: None,
            pull_spares_cores: false,
        }
    }

    /// Simulates a run under a policy that starts from `costs`.
    ///
    /// # Errors
    /// [`LabError::Undone`] when the run ended before all jobs were done.
    pub fn run(&self, policy: impl Into<Rival>, costs: Costs) -> Result<Outcome, LabError> {
        let rival = policy.into();
        let mut seats = Vec::new();
        let mut workers = Vec::new();
        let mut processor = Processor::new(self.cores);
        for (engine, profile) in self.engines.iter().enumerate() {
            for _ in 0..profile.depth {
                seats.push(Seat {
                    engine: profile.name.clone(),
                    kind: profile.kind,
                    batch: profile.batch,
                    bytes: profile.bytes,
                    opening: costs.engine(&profile.name).and_then(opening),
                });
                let [thread, driver] = [(); 2].map(|()| processor.add_thread());
                let idle = processor.add_idle_thread();
                workers.push(Worker::new(engine, thread, driver, idle));
            }
        }
        let setting = Setting { cores: self.cores, costs };
        let policy = rival.of_queue().policy(&seats, &setting);
        let spares = self.pull_spares_cores || !rival.ignores_burden();
        let mut scheduler = Scheduler::new(policy, &seats, spares.then_some(self.cores));
        let dispatcher = (rival == Rival::Polling)
            .then(|| Dispatcher { thread: processor.add_thread(), jobs: self.jobs.clone().into() });
        if dispatcher.is_none() {
            for &bytes in &self.jobs {
                scheduler.fill(bytes, Load::job(bytes as u64));
            }
        }
        let (jobs, bytes) = (vec![0; self.engines.len()], 0);
        let simulation = Simulation {
            scene: self,
            processor,
            scheduler,
            workers,
            dispatcher,
            jobs,
            bytes,
            threads: 0,
            module_batches: 0,
            brief: vec![BRIEF; self.engines.len()],
        };
        let (outcome, bytes) = simulation.run();
        let done = Amount { files: outcome.jobs.iter().sum(), bytes };
        let bytes = self.jobs.iter().map(|&bytes| bytes as u64).sum();
        let wanted = Amount { files: self.jobs.len() as u64, bytes };
        all_done(&format!("{rival}, simulated"), done, wanted)?;
        Ok(outcome)
    }
}

struct Simulation<'a> {
    scene: &'a Scene<'a>,
    processor: Processor,
    scheduler: Scheduler<usize>,
    workers: Vec<Worker>,
    dispatcher: Option<Dispatcher>,
    jobs: Vec<u64>,
    bytes: u64,
    threads: usize,
    module_batches: u64,
    /// The time for which each engine's openings are as urgent as the work.
    brief: Vec<f64>,
}

/// The thread that hands out tasks, and the remaining tasks.
struct Dispatcher {
    thread: usize,
    jobs: VecDeque<usize>,
}

struct Worker {
    engine: usize,
    thread: usize,
    /// The thread of its engine's driver.
    driver: usize,
    /// The thread that opens the session, and computes for it, once that has taken a while.
    idle: usize,
    /// True if the idle thread computes for the session.
    has_stepped_back: bool,
    phase: Phase,
    /// The rest of the claim, batch by batch.
    stages: VecDeque<Stage>,
    claim: Option<Claim>,
    has_session: bool,
    /// True until the worker finishes a claim.
    is_cold: bool,
}

/// The stages of a batch, in microseconds, one after the other.
#[derive(Clone, Copy)]
struct Stage {
    /// The worker's CPU time, and the part of it left for an idle thread.
    cpu: f64,
    rest: f64,
    /// The driver's CPU time.
    hidden: f64,
    /// The time in the device.
    device: f64,
}

/// A worker's claim, and its times.
struct Claim {
    at: f64,
    cpu_before: f64,
    /// The lengths of its jobs.
    jobs: Vec<usize>,
    /// The number of jobs in a batch.
    batch: usize,
    /// True if the scheduler asks for the claim's CPU time and, in `measured`, for the engine's
    /// work.
    timed: bool,
    measured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The worker has no thread, or its thread has ended.
    Absent,
    /// The thread starts, or wakes to ask for tasks.
    Coming,
    /// The session is being opened: first on a core, with this much left for an idle thread, and
    /// then in the device, until a time.
    Opening(f64),
    OpeningInDevice(f64),
    /// The worker waits for a wake-up, or until a time.
    Waiting(f64),
    OnCore,
    /// The driver's thread works for the worker.
    InDriver,
    /// The device works until a time.
    InDevice(f64),
}

impl Worker {
    fn new(engine: usize, thread: usize, driver: usize, idle: usize) -> Worker {
        let (phase, stages) = (Phase::Absent, VecDeque::new());
        let (claim, has_session, is_cold) = (None, false, true);
        Worker {
            engine,
            thread,
            driver,
            idle,
            has_stepped_back: false,
            phase,
            stages,
            claim,
            has_session,
            is_cold,
        }
    }

    /// The worker's CPU time so far, in microseconds.
    fn used(&self, processor: &Processor) -> f64 {
        processor.used(self.thread) + processor.used(self.idle)
    }
}

impl Simulation<'_> {
    /// Returns the outcome and the number of bytes done.
    fn run(mut self) -> (Outcome, u64) {
        self.scheduler.open(self.now());
        match &self.dispatcher {
            Some(dispatcher) => self.processor.work(dispatcher.thread, LOOK),
            None => self.scheduler.close(self.now()),
        }
        let by_caller = self.scheduler.unstarted(self.now());
        self.answer();
        if let Some(worker) = by_caller {
            // The worker uses the caller's thread, which already runs.
            self.workers[worker].phase = Phase::Coming;
            self.processor.work(self.workers[worker].thread, 0.0);
        }
        // The dispatcher starts the workers.
        let dispatches = |dispatcher: &Option<Dispatcher>| {
            dispatcher.as_ref().is_some_and(|dispatcher| !dispatcher.jobs.is_empty())
        };
        while dispatches(&self.dispatcher)
            || self.workers.iter().any(|worker| worker.phase != Phase::Absent)
        {
            let due = |phase| match phase {
                Phase::Waiting(until) | Phase::InDevice(until) | Phase::OpeningInDevice(until) => {
                    until
                }
                _ => f64::INFINITY,
            };
            let next = (0..self.workers.len())
                .min_by(|&one, &other| {
                    due(self.workers[one].phase).total_cmp(&due(self.workers[other].phase))
                })
                .map(|worker| (worker, due(self.workers[worker].phase)));
            let Some((worker, at)) = next else { break };
            match self.processor.pass(at) {
                Some(thread) => self.done_on_core(thread),
                None if at.is_finite() => self.due(worker),
                // No thread runs and nothing is due: the policy assigned tasks to no worker.
                None => break,
            }
        }
        let threads = 0..3 * self.workers.len() + usize::from(self.dispatcher.is_some());
        let outcome = Outcome {
            wall: self.now(),
            cpu: micros(threads.map(|thread| self.processor.used(thread)).sum()),
            jobs: self.jobs,
            threads: self.threads,
            module_batches: self.module_batches,
        };
        (outcome, self.bytes)
    }

    fn now(&self) -> Duration {
        micros(self.processor.now())
    }

    /// Handles a thread that has finished its work on a core.
    fn done_on_core(&mut self, thread: usize) {
        if self.dispatcher.as_ref().is_some_and(|dispatcher| dispatcher.thread == thread) {
            return self.dispatch();
        }
        let is_of = |worker: &Worker| [worker.thread, worker.driver, worker.idle].contains(&thread);
        let Some(number) = self.workers.iter().position(is_of) else {
            return;
        };
        let opens = self.opens(number);
        let worker = &mut self.workers[number];
        if worker.phase == Phase::OnCore
            && let Some(stage) = worker.stages.front_mut()
        {
            let rest = std::mem::take(&mut stage.rest);
            if rest > 0.0 {
                worker.has_stepped_back = true;
                self.processor.sleep(thread);
                return self.processor.work(worker.idle, rest);
            }
            if thread == worker.idle {
                self.processor.sleep(thread);
            }
        }
        match (worker.phase, worker.stages.front()) {
            (Phase::OnCore, Some(stage)) if stage.hidden > 0.0 => {
                worker.phase = Phase::InDriver;
                self.processor.sleep(thread);
                self.processor.work(worker.driver, stage.hidden);
            }
            (Phase::OnCore | Phase::InDriver, Some(stage)) if stage.device > 0.0 => {
                worker.phase = Phase::InDevice(self.processor.now() + stage.device);
                self.processor.sleep(thread);
            }
            (Phase::InDriver, _) => {
                self.processor.sleep(thread);
                self.stage_done(number);
            }
            (Phase::OnCore, _) => self.stage_done(number),
            (Phase::Opening(rest), _) if rest > 0.0 => {
                worker.phase = Phase::Opening(0.0);
                self.processor.sleep(thread);
                self.processor.work(worker.idle, rest);
            }
            (Phase::Opening(_), _) => {
                let in_device = self.scene.opening.1.as_secs_f64() * 1e6;
                worker.phase = Phase::OpeningInDevice(self.processor.now() + in_device);
                self.processor.sleep(thread);
            }
            _ if opens => {
                let on_core = self.scene.opening.0.as_secs_f64() * 1e6;
                let brief = on_core.min(self.brief[worker.engine]);
                self.brief[worker.engine] -= brief;
                worker.phase = Phase::Opening(on_core - brief);
                self.processor.work(thread, brief);
            }
            _ => self.ask(number),
        }
    }

    /// Returns whether a worker belongs to a module and has no session yet.
    fn opens(&self, number: usize) -> bool {
        let worker = &self.workers[number];
        self.scene.engines[worker.engine].kind == Kind::Module && !worker.has_session
    }

    /// Dismisses a worker whose session or claim is no longer wanted. The finished part of its
    /// claim is done; its device may do anything with the rest.
    fn recall(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        for thread in [worker.thread, worker.driver, worker.idle] {
            self.processor.sleep(thread);
        }
        worker.phase = Phase::Absent;
        let stages = std::mem::take(&mut worker.stages).len();
        let rest = worker.claim.take().map_or_else(Vec::new, |claim| {
            let done = claim.jobs.len().div_ceil(claim.batch).saturating_sub(stages) * claim.batch;
            let (done, rest) = claim.jobs.split_at(done.min(claim.jobs.len()));
            self.jobs[worker.engine] += done.len() as u64;
            self.bytes += done.iter().map(|&bytes| bytes as u64).sum::<u64>();
            rest.to_vec()
        });
        let rest = rest.into_iter().map(|bytes| (bytes, Load::job(bytes as u64)));
        self.scheduler.leave(number, rest, self.now());
        self.let_dispatcher_look();
        self.answer();
    }

    /// Hands a task to each worker that waits or has not started, as [`Queue::offer`] does.
    ///
    /// [`Queue::offer`]: evener_pipeline::Queue::offer
    fn dispatch(&mut self) {
        let now = self.now();
        let Some(dispatcher) = &mut self.dispatcher else { return };
        while (0..self.workers.len()).any(|worker| self.scheduler.is_free(worker)) {
            let Some(bytes) = dispatcher.jobs.pop_front() else { break };
            self.scheduler.push(bytes, Load::job(bytes as u64), now);
        }
        if dispatcher.jobs.is_empty() {
            self.processor.sleep(dispatcher.thread);
            self.scheduler.close(now);
        } else {
            // The dispatcher keeps polling; that has no effect until a worker waits.
            self.processor.work(dispatcher.thread, f64::INFINITY);
        }
        self.answer();
    }

    /// Lets the dispatcher notice a waiting worker.
    fn let_dispatcher_look(&mut self) {
        let waits = |dispatcher: &&Dispatcher| !dispatcher.jobs.is_empty();
        if let Some(dispatcher) = self.dispatcher.as_ref().filter(waits) {
            self.processor.work(dispatcher.thread, LOOK);
        }
    }

    /// Handles a worker whose device has finished or whose wait is over.
    fn due(&mut self, number: usize) {
        match self.workers[number].phase {
            Phase::InDevice(_) => self.stage_done(number),
            Phase::OpeningInDevice(_) => {
                self.workers[number].has_session = true;
                self.workers[number].phase = Phase::Coming;
                self.processor.work(self.workers[number].thread, SWITCH);
            }
            _ => {
                self.workers[number].phase = Phase::Coming;
                self.processor.work(self.workers[number].thread, SWITCH);
            }
        }
    }

    fn stage_done(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        worker.stages.pop_front();
        match worker.stages.front() {
            None => self.ask(number),
            Some(_) => self.compute(number),
        }
    }

    /// Begins a stage. A module's thread that computes for long yields to all others.
    fn compute(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        worker.phase = Phase::OnCore;
        let is_module = self.scene.engines[worker.engine].kind == Kind::Module;
        let at_once = if worker.has_stepped_back { 0.0 } else { LONGEST_COMPUTING };
        let at_once = if is_module { at_once } else { f64::INFINITY };
        let Some(stage) = worker.stages.front_mut() else { return };
        stage.rest = (stage.cpu - at_once).max(0.0);
        self.processor.work(worker.thread, stage.cpu - stage.rest);
    }

    /// Handles a worker that has finished its claim, if any, and asks for the next.
    fn ask(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        let now = self.processor.now();
        let performed = worker.claim.take().map(|claim| {
            let wall = micros(now - claim.at);
            let cpu = micros(worker.used(&self.processor) - claim.cpu_before);
            let Claim { jobs, batch, timed, measured, .. } = claim;
            let batches = jobs.len().div_ceil(batch) as u64;
            let bytes = jobs.iter().map(|&bytes| bytes as u64).sum();
            let jobs = jobs.len() as u64;
            self.jobs[worker.engine] += jobs;
            self.bytes += bytes;
            let engine = measured.then_some(Processed { batches, jobs, bytes, wall, cpu });
            let cpu = if measured || timed { cpu } else { Duration::ZERO };
            let opened = std::mem::take(&mut worker.is_cold);
            Performed { wall, cpu, done: (jobs, bytes), engine, opened }
        });
        let mut tasks = VecDeque::new();
        let turn = self.scheduler.turn(number, performed.as_ref(), &mut tasks, micros(now));
        let worker = &mut self.workers[number];
        match turn {
            Turn::Leave => {
                worker.phase = Phase::Absent;
                self.processor.sleep(worker.thread);
                self.let_dispatcher_look();
            }
            Turn::Wait(at_most) => {
                let at_most = at_most.map_or(f64::INFINITY, |most| most.as_secs_f64() * 1e6);
                worker.phase = Phase::Waiting(now + at_most);
                self.processor.sleep(worker.thread);
                self.let_dispatcher_look();
            }
            Turn::Work { measured, timed } => {
                let tasks: Vec<_> = tasks.into();
                let profile = self.scene.engines[worker.engine];
                let slowness = (self.scene.slowness)(worker.engine, micros(now));
                let hidden = (self.scene.hidden)(worker.engine, micros(now));
                let batch = batch(profile, &tasks);
                worker.stages = stages(profile, &tasks, batch, slowness, hidden);
                if profile.kind == Kind::Module {
                    for stage in &mut worker.stages {
                        self.module_batches += 1;
                        if self.scene.hangs_at.is_some_and(|at| self.module_batches >= at) {
                            stage.device = f64::INFINITY;
                        }
                    }
                }
                worker.claim = Some(Claim {
                    at: now,
                    cpu_before: worker.used(&self.processor),
                    jobs: tasks,
                    batch,
                    timed,
                    measured,
                });
                self.compute(number);
            }
        }
        self.answer();
    }

    /// Wakes and starts the workers that the scheduler called.
    fn answer(&mut self) {
        let calls: Vec<_> = self.scheduler.calls().collect();
        for call in calls {
            let (number, cost) = match call {
                Call::Recall(worker) => {
                    self.recall(worker);
                    continue;
                }
                Call::Wake(worker) => (worker, SWITCH),
                Call::Start(worker) => {
                    self.threads += 1;
                    (worker, THREAD)
                }
            };
            self.workers[number].phase = Phase::Coming;
            self.processor.work(self.workers[number].thread, cost);
        }
    }
}

/// The time to open a session, if known.
fn opening(costs: &EngineCosts) -> Option<Duration> {
    costs.opening().map(micros)
}

/// The number of these jobs that make a batch.
fn batch(profile: &EngineProfile, tasks: &[usize]) -> usize {
    let mean = tasks.iter().sum::<usize>() as f64 / tasks.len().max(1) as f64;
    batch_of(profile.batch, profile.bytes, mean) as usize
}

/// The time for which an engine's openings are as urgent as the work, in microseconds.
const BRIEF: f64 = 10_000.0;

/// The longest that a module's thread may compute at a time before it yields to all others, in
/// microseconds.
const LONGEST_COMPUTING: f64 = 4_000.0;

/// The times of a claim's batches.
fn stages(
    profile: &EngineProfile,
    tasks: &[usize],
    batch: usize,
    (wall, cpu): (f64, f64),
    hidden: f64,
) -> VecDeque<Stage> {
    let stage = |tasks: &[usize]| {
        let bytes = tasks.iter().sum::<usize>() / tasks.len();
        let point = if profile.kind == Kind::Module && !profile.points_at_depth.is_empty() {
            let at_depth =
                EngineProfile { points: profile.points_at_depth.clone(), ..profile.clone() };
            at_depth.cost(bytes)
        } else {
            profile.cost(bytes)
        };
        // Idle lanes and the fixed part of a device's call take time too.
        let jobs = if 2 * tasks.len() <= batch { batch.div_ceil(2) } else { batch } as f64;
        let (on_core, hidden) = (point.cpu_us * cpu, point.hidden_us * hidden);
        let in_device = (point.wall_us * wall - on_core - hidden).max(0.0);
        Stage { cpu: jobs * on_core, rest: 0.0, hidden: jobs * hidden, device: jobs * in_device }
    };
    tasks.chunks(batch).map(stage).collect()
}

fn micros(micros: f64) -> Duration {
    Duration::from_nanos((micros * 1000.0).round() as u64)
}

/// CPU time of one poll of the workers by the dispatcher, in microseconds.
const LOOK: f64 = 1.0;

/// CPU time of waking a thread, in microseconds.
const SWITCH: f64 = 2.0;

/// CPU time of starting a thread, in microseconds.
const THREAD: f64 = 50.0;
