//! The policies that are compared: Evener's own, and the papers' polling.

use std::fmt;
use std::str::FromStr;

use evener_core::Kind;
use evener_pipeline::{PolicyName, Queue, UnknownPolicy};

/// A policy to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// One of Evener's policies.
    Own(PolicyName),
    /// A dispatcher watches the workers and hands a task to any free one. It never sleeps, so it
    /// uses CPU time of its own.
    Polling,
}

impl Rival {
    /// All of them, in the order of the papers' tables.
    pub const ALL: &'static [Rival] = &[
        Rival::Own(PolicyName::CpuOnly),
        Rival::Own(PolicyName::ModuleOnly),
        Rival::Own(PolicyName::RoundRobin),
        Rival::Polling,
        Rival::Own(PolicyName::Pull),
        Rival::Own(PolicyName::Adaptive),
    ];

    /// The policy's name, as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Rival::Own(policy) => policy.name(),
            Rival::Polling => "polling",
        }
    }

    /// Returns whether workers with engines of a kind get any work at all.
    pub fn admits(self, kind: Kind) -> bool {
        match self {
            Rival::Own(policy) => policy.admits(kind),
            Rival::Polling => true,
        }
    }

    /// Returns whether a module keeps working even if it takes more of the cores' time than it
    /// saves, as in the papers.
    pub(crate) fn ignores_burden(self) -> bool {
        self.of_queue() == PolicyName::Pull
    }

    /// The policy of the queue. With a dispatcher, a worker takes the tasks that it is given.
    pub(crate) fn of_queue(self) -> PolicyName {
        match self {
            Rival::Own(policy) => policy,
            Rival::Polling => PolicyName::Pull,
        }
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
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for &rival in Rival::ALL {
            assert_eq!(rival.to_string().parse(), Ok(rival));
        }
        let own = Rival::ALL.iter().filter(|rival| matches!(rival, Rival::Own(_)));
        assert_eq!(own.count(), PolicyName::ALL.len());
        assert!("fifo".parse::<Rival>().is_err());
    }
}
