//! One interleaving.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::world::{Process, View, Visit, World, identity, mix};
use super::{Choice, Scenario};
use crate::layout::{Layout, header};
use crate::table::{Refusal, Table, Visitor};

/// One interleaving, up to the present step.
pub(super) struct Run {
    scenario: Scenario,
    world: Rc<World>,
    processes: Vec<Coroutine<(), (), ()>>,
    /// The process that ran last, if preemptions are limited.
    last: Option<usize>,
    preemptions: usize,
}

impl Run {
    pub(super) fn new(scenario: Scenario, stacks: &mut Vec<DefaultStack>) -> Run {
        let lease = (scenario.stops > 0).then_some(Duration::from_millis(50));
        let (permits, places) = (scenario.permits, scenario.places);
        let layout = Layout { queues: 1, permits, places, lease };
        let mut words = vec![0; layout.words()];
        let start = 1_000_000_000;
        if !scenario.looks_at_once {
            words[header::LOOKED] = start;
        }
        let world = Rc::new(World {
            layout,
            words: RefCell::new(words),
            now: Cell::new(start),
            processes: (0..scenario.processes).map(|_| Process::default()).collect(),
            accidents: scenario.crashes + scenario.stops > 0,
            crashes: Cell::new(scenario.crashes),
            stops: Cell::new(scenario.stops),
            early: Cell::new(scenario.early),
            abandoned: Cell::new(false),
            line: RefCell::default(),
            recalls: scenario.recalls,
            called: Cell::new(false),
            waits_at: Cell::new(None),
        });
        let processes = (0..scenario.processes)
            .map(|number| {
                let world = Rc::clone(&world);
                let stack = stacks.pop().unwrap_or_default();
                Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
                    let view = View { world: &world, yielder, number };
                    live(&Table { memory: view, layout: world.layout }, number, scenario);
                    world.processes[number].done.set(true);
                })
            })
            .collect();
        let preemptions = scenario.preemptions.unwrap_or(usize::MAX);
        Run { scenario, world, processes, last: None, preemptions }
    }

    /// Runs all processes to their end, outside the search, so that their stacks can be reused.
    pub(super) fn abandon(self, stacks: &mut Vec<DefaultStack>) {
        self.world.abandoned.set(true);
        for mut process in self.processes {
            if !process.done() {
                process.resume(());
            }
            stacks.push(process.into_stack());
        }
    }

    pub(super) fn choices(&self) -> Vec<Choice> {
        let world = &self.world;
        let mut choices = Vec::new();
        let mut can_run = false;
        for (number, process) in world.processes.iter().enumerate() {
            if process.dead.get() || process.done.get() {
                continue;
            }
            if process.stopped.get() {
                choices.push(Choice::Resume(number));
                continue;
            }
            if world.crashes.get() > 0 {
                choices.push(Choice::Crash(number));
            }
            if world.stops.get() > 0 {
                choices.push(Choice::Stop(number));
            }
            if process.sleeps.get().is_none() {
                can_run = true;
                if self.preemptions > 0 || self.gives_way(number).is_none() {
                    choices.push(Choice::Run(number));
                }
            } else if world.early.get() > 0 {
                choices.push(Choice::Early(number));
            }
        }
        if !can_run {
            let sleeper = |(number, process): (usize, &Process)| {
                let asleep = !process.dead.get() && !process.stopped.get();
                process.sleeps.get().filter(|_| asleep).map(|sleep| (sleep.until, number))
            };
            let first = world.processes.iter().enumerate().filter_map(sleeper).min();
            choices.extend(first.map(|(_, number)| Choice::TimeUp(number)));
        }
        choices
    }

    /// The process that is preempted if `number` runs next.
    fn gives_way(&self, number: usize) -> Option<usize> {
        self.last.filter(|&last| {
            let process = &self.world.processes[last];
            let stays = process.dead.get() || process.done.get() || process.stopped.get();
            last != number && !stays && process.sleeps.get().is_none()
        })
    }

    pub(super) fn step(&mut self, choice: Choice) {
        if let Choice::Run(number) = choice {
            if self.gives_way(number).is_some() && self.scenario.preemptions.is_some() {
                self.preemptions -= 1;
            }
            self.last = self.scenario.preemptions.map(|_| number);
        }
        let world = &self.world;
        match choice {
            Choice::Run(number) => {
                if let CoroutineResult::Return(()) = self.processes[number].resume(()) {
                    assert!(world.processes[number].done.get());
                }
            }
            Choice::Crash(number) => {
                world.crashes.set(world.crashes.get() - 1);
                world.processes[number].dead.set(true);
                world.processes[number].inside.set(false);
                world.processes[number].sleeps.set(None);
            }
            Choice::Stop(number) => {
                world.stops.set(world.stops.get() - 1);
                world.processes[number].stopped.set(true);
                // A stopped holder may lose its permit, so it no longer counts.
                world.processes[number].was_stopped.set(true);
                world.processes[number].inside.set(false);
            }
            Choice::Resume(number) => world.processes[number].stopped.set(false),
            Choice::Early(number) => {
                world.early.set(world.early.get() - 1);
                world.processes[number].sleeps.set(None);
            }
            Choice::TimeUp(number) => {
                let accidents = self.scenario.crashes + self.scenario.stops;
                assert!(accidents > 0, "lost wake-up: all sleep, and nothing has happened");
                if let Some(sleep) = world.processes[number].sleeps.take() {
                    world.now.set(sleep.until);
                }
                assert!(world.now.get() < 60_000_000_000, "nobody gets on for a minute");
            }
        }
        let inside = world.processes.iter().filter(|process| process.inside.get()).count();
        assert!(inside <= self.scenario.permits, "{inside} are inside");
    }

    /// Checks after the last step that all processes have finished.
    pub(super) fn check_end(&self) {
        let world = &self.world;
        for (number, process) in world.processes.iter().enumerate() {
            let owed = self.scenario.has_its_turns(number);
            let through = process.admitted.get() == self.scenario.visits || !owed;
            assert!(process.dead.get() || process.done.get() && through);
        }
    }

    /// A digest of the state, on which all further steps depend.
    pub(super) fn state(&self) -> u64 {
        let world = &self.world;
        let left = [&world.crashes, &world.stops, &world.early].map(|left| left.get() as u64);
        let last = self.last.map_or(u64::MAX, |last| last as u64);
        let call = world.waits_at.get().unwrap_or(u64::MAX) << 1 | u64::from(world.called.get());
        let mut digest = [left[0], left[1], left[2], world.now.get(), last, call]
            .into_iter()
            .fold(self.preemptions as u64, mix);
        digest = world.words.borrow().iter().copied().fold(digest, mix);
        for process in &world.processes {
            let sleep = process.sleeps.get().map_or((0, 0), |sleep| (sleep.at as u64, sleep.until));
            let flags = [&process.dead, &process.stopped, &process.was_stopped, &process.inside];
            let flags = flags.iter().fold(0, |flags, flag| flags << 1 | u64::from(flag.get()));
            digest = [process.history.get(), sleep.0, sleep.1, flags].into_iter().fold(digest, mix);
        }
        world.line.borrow().iter().map(|&number| number as u64).fold(digest, mix)
    }
}

/// The life of one process.
fn live(table: &Table<View<'_>>, number: usize, scenario: Scenario) {
    let me = Visitor { who: identity(number), thread: number as u32 };
    let process = &table.memory.world.processes[number];
    let patient = scenario.is_patient(number);
    for turn in 0..scenario.visits {
        // Between two rounds, a process' state is only their number.
        process.history.set(turn as u64);
        process.place.set(None);
        let mut visit = Visit { view: &table.memory, patient };
        match table.enter(0, me, &mut visit) {
            Ok(hold) => {
                process.admitted.set(process.admitted.get() + 1);
                // The state now includes the permit that the process holds.
                process.history.set(turn as u64);
                table.memory.learn(hold.permit as u64);
                table.memory.learn(hold.word.0);
                process.inside.set(!process.was_stopped.get());
                table.memory.pause();
                process.inside.set(scenario.recalls && number == 0);
                if process.inside.get() {
                    table.memory.call(table);
                    return;
                }
                table.release(hold);
            }
            Err(_) if table.memory.world.abandoned.get() => return,
            Err(refusal) => assert!(refusal == Refusal::Busy && !visit.patient, "{refusal:?}"),
        }
    }
}
