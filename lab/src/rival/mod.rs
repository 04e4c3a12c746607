//! The policies that are compared: Evener's own, and the papers'.

mod fixed;
mod round_robin;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use evener_core::Kind;
use evener_pipeline::policy::{MakePolicy, Policy, Seat, Setting};
use evener_pipeline::{PolicyName, Queue, UnknownPolicy};

use fixed::OneKind;
use round_robin::RoundRobin;

/// A policy to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Only engines that compute on the calling core.
    CpuOnly,
    /// Only modules.
    ModuleOnly,
    /// Equal shares for all workers, dealt out in turn.
    RoundRobin,
    /// A dispatcher watches the workers and hands a task to any free one. It never sleeps, so it
    /// uses CPU time of its own.
    Polling,
    /// One of Evener's policies.
    Own(PolicyName),
}

impl Rival {
    /// All of them, in the order of the papers' tables.
    pub const ALL: &'static [Rival] = &[
        Rival::CpuOnly,
        Rival::ModuleOnly,
        Rival::RoundRobin,
        Rival::Polling,
        Rival::Own(PolicyName::Pull),
        Rival::Own(PolicyName::Adaptive),
    ];

    /// The policy's name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Rival::CpuOnly => "cpu-only",
            Rival::ModuleOnly => "module-only",
            Rival::RoundRobin => "round-robin",
            Rival::Polling => "polling",
            Rival::Own(policy) => policy.name(),
        }
    }

    /// Returns whether workers with engines of a kind get any work at all.
    pub fn admits(self, kind: Kind) -> bool {
        match self {
            Rival::CpuOnly => kind == Kind::Cpu,
            Rival::ModuleOnly => kind == Kind::Module,
            _ => true,
        }
    }

    /// Returns whether a module keeps working even if it takes more of the cores' time than it
    /// saves, as in the papers.
    pub(crate) fn ignores_burden(self) -> bool {
        matches!(self, Rival::Polling | Rival::Own(PolicyName::Pull))
    }
}

impl MakePolicy for Rival {
    fn policy(&self, seats: &[Seat], setting: &Setting) -> Box<dyn Policy> {
        match self {
            Rival::CpuOnly => Box::new(OneKind::new(Kind::Cpu, seats)),
            Rival::ModuleOnly => Box::new(OneKind::new(Kind::Module, seats)),
            Rival::RoundRobin => Box::new(RoundRobin::new(seats)),
            // A worker takes the tasks that the dispatcher gives it.
            Rival::Polling => PolicyName::Pull.policy(seats, setting),
            Rival::Own(policy) => policy.policy(seats, setting),
        }
    }
}

impl From<Rival> for Arc<dyn MakePolicy> {
    fn from(rival: Rival) -> Arc<dyn MakePolicy> {
        Arc::new(rival)
    }
}

impl From<PolicyName> for Rival {
    fn from(policy: PolicyName) -> Rival {
        Rival::Own(policy)
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Rival {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Rival, UnknownPolicy> {
        match Rival::ALL.iter().find(|rival| rival.name() == text) {
            Some(&rival) => Ok(rival),
            None => text.parse().map(Rival::Own),
        }
    }
}

/// Runs the dispatcher of [`Rival::Polling`]: hands each task to a waiting worker, until all are
/// handed out or the run was stopped.
pub(crate) fn dispatch<T>(queue: &Queue<'_, T>, tasks: impl IntoIterator<Item = T>) {
    for mut task in tasks {
        let mut looks: u32 = 0;
        while let Err(refused) = queue.offer(task) {
            task = refused;
            looks = looks.wrapping_add(1);
            // `is_stopped` takes the queue's lock, which the workers need.
            if looks.is_multiple_of(1 << 12) && queue.is_stopped() {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests;
