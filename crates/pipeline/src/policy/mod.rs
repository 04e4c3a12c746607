//! How workers come by tasks.
//!
//! A [`Policy`] decides and does nothing else: it has no threads and no clock. What waits, and
//! what time it is, come in as arguments, so that the very same code is driven by the real
//! queue, by the simulator and by tests on a simulated clock.

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
    /// What a worker that has nothing to do does next. Asked when tasks wait; where none do, a
    /// worker waits for one.
    fn next(&self, worker: usize, waiting: &Waiting, now: Duration) -> Decision;

    /// Whether a worker whose thread does not run yet should start.
    fn starts(&self, worker: usize, waiting: &Waiting, now: Duration) -> bool {
        matches!(self.next(worker, waiting, now), Decision::Claim(_))
    }

    /// Whether the workers' threads should start before anything is fed. Otherwise each is
    /// started when [`Policy::starts`] says so, and what is little work is done by the caller's.
    fn starts_at_once(&self) -> bool {
        true
    }

    /// What becomes of a module's worker whose engine takes more time from the cores than it saves, and may
    /// try again after a rest; `None` where that is as it should be.
    fn restrain(&self, rest: Duration) -> Option<Decision> {
        Some(Decision::Wait(Some(rest)))
    }

    /// Learns what happened to a worker, and says what that means for the others.
    fn note(&mut self, worker: usize, event: &Event, waiting: &Waiting, now: Duration) -> Effect {
        let _ = (worker, event, waiting, now);
        Effect::Nothing
    }
}

/// What a worker does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It takes tasks.
    Claim(Claim),
    /// It waits until something changes, or for at most so long.
    Wait(Option<Duration>),
    /// There will be nothing for it in this run.
    Leave,
}

/// What an event changes for the workers that it did not happen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: what the policy said of them stands.
    Nothing,
    /// Workers that wait may get another answer now, and are to be asked again.
    AskAgain,
}

/// Which tasks a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// How many at most; at least 1.
    pub tasks: usize,
    /// Of which size class only; `None` takes them in their order.
    pub class: Option<SizeClass>,
    /// Whether CPU time is to be measured, which costs some system calls.
    pub measured: bool,
}

impl Claim {
    /// The first task of all.
    pub const ONE: Claim = Claim { tasks: 1, class: None, measured: false };
}

/// What happened to a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// It was woken, or its thread started, because it would claim; it will ask.
    Called,
    /// It has claimed tasks.
    Claimed {
        /// What they come to together.
        load: Load,
    },
    /// It has performed them.
    Performed(Performed),
    /// It waits.
    Parked,
    /// It has left, because its engine failed or because it was told to.
    Left,
}

/// What a worker did for one claim.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Performed {
    /// Wall time from claiming the tasks to having performed them.
    pub wall: Duration,
    /// CPU time meanwhile, of its thread and of those of its sessions and their drivers; zero unless it was
    /// measured.
    pub cpu: Duration,
    /// How many jobs its engine did, and how many bytes they had.
    pub done: (u64, u64),
    /// What its engine did in that time; `None` unless it was measured.
    pub engine: Option<Processed>,
    /// Whether a session was opened, which takes time that other claims don't.
    pub opened: bool,
}

/// What a policy knows of a worker before the run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The engine's name. Workers of one engine have the same.
    pub engine: String,
    /// Where the engine's work is done.
    pub kind: Kind,
    /// How many jobs it likes in a batch; at least 1.
    pub batch: usize,
    /// How many bytes it likes in a batch; 0 if only the number of jobs matters.
    pub bytes: usize,
    /// How long its session takes to open, as far as that is known.
    pub opening: Option<Duration>,
}

/// What a policy knows of the run before it begins.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How many cores the workers share.
    pub cores: usize,
    /// What engines cost, as far as it was measured before.
    pub costs: Costs,
}
