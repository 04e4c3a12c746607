//! One run: workers, their engines and a queue, on a simulated clock.

use std::collections::VecDeque;
use std::time::Duration;

use evener_core::{EngineProfile, Kind, batch_of};
use evener_pipeline::Load;
use evener_pipeline::costs::Costs;
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
    /// The length of every job, in the order of the queue, which is filled before the clock
    /// starts.
    pub jobs: Vec<usize>,
    /// Factor on the profile's wall and CPU time of a job, for engines whose speed changes. The
    /// arguments are the engine's number and the time.
    pub slowness: fn(usize, Duration) -> (f64, f64),
    /// Factor on the profile's hidden CPU time of a job.
    pub hidden: fn(usize, Duration) -> f64,
    /// How much longer a module's worker takes for its first claim, which opens a session: half of
    /// it on a core, half in the device.
    pub opening: Duration,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Time from before the first worker's start to after the last one's end.
    pub wall: Duration,
    /// How many jobs each engine did, in the order of the scene's engines: together, all.
    pub jobs: Vec<u64>,
    /// CPU time used.
    pub cpu: Duration,
    /// How many workers' threads were started.
    pub threads: usize,
}

impl<'a> Scene<'a> {
    /// Engines that keep their speed.
    pub fn new(cores: usize, engines: Vec<&'a EngineProfile>, jobs: Vec<usize>) -> Scene<'a> {
        let (slowness, hidden) = (|_, _| (1.0, 1.0), |_, _| 1.0);
        Scene { cores, engines, jobs, slowness, hidden, opening: Duration::ZERO }
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
                });
                let [thread, driver] = [(); 2].map(|()| processor.add_thread());
                workers.push(Worker::new(engine, thread, driver));
            }
        }
        let setting = Setting { cores: self.cores, costs };
        let policy = rival.of_queue().policy(&seats, &setting);
        let mut scheduler = Scheduler::new(policy, workers.len());
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
}

/// The thread that hands out tasks, and the tasks that are left.
struct Dispatcher {
    thread: usize,
    jobs: VecDeque<usize>,
}

struct Worker {
    engine: usize,
    thread: usize,
    /// The thread of its engine's driver.
    driver: usize,
    phase: Phase,
    /// The rest of its claim, batch by batch.
    stages: VecDeque<Stage>,
    claim: Option<Claim>,
    has_session: bool,
}

/// The stages of a batch, in microseconds, one after the other.
#[derive(Clone, Copy)]
struct Stage {
    /// Of the worker's CPU time.
    cpu: f64,
    /// Of the driver's.
    hidden: f64,
    /// In the device.
    device: f64,
}

/// A worker's claim, and its time.
struct Claim {
    at: f64,
    cpu_before: f64,
    batches: u64,
    jobs: u64,
    bytes: u64,
    opens: bool,
    /// Whether the scheduler wants to know its CPU time, and what its engine did.
    measured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// It has no thread, or its thread has ended.
    Absent,
    /// Its thread starts, or wakes to ask for tasks.
    Coming,
    /// It waits for a wake-up, or until a time.
    Waiting(f64),
    OnCore,
    /// The driver's thread works for it.
    InDriver,
    /// Its device works until a time.
    InDevice(f64),
}

impl Worker {
    fn new(engine: usize, thread: usize, driver: usize) -> Worker {
        let (phase, stages) = (Phase::Absent, VecDeque::new());
        Worker { engine, thread, driver, phase, stages, claim: None, has_session: false }
    }
}

impl Simulation<'_> {
    /// The outcome, and how many bytes were done.
    fn run(mut self) -> (Outcome, u64) {
        self.scheduler.open(self.now());
        match &self.dispatcher {
            Some(dispatcher) => self.processor.work(dispatcher.thread, LOOK),
            None => self.scheduler.close(self.now()),
        }
        let by_caller = self.scheduler.unstarted(self.now());
        self.answer();
        if let Some(worker) = by_caller {
            // It is the caller's thread, which runs already.
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
                Phase::Waiting(until) | Phase::InDevice(until) => until,
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
        let threads = 0..2 * self.workers.len() + usize::from(self.dispatcher.is_some());
        let outcome = Outcome {
            wall: self.now(),
            cpu: micros(threads.map(|thread| self.processor.used(thread)).sum()),
            jobs: self.jobs,
            threads: self.threads,
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
        let is_of = |worker: &Worker| worker.thread == thread || worker.driver == thread;
        let Some(number) = self.workers.iter().position(is_of) else {
            return;
        };
        let worker = &mut self.workers[number];
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
            _ => self.ask(number),
        }
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

    /// Has the dispatcher notice a worker that waits.
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
            Some(stage) => {
                worker.phase = Phase::OnCore;
                self.processor.work(worker.thread, stage.cpu);
            }
        }
    }

    /// Handles a worker that has finished its claim, if any, and asks for the next.
    fn ask(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        let now = self.processor.now();
        let performed = worker.claim.take().map(|claim| {
            let wall = micros(now - claim.at);
            let cpu = micros(self.processor.used(worker.thread) - claim.cpu_before);
            let Claim { batches, jobs, bytes, opens, measured, .. } = claim;
            self.jobs[worker.engine] += jobs;
            self.bytes += bytes;
            let opening = if opens { self.scene.opening } else { Duration::ZERO };
            let engine = measured.then(|| Processed {
                batches,
                jobs,
                bytes,
                wall: wall.saturating_sub(opening),
                cpu: cpu.saturating_sub(opening / 2),
            });
            let cpu = if measured { cpu } else { Duration::ZERO };
            Performed { wall, cpu, engine, opened: opens }
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
            Turn::Work { measured } => {
                let tasks: Vec<_> = tasks.into();
                let profile = self.scene.engines[worker.engine];
                let slowness = (self.scene.slowness)(worker.engine, micros(now));
                let hidden = (self.scene.hidden)(worker.engine, micros(now));
                worker.stages = stages(profile, &tasks, slowness, hidden);
                let opens = profile.kind == Kind::Module && !worker.has_session;
                worker.has_session = true;
                if let Some(first) = worker.stages.front_mut().filter(|_| opens) {
                    let half = self.scene.opening.as_secs_f64() * 1e6 / 2.0;
                    first.cpu += half;
                    first.device += half;
                }
                worker.claim = Some(Claim {
                    at: now,
                    cpu_before: self.processor.used(worker.thread),
                    batches: worker.stages.len() as u64,
                    jobs: tasks.len() as u64,
                    bytes: tasks.iter().map(|&bytes| bytes as u64).sum(),
                    opens,
                    measured,
                });
                worker.phase = Phase::OnCore;
                let cpu = worker.stages.front().map_or(0.0, |stage| stage.cpu);
                self.processor.work(worker.thread, cpu);
            }
        }
        self.answer();
    }

    /// Wakes and starts the workers that the scheduler called.
    fn answer(&mut self) {
        let calls: Vec<_> = self.scheduler.calls().collect();
        for call in calls {
            let (number, cost) = match call {
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

/// The times of a claim's batches.
fn stages(
    profile: &EngineProfile,
    tasks: &[usize],
    (wall, cpu): (f64, f64),
    hidden: f64,
) -> VecDeque<Stage> {
    let mean = tasks.iter().sum::<usize>() as f64 / tasks.len().max(1) as f64;
    let batch = batch_of((profile.batch, profile.bytes), mean) as usize;
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
        Stage { cpu: jobs * on_core, hidden: jobs * hidden, device: jobs * in_device }
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
