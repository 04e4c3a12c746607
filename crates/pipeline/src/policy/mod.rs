//! The policies, which assign tasks to workers.
//!
//! A [`Policy`] only decides: it has no threads and no clock. It gets the waiting tasks and the
//! time as arguments, so the real queue, the simulator and tests on a simulated clock run the same
//! code.

mod adaptive;
mod name;
mod pull;

use std::fmt::Debug;
use std::time::Duration;

use evener_core::Kind;

use crate::costs::Costs;
pub use crate::costs::Processed;
use crate::{Load, SizeClass, Waiting};

pub use name::{PolicyName, UnknownPolicy};

/// Makes the policies of runs, one for each run.
pub trait MakePolicy: Debug + Send + Sync {
    /// Makes the policy for these workers.
    fn policy(&self, seats: &[Seat], setting: &Setting) -> Box<dyn Policy>;

    /// Returns whether the policies start from the costs of the [`Setting`].
    fn uses_costs(&self) -> bool {
        true
    }
}

/// Decides which worker gets which tasks, and when.
///
/// All times count from the start of the run.
pub trait Policy: Send {
    /// Returns the next action of an idle worker. After the start of the run it is called only when
    /// tasks wait; otherwise a worker waits for one.
    fn next(&self, worker: usize, waiting: &Waiting, now: Duration) -> Decision;

    /// Returns whether a worker whose thread does not run yet should start.
    fn starts(&self, worker: usize, waiting: &Waiting, now: Duration) -> bool {
        matches!(self.next(worker, waiting, now), Decision::Claim(_))
    }

    /// Returns whether the workers' threads should start before anything is fed. Otherwise each
    /// starts when [`Policy::starts`] says so, and the caller's thread does small amounts of work.
    fn starts_at_once(&self) -> bool {
        true
    }

    /// Returns the decision for a module's worker whose engine takes more time from the cores than
    /// it saves and may try again after `rest`; `None` if the policy accepts that.
    fn restrain(&self, rest: Duration) -> Option<Decision> {
        Some(Decision::Wait(Some(rest)))
    }

    /// Learns what happened to a worker, and returns the effect on the other workers.
    fn note(&mut self, worker: usize, event: &Event, waiting: &Waiting, now: Duration) -> Effect {
        let _ = (worker, event, waiting, now);
        Effect::Nothing
    }
}

/// A worker's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It takes tasks.
    Claim(Claim),
    /// It waits until something changes, or for at most this long.
    Wait(Option<Duration>),
    /// It leaves: this run will have no tasks for it.
    Leave,
}

/// The effect of a worker's event on the other workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// None: the policy's decisions for them stand.
    Nothing,
    /// Waiting workers may get a different decision now, so the scheduler must ask again.
    AskAgain,
}

/// The tasks that a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The maximum number of tasks; at least 1.
    pub tasks: usize,
    /// The size class to take from; `None` takes tasks in their order.
    pub class: Option<SizeClass>,
    /// True to measure CPU time, which costs some system calls.
    pub measured: bool,
}

impl Claim {
    /// A claim of the first task, of any class.
    pub const ONE: Claim = Claim { tasks: 1, class: None, measured: false };
}

/// An event of one worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// It was woken, or its thread started, to claim tasks; it will ask for them.
    Called,
    /// It has claimed tasks.
    Claimed {
        /// The total load of the tasks.
        load: Load,
    },
    /// It has performed its claim.
    Performed(Performed),
    /// It waits.
    Parked,
    /// It has left, because its engine failed or the scheduler told it to.
    Left,
}

/// The work and time of one claim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Performed {
    /// Wall time from claiming the tasks to having performed them.
    pub wall: Duration,
    /// CPU time in that period, of the worker's thread and of the threads of its sessions and their
    /// drivers; zero unless measured.
    pub cpu: Duration,
    /// The numbers of jobs and bytes that its engine processed.
    pub done: (u64, u64),
    /// Its engine's part of the work; `None` unless measured.
    pub engine: Option<Processed>,
    /// True if a session was opened, which takes time that other claims don't need.
    pub opened: bool,
}

/// The facts about a worker that a policy knows before the run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The engine's name, the same for all workers of the engine.
    pub engine: String,
    /// The place where the engine computes.
    pub kind: Kind,
    /// The recommended number of jobs in a batch; at least 1.
    pub batch: usize,
    /// The recommended number of bytes in a batch; 0 if only the number of jobs matters.
    pub bytes: usize,
    /// The time to open its session, if known.
    pub opening: Option<Duration>,
}

/// The facts about the run that a policy knows before it begins.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The number of cores that the workers share.
    pub cores: usize,
    /// The engines' costs from earlier measurements.
    pub costs: Costs,
}
