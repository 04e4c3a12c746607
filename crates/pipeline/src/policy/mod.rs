//! Policies: which worker gets which task, and when.
//!
//! A [`Policy`] is pure code without threads and clocks. The state of the queue and the time are
//! arguments, so the same code runs in the real queue, in a simulation and in tests.

mod adaptive;
mod fixed;
mod name;
mod pull;
mod round_robin;

use std::time::Duration;

use evener_core::Kind;

use crate::costs::Costs;
pub use crate::costs::Processed;
use crate::{Load, SizeClass, Waiting};

pub use name::{PolicyName, UnknownPolicy};

/// Decides which worker gets which tasks, and when.
///
/// All times are since the run began.
pub trait Policy: Send {
    /// The next action of an idle worker. Called when tasks are in the queue; otherwise the worker
    /// waits for one.
    fn next(&self, worker: usize, waiting: &Waiting, now: Duration) -> Decision;

    /// Whether a worker without a thread should start.
    fn starts(&self, worker: usize, waiting: &Waiting, now: Duration) -> bool {
        matches!(self.next(worker, waiting, now), Decision::Claim(_))
    }

    /// Whether all workers' threads start before the first task is fed. Otherwise a thread starts
    /// when [`Policy::starts`] is true, and the caller's thread does small amounts of work.
    fn starts_at_once(&self) -> bool {
        true
    }

    /// Takes an event of a worker, and returns its effect on the other workers.
    fn note(&mut self, worker: usize, event: &Event, waiting: &Waiting, now: Duration) -> Effect {
        let _ = (worker, event, waiting, now);
        Effect::Nothing
    }
}

/// The next action of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It takes tasks.
    Claim(Claim),
    /// It waits until something changes, or for at most this time.
    Wait(Option<Duration>),
    /// It gets no further task in this run.
    Leave,
}

/// The effect of an event on the other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None.
    Nothing,
    /// Waiting workers may get a different answer now, and ask again.
    AskAgain,
}

/// Which tasks a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The largest number; at least 1.
    pub tasks: usize,
    /// Only tasks of this size class; `None` for all in their order.
    pub class: Option<SizeClass>,
    /// Whether CPU time is measured, which costs some system calls.
    pub measured: bool,
    /// Whether the worker's thread runs at low priority, below the threads of modules.
    pub yields: bool,
}

impl Claim {
    /// The first task of all.
    pub const ONE: Claim = Claim { tasks: 1, class: None, measured: false, yields: false };
}

/// The nice value of a thread that runs below the threads of modules: Linux gives it a 68th of the
/// CPU time of a thread with nice value 0, and preempts it as soon as such a thread wakes.
pub const YIELDING_NICE: i32 = 19;

/// An event of a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// It was woken or started to claim tasks, and will ask for them.
    Called,
    /// It has claimed tasks.
    Claimed {
        /// Their load together.
        load: Load,
        /// Whether its thread runs at low priority.
        yields: bool,
    },
    /// It has performed them.
    Performed(Performed),
    /// It waits.
    Parked,
    /// It has ended, because its engine failed or because it gets no further task.
    Left,
}

/// The work of a worker for one claim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Performed {
    /// Wall time from the claim to the end of its last task.
    pub wall: Duration,
    /// CPU time of its thread and of its sessions' own threads; zero unless it was measured.
    pub cpu: Duration,
    /// The work of its engine; `None` unless it was measured.
    pub engine: Option<Processed>,
    /// Whether a session was opened, which takes additional time.
    pub opened: bool,
}

/// A worker, as a policy sees it before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The engine's name. Workers of one engine have the same.
    pub engine: String,
    /// Where the engine's work is done.
    pub kind: Kind,
    /// The recommended number of jobs in a batch; at least 1.
    pub batch: usize,
}

/// The run, as a policy sees it before it begins.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Number of cores that the workers share.
    pub cores: usize,
    /// The engines' costs, as far as they were measured before.
    pub costs: Costs,
}
