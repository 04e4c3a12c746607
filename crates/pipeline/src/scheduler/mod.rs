//! The queue's rules, without threads and clocks.
//!
//! The feed adds tasks, and workers ask what to do ([`Scheduler::turn`]). The policy answers: tasks
//! to perform, a wait, or the end. After each call, [`Scheduler::calls`] lists the workers to wake,
//! start or recall. [`Queue`](crate::Queue) keeps a scheduler under its lock; the simulator drives
//! one on its own clock.

mod backlog;
mod model;
mod pace;
mod watch;

use std::collections::VecDeque;
use std::time::Duration;

use crate::Load;
use crate::policy::{Claim, Decision, Effect, Event, Performed, Policy, Seat};
use backlog::Backlog;
pub use backlog::{Counts, Waiting};
use pace::Pace;

/// The waiting tasks, the policy, and the state of each worker.
///
/// A task has one owner at a time: the scheduler, or the worker that claimed it. The run is over
/// when the feed has closed the scheduler, no task waits and no claim is open, since a worker may
/// share further tasks while it has a claim.
///
/// A module's worker opens its session before it asks for tasks, while other workers work. When
/// nothing waits and a core is idle, the scheduler takes back a module's late claim: it
/// [recalls](Call::Recall) the worker.
pub struct Scheduler<T> {
    backlog: Backlog<T>,
    policy: Box<dyn Policy>,
    workers: Vec<State>,
    pace: Pace,
    /// The time since which a core has been idle.
    idle_since: Option<Duration>,
    /// The time at which an idle core next checks the claims of modules.
    next_look: Option<Duration>,
    /// True while the feed waits for what claimed tasks hold.
    feed_is_held: bool,
    phase: Phase,
    claims: usize,
    in_service: usize,
    calls: Vec<Call>,
    /// Divides a task, if possible.
    split: fn(&mut T, u64) -> Option<T>,
    load: fn(&T) -> Load,
}

/// The scheduler's answer to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has tasks to perform.
    Work {
        /// True to measure CPU time during the work, and the engine's part of it.
        measured: bool,
        /// True to measure CPU time.
        timed: bool,
    },
    /// It must wait until it is called, or for at most this long, and ask again.
    Wait(Option<Duration>),
    /// The run is over for it.
    Leave,
}

/// A worker to wake, start or recall, after the scheduler's lock is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The worker waits, and must ask again.
    Wake(usize),
    /// The worker's thread must start. A module's worker opens its session first.
    Start(usize),
    /// The worker's claim is no longer wanted: the worker must leave at once, with the claim
    /// undone.
    Recall(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unstarted,
    /// It was started and opens its module's session.
    Opening,
    /// It was woken or started and has not asked yet.
    Called,
    Working,
    /// Its claim was taken back.
    Recalled,
    /// It waits until it is called.
    Parked,
    /// It waits, and asks again by itself.
    Resting,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
    Stopped,
    /// Every worker has left.
    Deserted,
}

impl<T> Scheduler<T> {
    /// A scheduler for these workers, none of which has started. With `Some(cores)`, no module may
    /// take more time than it saves from this many cores, if their workers keep them busy; with
    /// `None`, modules may.
    pub fn new(policy: Box<dyn Policy>, seats: &[Seat], cores: Option<usize>) -> Scheduler<T> {
        let workers = seats.len();
        Scheduler {
            backlog: Backlog::new(),
            policy,
            workers: vec![State::Unstarted; workers],
            pace: Pace::new(seats, cores),
            idle_since: None,
            next_look: None,
            feed_is_held: false,
            phase: Phase::Open,
            claims: 0,
            in_service: workers,
            calls: Vec::new(),
            split: |_, _| None,
            load: |_| Load::unknown(1),
        }
    }

    /// Lets the scheduler divide tasks, for modules that must do little work at first and between
    /// all workers at the end: `split` leaves the given number of jobs in a task and returns the
    /// rest.
    pub fn divide(&mut self, split: fn(&mut T, u64) -> Option<T>, load: fn(&T) -> Load) {
        (self.split, self.load) = (split, load);
    }

    /// Starts all workers that will have work, if the policy starts workers at once.
    pub fn open(&mut self, now: Duration) {
        if !self.policy.starts_at_once() {
            return;
        }
        for worker in 0..self.workers.len() {
            if self.policy.next(worker, self.backlog.waiting(), now) == Decision::Leave {
                self.set_left(worker, now);
            } else if self.is_worth_starting(worker, now) {
                self.call(worker, now);
            }
        }
    }

    /// Adds a task at the end, before the run begins.
    pub fn fill(&mut self, task: T, load: Load) {
        self.backlog.push_back(task, load);
    }

