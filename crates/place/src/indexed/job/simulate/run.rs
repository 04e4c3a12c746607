//! The run of the workers, event by event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::shards::Share;
use super::attempt::{Attempt, Effort, Found, after, at_start, before, listing, slices};
use super::ends::{finish, plan};
use super::outcome::{Outcome, Run};
use super::scenario::Scenario;
use super::store::{Gate, Store, refused};
use super::work::Work;
use crate::Control;

/// Simulates a job from its plan to its end. `None` if it was stopped.
///
/// The same scenario has the same outcome.
pub fn simulate(work: &Work, scenario: &Scenario, control: &Control) -> Option<Outcome> {
    if control.is_stopped() {
        return None;
    }
    let run = Fleet::new(work, scenario).run(control)?;
    Some(Outcome::of(work, scenario, plan(work, scenario), run, finish(work, scenario)))
}

/// All workers.
struct Fleet<'a> {
    work: &'a Work,
    scenario: &'a Scenario,
    workers: Vec<Worker>,
    shards: Vec<State>,
    store: Store,
    receipts: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// Orders events of one time.
    events_so_far: u64,
    random: fastrand::Rng,
    run: Run,
}

/// The state of a shard.
#[derive(Clone, Copy, Default)]
struct State {
    attempts: u32,
    /// The slices that some attempt has done: all that come before this one.
    done: u64,
    has_receipt: bool,
}

struct Worker {
    share: Share,
    attempt: Option<Attempt>,
    step: Step,
    /// How many times slower than others it is.
    slowness: f64,
    /// When it is killed next, in seconds.
    killed_at: f64,
}

/// The step that a worker has ended when its event comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It was started.
    Off,
    /// It has read the job.
    Ready,
    /// It has listed the receipts, because it has no more shards of its own.
    Listed,
    Before,
    Slice(Found),
    After,
    Killed,
}

