//! Trying engines of which too little is known.

use std::time::Duration;

use evener_core::Kind;

use super::{Adaptive, Group, OPENING, State, THREAD};
use crate::Waiting;
use crate::policy::Claim;

/// The trials of a run, one at a time.
pub(super) struct Trials {
    planned: Option<Trial>,
    /// CPU time that went into trials, in microseconds.
    spent: f64,
    /// When each engine was tried last.
    last: Vec<Option<Duration>>,
    next_look: Duration,
}

struct Trial {
    worker: usize,
    claim: Claim,
    has_begun: bool,
}

impl Trials {
    pub(super) fn new(engines: usize) -> Trials {
        Trials { planned: None, spent: 0.0, last: vec![None; engines], next_look: Duration::ZERO }
    }

    pub(super) fn is_planned_for(&self, worker: usize) -> bool {
        self.planned_for(worker).is_some()
    }

    /// What a worker is to claim as a trial.
    pub(super) fn planned_for(&self, worker: usize) -> Option<Claim> {
        let trial = self.planned.as_ref()?;
        (trial.worker == worker && !trial.has_begun).then_some(trial.claim)
    }

    /// A worker has claimed. True when that is a trial.
    pub(super) fn claimed(&mut self, worker: usize) -> bool {
        let trial = self.planned.as_mut().filter(|trial| trial.worker == worker);
        trial.map(|trial| trial.has_begun = true).is_some()
    }

    /// Whether an engine is being tried.
    pub(super) fn is_on(&self) -> bool {
        self.planned.as_ref().is_some_and(|trial| trial.has_begun)
    }

    /// Whether what a worker has performed was a trial.
    pub(super) fn performed(
        &mut self,
        worker: usize,
        engine: usize,
        cpu: Duration,
        now: Duration,
    ) -> bool {
        let was_trial = self.planned.take_if(|trial| trial.worker == worker && trial.has_begun);
        if was_trial.is_some() {
            self.spent += cpu.as_secs_f64() * 1e6;
            self.last[engine] = Some(now);
            self.next_look = now;
        }
        was_trial.is_some()
    }

    pub(super) fn left(&mut self, worker: usize) {
        self.planned.take_if(|trial| trial.worker == worker);
    }
}

impl Adaptive {
    /// Plans a trial of an engine that does nothing now, if one is due and what it may cost is
    /// little beside the run so far and what waits. True when one was planned.
    pub(super) fn plan_trial(&mut self, waiting: &Waiting, now: Duration) -> bool {
        if self.trials.planned.is_some() || now < self.trials.next_look || waiting.tasks < FEWEST {
            return false;
        }
        self.trials.next_look = now + LOOK_EVERY;
        let busy = self.cores as f64 * now.as_secs_f64() * 1e6;
        let budget = PART * (busy + self.work(waiting)) - self.trials.spent;
        // What there is most of says most.
        let groups = waiting.classes().map(|class| self.group(class, waiting));
        let weight = |group: &Group| group.jobs * group.bytes.max(64.0);
        let most = groups.max_by(|one, other| weight(one).total_cmp(&weight(other)));
        let Some(group) = most else { return false };
        let due = (0..self.engines.len())
            .filter_map(|engine| {
                let worker = self
                    .workers
                    .iter()
                    .position(|worker| worker.engine == engine && worker.state == State::Idle)?;
                Some((self.trial_cost(engine, worker, &group, now)?, worker))
            })
            .min_by(|one, other| one.0.total_cmp(&other.0));
        let Some((_, worker)) = due.filter(|(cost, _)| *cost <= budget) else { return false };
        let jobs = self.trial_jobs(self.workers[worker].engine, &group);
        let tasks = (jobs * group.tasks as f64 / group.jobs).floor().max(1.0) as usize;
        let claim = Claim { tasks, class: Some(group.class), measured: true, yields: false };
        self.trials.planned = Some(Trial { worker, claim, has_begun: false });
        true
    }

    /// What a trial would cost in CPU time, in microseconds; `None` where none is due.
    fn trial_cost(
        &self,
        engine: usize,
        worker: usize,
        group: &Group,
        now: Duration,
    ) -> Option<f64> {
        let usual = self.cheapest(group);
        let last = self.trials.last[engine];
        let known = self.price(engine, group);
        if let Some(known) = known {
            // Two looks are enough at what is out of the question; all changes with time.
            let is_clear = known.samples > 1.0 && known.cpu > CLEARLY * usual;
            let settled = known.is_firm() || is_clear;
            let is_recent = |last: Duration| now.saturating_sub(last) < TRY_AGAIN;
            if self.takes(engine, group) || settled && last.map_or(now < TRY_AGAIN, is_recent) {
                return None;
            }
        }
        let jobs = self.trial_jobs(engine, group);
        let is_module = self.engines[engine].kind == Kind::Module;
        let opening = match (self.workers[worker].has_worked, is_module) {
            (true, _) => 0.0,
            (false, false) => 2.0 * THREAD,
            (false, true) => OPENING + THREAD,
        };
        let unknown = if is_module { UNKNOWN_MODULE / jobs } else { 0.0 };
        let guess = unknown.max(2.0 * usual);
        let each = match known {
            Some(known) if known.samples > 0.0 => known.cpu,
            Some(bound) => bound.cpu.min(guess),
            None => guess,
        };
        Some(opening + each * jobs)
    }

    fn trial_jobs(&self, engine: usize, group: &Group) -> f64 {
        let batch = self.engines[engine].batch as f64;
        batch.min(group.jobs / 2.0).max(1.0)
    }
}

/// How much of the CPU time of a run may go into trials.
const PART: f64 = 0.015;

/// How many tasks must wait at least.
const FEWEST: usize = 4;

/// How often to look whether a trial is due.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// After what time an engine may have changed.
const TRY_AGAIN: Duration = Duration::from_secs(2);

/// How many times the usual cost is out of the question.
const CLEARLY: f64 = 3.0;

/// What a module of which nothing is known may cost for a batch, in microseconds.
const UNKNOWN_MODULE: f64 = 1500.0;