    /// Adds a task at the end.
    pub fn push(&mut self, task: T, load: Load, now: Duration) {
        self.feed_is_held = false;
        self.backlog.push_back(task, load);
        self.consider(now);
    }

    /// Puts a task at the head.
    pub fn share(&mut self, task: T, load: Load, now: Duration) {
        self.backlog.push_front(task, load);
        self.consider(now);
    }

    /// Records that the feed has ended.
    pub fn close(&mut self, now: Duration) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closed;
            self.backlog.close();
        }
        self.end_when_drained();
        self.consider(now);
        self.have_claims_watched(now);
    }

    /// Ends the run early: no worker gets another task.
    pub fn stop(&mut self) {
        if self.phase != Phase::Deserted {
            self.phase = Phase::Stopped;
        }
        self.release_all();
    }

    /// Returns whether the run ended early, by [`Scheduler::stop`] or because every worker has
    /// left.
    pub fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped | Phase::Deserted)
    }

    /// Returns whether every worker left before the run was over.
    pub fn is_deserted(&self) -> bool {
        self.phase == Phase::Deserted
    }

    /// Returns whether no worker will get another task.
    pub fn is_over(&self) -> bool {
        let drained = self.claims == 0 && self.backlog.waiting().tasks == 0;
        self.is_stopped() || self.phase == Phase::Closed && drained
    }

    /// Makes sure that a worker will come for the waiting tasks, whatever the policy decides about
    /// each. Call it before a feed waits for workers to claim them.
    pub fn ensure(&mut self, now: Duration) {
        if self.is_over() || self.backlog.waiting().tasks == 0 || self.is_anyone_coming(None) {
            return;
        }
        let find = |wanted| self.find(|_, state| state == wanted);
        if let Some(worker) = find(State::Parked).or_else(|| find(State::Unstarted)) {
            self.call(worker, now);
        }
    }

    /// Records that the feed waits for what claimed tasks hold, until it adds the next task.
    pub fn hold_feed(&mut self, now: Duration) {
        self.feed_is_held = true;
        self.ensure(now);
        self.have_claims_watched(now);
    }

    /// Returns whether a worker that was told to wait has not been called yet.
    pub fn waits(&self, worker: usize) -> bool {
        matches!(self.workers[worker], State::Parked | State::Resting)
    }

    /// Returns whether a worker waits or has not started.
    pub fn is_free(&self, worker: usize) -> bool {
        self.waits(worker) || self.workers[worker] == State::Unstarted
    }

    /// The numbers of waiting tasks.
    pub fn waiting(&self) -> &Waiting {
        self.backlog.waiting()
    }

    /// The workers to wake, start or recall since the last call of this function.
    pub fn calls(&mut self) -> std::vec::Drain<'_, Call> {
        self.calls.drain(..)
    }

    /// Answers a worker that has performed its claim, if it had one, and asks what to do. Puts the
    /// tasks to perform into `claim`, which must be empty.
    pub fn turn(
        &mut self,
        worker: usize,
        performed: Option<&Performed>,
        claim: &mut VecDeque<T>,
        now: Duration,
    ) -> Turn {
        if self.workers[worker] == State::Recalled {
            // It finished its claim nevertheless.
            self.end_claim(worker, performed);
            self.set_left(worker, now);
            self.end_when_drained();
            return Turn::Leave;
        }
        let was_first = self.pace.is_new_module(worker);
        if self.workers[worker] == State::Working {
            self.end_claim(worker, performed);
        }
        let was_first = was_first && !self.pace.is_new_module(worker);
        self.workers[worker] = State::Called;
        let effect = match performed {
            Some(performed) => self.note(worker, &Event::Performed(*performed), now),
            None => Effect::Nothing,
        };
        let turn = self.decide(worker, claim, now);
        if effect == Effect::AskAgain || was_first {
            self.consider(now);
        }
        turn
    }

    /// Restarts the clock of a claim that a worker continues.
    pub fn renew(&mut self, worker: usize, now: Duration) {
        self.pace.renew(worker, now);
    }

    /// Removes a worker, and takes back the rest of its claim.
    pub fn leave(
        &mut self,
        worker: usize,
        rest: impl IntoIterator<Item = (T, Load)>,
        now: Duration,
    ) {
        let rest: Vec<_> = rest.into_iter().collect();
        for (task, load) in rest.into_iter().rev() {
            self.backlog.push_front(task, load);
        }
        if matches!(self.workers[worker], State::Working | State::Recalled) {
            self.end_claim(worker, None);
        }
        self.set_left(worker, now);
        self.end_when_drained();
        self.consider(now);
        self.ensure(now);
    }

    fn end_claim(&mut self, worker: usize, performed: Option<&Performed>) {
        self.claims = self.claims.saturating_sub(1);
        self.pace.end(worker, performed);
    }

    /// Finds a worker that would claim tasks and whose thread has not started; the caller's thread
    /// can act as that worker. Once the scheduler is closed, some worker will come for every
    /// waiting task.
    pub fn unstarted(&mut self, now: Duration) -> Option<usize> {
        if self.is_over() || self.backlog.waiting().tasks == 0 {
            return None;
        }
        // A module's worker only if no other worker comes: opening its session may take long.
        let is_alone = !self.is_anyone_coming(None);
        let found = self.find(|worker, state| {
            let may_be = is_alone || !self.pace.is_module(worker);
            state == State::Unstarted && may_be && self.claims(worker, now)
        });
        if found.is_none() {
            self.ensure(now);
        }
        let worker = found?;
        self.workers[worker] = State::Called;
        self.note(worker, &Event::Called, now);
        Some(worker)
    }

    /// The tasks that were left when the run ended.
    pub fn into_tasks(self) -> Vec<T> {
        self.backlog.into_tasks()
    }

    fn note(&mut self, worker: usize, event: &Event, now: Duration) -> Effect {
        self.policy.note(worker, event, self.backlog.waiting(), now)
    }

    fn decide(&mut self, worker: usize, claim: &mut VecDeque<T>, now: Duration) -> Turn {
        self.end_when_drained();
        if self.is_over() {
            self.set_left(worker, now);
            return Turn::Leave;
        }
        let restraint = self.restraint(worker, now);
        let decision = if self.backlog.waiting().tasks == 0 {
            Decision::Wait(None)
        } else if let Some(restraint) = restraint {
            restraint
        } else {
            match self.policy.next(worker, self.backlog.waiting(), now) {
                // Waiting tasks always get a worker, whatever the policy decides.
                Decision::Wait(None) if !self.is_anyone_coming(Some(worker)) => {
                    Decision::Claim(Claim::ONE)
                }
                decision => decision,
            }
        };
        match decision {
            Decision::Claim(wanted) => {
                let timed = self.pace.is_timed(worker);
                self.take(worker, wanted, claim, now);
                Turn::Work { measured: wanted.measured, timed }
            }
            Decision::Wait(mut at_most) => {
                if !self.pace.is_module(worker)
                    && let Some(look) = self.watch_claims(now)
                {
                    at_most = Some(at_most.map_or(look, |at_most| at_most.min(look)));
                }
                self.park(worker, at_most, now);
                Turn::Wait(at_most)
            }
            Decision::Leave => {
                self.set_left(worker, now);
                self.consider(now);
                Turn::Leave
            }
        }
    }

    fn take(&mut self, worker: usize, wanted: Claim, claim: &mut VecDeque<T>, now: Duration) {
        let mut sum = Load { jobs: 0, bytes: Some(0), is_divisible: false };
        let (mut class, mut is_divided) = (wanted.class, false);
        for _ in 0..wanted.tasks.max(1) {
            let Some((mut task, mut load)) = self.backlog.pop(class) else {
                // The class has no tasks left, but a claim must not be empty.
                if class.take().is_some() && claim.is_empty() { continue } else { break }
            };
            let most = self.most_jobs(worker, load, sum.jobs, now).saturating_sub(sum.jobs);
            if load.jobs > most {
                if most == 0 {
                    self.backlog.push_front(task, load);
                    break;
                }
                if let Some(rest) = (self.split)(&mut task, most) {
                    let load_of_rest = (self.load)(&rest);
                    self.backlog.push_front(rest, load_of_rest);
                    is_divided = true;
                    load = (self.load)(&task);
                }
            }
            sum.jobs = sum.jobs.saturating_add(load.jobs);
            sum.bytes = sum.bytes.zip(load.bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
            claim.push_back(task);
        }
        self.claims += 1;
        self.workers[worker] = State::Working;
        self.pace.begin(worker, sum, now);
        if !self.pace.is_module(worker) {
            // This worker may have been the watcher.
            (self.idle_since, self.next_look) = (None, None);
        }
        self.note(worker, &Event::Claimed { load: sum }, now);
        let is_module = self.pace.is_module(worker);
        if is_module && self.next_look.is_none_or(|look| look <= now) {
            self.have_claims_watched(now);
        }
        if is_divided {
            self.consider(now);
        }
    }

    /// The most jobs of a claim that has `claimed` jobs already, before a task of this load is added.
    /// Once the feed has ended, no worker takes more than its share of what is left, so that the
    /// workers end together.
    fn most_jobs(&self, worker: usize, load: Load, claimed: u64, now: Duration) -> u64 {
        let of_module = self.pace.most_jobs(worker, load, now).unwrap_or(u64::MAX);
        if self.phase != Phase::Closed {
            return of_module;
        }
        let left = self.backlog.waiting().jobs.saturating_add(load.jobs).saturating_add(claimed);
        of_module.min(left.div_ceil(self.in_service.max(1) as u64))
    }

    /// Finds a worker, preferably one of the cores.
    fn find(&self, wanted: impl Fn(usize, State) -> bool) -> Option<usize> {
        let is_found = |worker: &usize| wanted(*worker, self.workers[*worker]);
        let mut found = (0..self.workers.len()).filter(is_found);
        let first = found.clone().find(|&worker| !self.pace.is_module(worker));
        first.or_else(|| found.next())
    }

    fn park(&mut self, worker: usize, at_most: Option<Duration>, now: Duration) {
        self.workers[worker] = if at_most.is_some() { State::Resting } else { State::Parked };
        if self.note(worker, &Event::Parked, now) == Effect::AskAgain {
            self.consider(now);
        }
    }

    fn set_left(&mut self, worker: usize, now: Duration) {
        if self.workers[worker] == State::Left {
            return;
        }
        self.workers[worker] = State::Left;
        self.in_service = self.in_service.saturating_sub(1);
        self.note(worker, &Event::Left, now);
        if self.in_service == 0 && !self.is_over() {
            self.phase = Phase::Deserted;
        }
    }

    fn claims(&self, worker: usize, now: Duration) -> bool {
        self.restraint(worker, now).is_none()
            && matches!(self.policy.next(worker, self.backlog.waiting(), now), Decision::Claim(_))
    }

    /// The decision for a module's worker that must get no work now, although tasks wait: another
    /// worker performs its engine's first claim, or the engine takes more time from the cores than
    /// it saves.
    fn restraint(&self, worker: usize, now: Duration) -> Option<Decision> {
        if self.pace.is_being_tried(worker) {
            return Some(Decision::Wait(None));
        }
        let rest = self.pace.rest(worker, now)?;
        let cores = self.workers.iter().enumerate();
        let cores =
            cores.filter(|&(worker, state)| !self.pace.is_module(worker) && *state != State::Left);
        self.policy.restrain(rest).filter(|_| self.pace.are_enough(cores.count()))
    }

    /// Returns whether any worker except `apart_from` works or will ask again by itself.
    fn is_anyone_coming(&self, apart_from: Option<usize>) -> bool {
        let is_coming = |(worker, state): (usize, &State)| {
            Some(worker) != apart_from
                && matches!(
                    state,
                    State::Called | State::Working | State::Recalled | State::Resting
                )
        };
        self.workers.iter().enumerate().any(is_coming)
    }

    fn end_when_drained(&mut self) {
        if self.phase == Phase::Closed && self.is_over() {
            self.release_all();
        }
    }

    /// Releases all workers: waiting workers leave, and no worker waits for a session to open.
    fn release_all(&mut self) {
        for (worker, state) in self.workers.iter_mut().enumerate() {
            match state {
                State::Parked | State::Resting => {
                    *state = State::Called;
                    self.calls.push(Call::Wake(worker));
                }
                State::Opening => {
                    *state = State::Called;
                    self.calls.push(Call::Recall(worker));
                }
                _ => {}
            }
        }
    }

    /// Calls waiting and unstarted workers that would claim now, as many as there are tasks.
    fn consider(&mut self, now: Duration) {
        if self.is_over() {
            return;
        }
        let called = self.workers.iter().filter(|state| **state == State::Called).count();
        let mut uncalled = self.backlog.waiting().tasks.saturating_sub(called);
        for worker in 0..self.workers.len() {
            if uncalled == 0 {
                return;
            }
            let wanted = match self.workers[worker] {
                State::Parked | State::Resting => self.claims(worker, now),
                State::Unstarted => {
                    self.is_worth_starting(worker, now)
                        && self.policy.starts(worker, self.backlog.waiting(), now)
                }
                _ => false,
            };
            if wanted {
                self.call(worker, now);
                uncalled -= 1;
            }
        }
    }

    /// Returns whether an unstarted worker may find work when it is ready.
    fn is_worth_starting(&self, worker: usize, now: Duration) -> bool {
        let is_core = |worker, state| !self.pace.is_module(worker) && state != State::Left;
        !self.pace.is_module(worker)
            || self.find(is_core).is_none()
            || self.pace.is_worth_opening(worker, self.backlog.waiting(), now)
    }

    fn call(&mut self, worker: usize, now: Duration) {
        let (call, state) = match self.workers[worker] {
            State::Unstarted if self.pace.is_module(worker) => {
                (Call::Start(worker), State::Opening)
            }
            State::Unstarted => (Call::Start(worker), State::Called),
            _ => (Call::Wake(worker), State::Called),
        };
        self.workers[worker] = state;
        self.note(worker, &Event::Called, now);
        self.calls.push(call);
    }
}

#[cfg(test)]
mod tests;