impl<'a> Fleet<'a> {
    fn new(work: &'a Work, scenario: &'a Scenario) -> Fleet<'a> {
        let (number, shards) = (scenario.workers.max(1), work.shards());
        let mut random = fastrand::Rng::with_seed(scenario.seed);
        let slow = (number as f64 * scenario.failures.stragglers.clamp(0.0, 1.0)).round() as usize;
        let mut slowness = vec![1.0; number as usize];
        slowness.iter_mut().take(slow).for_each(|it| *it = scenario.failures.slowness.max(1.0));
        random.shuffle(&mut slowness);
        let workers = (0..number).zip(slowness).map(|(worker, slowness)| {
            let killed_at = lifetime(&mut random, scenario);
            let share = Share::new(worker, number, shards);
            Worker { share, attempt: None, step: Step::Off, slowness, killed_at }
        });
        Fleet {
            work,
            scenario,
            workers: workers.collect(),
            shards: vec![State::default(); work.shards.len()],
            store: Store::new(scenario.limits),
            receipts: 0,
            events: BinaryHeap::new(),
            events_so_far: 0,
            random,
            run: Run::default(),
        }
    }

    fn run(mut self, control: &Control) -> Option<Run> {
        (0..self.workers.len()).for_each(|worker| self.schedule(worker, 0.0));
        while let Some(Reverse((time, _, worker))) = self.events.pop() {
            if self.receipts == self.work.shards() {
                break;
            }
            if self.events_so_far.is_multiple_of(LOOKS_EACH) && control.is_stopped() {
                return None;
            }
            self.advance(worker, time as f64 / 1e9);
        }
        Some(self.run)
    }

    fn schedule(&mut self, worker: usize, at: f64) {
        self.events_so_far += 1;
        self.events.push(Reverse(((at * 1e9) as u64, self.events_so_far, worker)));
    }

    /// Ends a worker's step, and begins its next one.
    fn advance(&mut self, number: usize, now: f64) {
        let step = self.workers[number].step;
        match step {
            Step::Off | Step::Killed => {
                let effort = at_start(self.work.shards(), self.scenario);
                self.begin(number, now, Step::Ready, &effort);
            }
            Step::Ready => self.look_for_one(number, now),
            Step::Listed => self.take(number, now),
            Step::Before => self.go_on(number, now),
            Step::Slice(there) => {
                self.end_slice(number, there);
                self.go_on(number, now);
            }
            Step::After => self.end_attempt(number, now),
        }
    }

    /// Takes one of a worker's own shards, or lists the receipts.
    fn look_for_one(&mut self, number: usize, now: f64) {
        match self.workers[number].share.has_own() {
            true => self.take(number, now),
            false => {
                let effort = listing(self.receipts, self.scenario);
                self.begin(number, now, Step::Listed, &effort);
            }
        }
    }

    /// Takes a shard that has no receipt. A worker that finds none has ended.
    fn take(&mut self, number: usize, now: f64) {
        let (worker, shards) = (&mut self.workers[number], &mut self.shards);
        let has_receipt =
            |shard: u64| shards.get(shard as usize).is_none_or(|state| state.has_receipt);
        let Some(shard) = worker.share.next(has_receipt).map(|shard| shard as usize) else {
            return;
        };
        let looks = shards[shard].attempts > 0;
        shards[shard].attempts += 1;
        worker.attempt = Some(Attempt { shard, begun: now, next: 0, looks });
        self.run.attempts += 1;
        let effort = before(&self.work.shards[shard], self.scenario);
        self.begin(number, now, Step::Before, &effort);
    }

    /// Begins the next slice of an attempt, or its end.
    fn go_on(&mut self, number: usize, now: f64) {
        let Some(attempt) = self.workers[number].attempt else { return };
        let (shard, state) = (&self.work.shards[attempt.shard], self.shards[attempt.shard]);
        if state.has_receipt {
            self.run.overtaken += 1;
            self.run.ended(now - attempt.begun);
            self.workers[number].attempt = None;
            return self.look_for_one(number, now);
        }
        if attempt.next == slices(shard) {
            let effort = after(shard, self.scenario);
            return self.begin(number, now, Step::After, &effort);
        }
        let there = if attempt.next < state.done { Found::Files } else { Found::Nothing };
        let effort = attempt.slice(shard, there, self.scenario);
        self.begin(number, now, Step::Slice(there), &effort);
    }

    fn end_slice(&mut self, number: usize, there: Found) {
        let Some(attempt) = &mut self.workers[number].attempt else { return };
        let state = &mut self.shards[attempt.shard];
        let shard = &self.work.shards[attempt.shard];
        let objects = super::requests::slice(shard.objects, attempt.next, slices(shard));
        // Another attempt was faster, perhaps while this one was at it.
        let is_late = attempt.next < state.done;
        match there {
            Found::Files if attempt.looks => self.run.already += objects,
            _ if is_late => self.run.duplicates += objects,
            _ => {}
        }
        attempt.next += 1;
        state.done = state.done.max(attempt.next);
    }

    /// Writes a receipt, unless there is one.
    fn end_attempt(&mut self, number: usize, now: f64) {
        let Some(attempt) = self.workers[number].attempt.take() else { return };
        self.run.ended(now - attempt.begun);
        let state = &mut self.shards[attempt.shard];
        if std::mem::replace(&mut state.has_receipt, true) {
            self.run.overtaken += 1;
        } else {
            self.receipts += 1;
            self.run.seconds = now;
        }
        self.look_for_one(number, now);
    }

    /// Begins a step, and counts it. A worker that is killed meanwhile begins again later.
    fn begin(&mut self, number: usize, now: f64, step: Step, effort: &Effort) {
        let worker = &mut self.workers[number];
        let alone = effort.times.longest() * worker.slowness;
        let mut until = now + alone;
        let mut gate = None;
        let refusals = match worker.attempt {
            Some(attempt) if matches!(step, Step::Slice(_)) => {
                let place = self.work.shards[attempt.shard].place;
                let (reads, writes) = (effort.requests.reads(), effort.requests.writes());
                let (served, limit) = self.store.serve(now, place, reads, writes);
                if served > until {
                    gate = Some(limit);
                    let share = alone / (served - now);
                    until = served;
                    let requests = if limit == Gate::Reads { reads } else { writes };
                    refused(requests, effort.lanes, share)
                } else {
                    0
                }
            }
            _ => 0,
        };
        self.run.count(effort, gate, until - now, refusals);
        worker.step = step;
        if worker.killed_at <= until {
            let killed = worker.killed_at.max(now);
            self.run.kills += 1;
            worker.attempt = None;
            worker.step = Step::Killed;
            let shards = self.work.shards();
            worker.share = Share::new(number as u64, self.scenario.workers.max(1), shards);
            until = killed + self.scenario.failures.restart;
            worker.killed_at = until + lifetime(&mut self.random, self.scenario);
        }
        self.schedule(number, until);
    }
}

/// The time until a worker is killed, in seconds: exponentially distributed.
fn lifetime(random: &mut fastrand::Rng, scenario: &Scenario) -> f64 {
    let each_second = scenario.failures.kills.max(0.0) / 3600.0;
    // From above 0 to 1, of which there is a logarithm.
    let drawn = -(1.0 - random.f64()).ln();
    if each_second > 0.0 { drawn / each_second } else { f64::INFINITY }
}

/// The events after which a stop is noticed.
const LOOKS_EACH: u64 = 1 << 16;
