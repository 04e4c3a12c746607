//! A simulated worker, its claim, and the stages of its work.

use std::collections::VecDeque;

use evener_core::{EngineProfile, Kind, batch_of};

use super::processor::Processor;

pub(super) struct Worker {
    pub(super) engine: usize,
    pub(super) thread: usize,
    /// The thread of its engine's driver.
    pub(super) driver: usize,
    /// The thread that opens the session, and computes for it, once that has taken a while.
    pub(super) idle: usize,
    /// True if the idle thread computes for the session.
    pub(super) has_stepped_back: bool,
    pub(super) phase: Phase,
    /// The rest of the claim, batch by batch.
    pub(super) stages: VecDeque<Stage>,
    pub(super) claim: Option<Claim>,
    pub(super) has_session: bool,
    /// True until the worker finishes a claim.
    pub(super) is_cold: bool,
}

/// The stages of a batch, in microseconds, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Stage {
    /// The worker's CPU time, and the part of it left for an idle thread.
    pub(super) cpu: f64,
    pub(super) rest: f64,
    /// The driver's CPU time.
    pub(super) hidden: f64,
    /// The time in the device.
    pub(super) device: f64,
}

/// A worker's claim, and its times.
pub(super) struct Claim {
    pub(super) at: f64,
    pub(super) cpu_before: f64,
    /// The lengths of its jobs.
    pub(super) jobs: Vec<usize>,
    /// The number of jobs in a batch.
    pub(super) batch: usize,
    /// True if the scheduler asks for the claim's CPU time and, in `measured`, for the engine's
    /// work.
    pub(super) timed: bool,
    pub(super) measured: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
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
    pub(super) fn new(engine: usize, thread: usize, driver: usize, idle: usize) -> Worker {
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
    pub(super) fn used(&self, processor: &Processor) -> f64 {
        processor.used(self.thread) + processor.used(self.idle)
    }
}

/// The number of these jobs that make a batch.
pub(super) fn batch(profile: &EngineProfile, tasks: &[usize]) -> usize {
    let mean = tasks.iter().sum::<usize>() as f64 / tasks.len().max(1) as f64;
    batch_of(profile.batch, profile.bytes, mean) as usize
}

/// The times of a claim's batches.
pub(super) fn stages(
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
