//! Whether the processor's workers let the threads of modules go first.
//!
//! A module's thread is on a core for a moment at a time, and makes its device wait when it has
//! to wait for a core itself. A scheduler that is fair to a worker that computes all the time is
//! not always fair to it. Where workers of the processor step back, the module works as if it
//! were alone, and they have what it leaves. Sometimes that is the most that can be had, and
//! sometimes less, since a thread that is interrupted all the time takes several times as long for
//! a job. So a team with and without yielding is two teams, whose rates decide (`teams.rs`). Until
//! they are known, the processor yields to modules that do a job for less of its time than itself.

use std::time::Duration;

use evener_core::Kind;

use super::teams::{YIELDS, has};
use super::{Adaptive, Group, Members, State, Worker};

/// Whether the processor's workers have stepped back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Yielding {
    /// As of the last claim of one of them.
    pub(super) now: bool,
    /// When that was changed last.
    changed: Option<Duration>,
    /// Whether none has performed a claim since: one that begins on another thread starts that,
    /// and opens its session.
    pub(super) is_new: bool,
}

impl Yielding {
    /// A worker of the processor has claimed tasks. True when that changes how others are to
    /// work.
    pub(super) fn note(&mut self, yields: bool, now: Duration) -> bool {
        if yields == self.now {
            return false;
        }
        *self = Yielding { now: yields, changed: Some(now), is_new: true };
        true
    }

    /// A worker of the processor has performed a claim.
    pub(super) fn note_performed(&mut self, yields: bool) {
        self.is_new &= yields != self.now;
    }
}

impl Adaptive {
    /// Whether a worker of the processor that claims jobs of a group is to let modules go first.
    /// All of them do, or none.
    pub(super) fn yields(&self, group: &Group, now: Duration) -> bool {
        let is_recent = |changed: Duration| now.saturating_sub(changed) < LEAST_TIME;
        if self.yielding.changed.is_some_and(is_recent) {
            return self.yielding.now;
        }
        let modules = || self.workers.iter().filter(|worker| !self.is_of_cpu(worker.engine));
        let is_there = |worker: &Worker| match worker.state {
            State::Idle => worker.has_worked,
            State::Called | State::Working { .. } => true,
            State::Left => false,
        };
        if self.engines.len() == 1 || !modules().any(is_there) {
            return false;
        }
        // The jobs for which modules want a core now.
        let mut wanted = modules().filter_map(|worker| match worker.state {
            State::Working { load, .. } => Some(Group::of(load, self.mean_bytes(load))),
            _ => None,
        });
        match wanted.next() {
            None => self.yields_for(group),
            Some(first) => {
                std::iter::once(first).chain(wanted).any(|group| self.yields_for(&group))
            }
        }
    }

    fn yields_for(&self, group: &Group) -> bool {
        match self.teams.chosen(group.class) {
            Some(team) => team & YIELDS != 0,
            None => self.has_cheaper_module(Members::MAX, group),
        }
    }

    /// Whether engines of a team compute on the cores that a cheaper module of it needs.
    pub(super) fn may_yield(&self, team: Members, group: &Group) -> bool {
        self.is_of_both_kinds(team) && self.has_cheaper_module(team, group)
    }

    /// Whether a team has both modules and engines that compute on the cores.
    pub(super) fn is_of_both_kinds(&self, team: Members) -> bool {
        let has_any = |is_of_cpu| {
            (0..self.engines.len())
                .any(|number| has(team, number) && self.is_of_cpu(number) == is_of_cpu)
        };
        has_any(true) && has_any(false)
    }

    /// Whether a module of a team does jobs of a group for less CPU time than any CPU engine.
    fn has_cheaper_module(&self, team: Members, group: &Group) -> bool {
        let Some(least) = self.cheapest_cpu_engine(group) else { return false };
        (0..self.engines.len()).any(|number| {
            let serves =
                !self.is_of_cpu(number) && self.engines[number].in_service > 0 && has(team, number);
            serves && self.price(number, group).is_some_and(|cost| cost.cpu < least)
        })
    }

    pub(super) fn is_of_cpu(&self, engine: usize) -> bool {
        self.engines[engine].kind == Kind::Cpu
    }
}

/// How long workers stay as they are: a step back or forward takes as long as starting a thread.
const LEAST_TIME: Duration = Duration::from_millis(10);
