//! An exhaustive check of the algorithm's interleavings: the very code of
//! [`table`](crate::table) and [`watch`](crate::watch), with the model as its world.
//!
//! Each process is a coroutine that pauses before every shared access. The checker goes
//! depth-first through every order in which the processes' accesses can interleave, with a
//! crash, a stop or an early return from sleep put in at every point where the scenario allows
//! one. A state is the words, and for each process all that it has read so far; a state that
//! was seen before is not gone into again, which makes the search finite and complete. With
//! three processes the number of preemptions is bounded (Musuvathi and Qadeer, "Iterative
//! context bounding for systematic testing of multithreaded programs", PLDI 2007).
//! Time stands still while any process can run, so a sleeper's time is up only when all
//! sleep: in a scenario without accidents that is a lost wake-up.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::identity::{Fate, Identity};
use crate::layout::{Layout, Tagged, header};
use crate::memory::Memory;
use crate::table::{Refusal, Table, Visitor};

/// Two processes in every possible interleaving. Twice each, so that the ring of two places
/// goes round.
#[test]
fn two_take_turns() {
    Scenario { visits: 2, ..Scenario::TWO }.check();
    Scenario { visits: 2, permits: 2, preemptions: Some(3), ..Scenario::TWO }.check();
    Scenario { looks_at_once: true, ..Scenario::TWO }.check();
}

#[test]
fn three_take_turns() {
    Scenario::THREE.check();
    Scenario { permits: 2, ..Scenario::THREE }.check();
    Scenario { looks_at_once: true, ..Scenario::THREE }.check();
}

/// The last process does not want to wait.
#[test]
fn an_impatient_process_is_in_nobodys_way() {
    Scenario { impatient: 1, ..Scenario::TWO }.check();
    Scenario { impatient: 1, ..Scenario::THREE }.check();
    Scenario { impatient: 1, permits: 2, ..Scenario::THREE }.check();
}

#[test]
fn a_crash_at_any_step_blocks_nobody() {
    Scenario { crashes: 1, ..Scenario::TWO }.check();
    Scenario { crashes: 1, permits: 2, ..Scenario::TWO }.check();
    Scenario { crashes: 1, preemptions: Some(2), ..Scenario::THREE }.check();
    Scenario { crashes: 2, preemptions: Some(1), ..Scenario::THREE }.check();
}

#[test]
fn a_process_stopped_at_any_step_past_its_lease_blocks_nobody() {
    Scenario { stops: 1, preemptions: Some(3), ..Scenario::TWO }.check();
    Scenario { stops: 1, preemptions: Some(1), ..Scenario::THREE }.check();
}

#[test]
fn a_sleeper_may_wake_at_any_moment() {
    Scenario { early: 1, ..Scenario::TWO }.check();
    Scenario { early: 1, preemptions: Some(2), ..Scenario::THREE }.check();
}

/// What is explored.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    processes: usize,
    /// How often each process enters and leaves.
    visits: usize,
    permits: usize,
    places: usize,
    /// How many processes, the last ones, don't wait.
    impatient: usize,
    /// How many crashes there may be, at any step of any process.
    crashes: usize,
    /// How many stops there may be, each for longer than the lease and then resumed.
    stops: usize,
    /// How many sleeps may end for no reason.
    early: usize,
    /// Whether the first to wait looks after the gate at once.
    looks_at_once: bool,
    /// How often at most a process that could run on has to give way; `None` for any number.
    preemptions: Option<usize>,
}

impl Scenario {
    /// Two processes and one permit, in every interleaving.
    const TWO: Scenario = Scenario {
        processes: 2,
        visits: 1,
        permits: 1,
        places: 2,
        impatient: 0,
        crashes: 0,
        stops: 0,
        early: 0,
        looks_at_once: false,
        preemptions: None,
    };

    /// Three processes and one permit.
    const THREE: Scenario =
        Scenario { processes: 3, places: 4, preemptions: Some(3), ..Scenario::TWO };

    /// Goes through every interleaving.
    fn check(self) {
        let mut seen = HashSet::new();
        // The choices still to be tried after each step of the present run.
        let mut path: Vec<Vec<Choice>> = Vec::new();
        let mut runs = 0_u64;
        let mut stacks = Vec::new();
        loop {
            runs += 1;
            let mut run = Run::new(self, &mut stacks);
            for choices in &path {
                run.step(*choices.last().expect("only steps with a choice are kept"));
            }
            while seen.insert(run.state()) {
                let choices = run.choices();
                let Some(&choice) = choices.last() else {
                    run.check_end();
                    break;
                };
                path.push(choices);
                run.step(choice);
            }
            run.abandon(&mut stacks);
            while let Some(choices) = path.last_mut() {
                choices.pop();
                if !choices.is_empty() {
                    break;
                }
                path.pop();
            }
            if path.is_empty() {
                println!("{self:?}: {} states, {runs} runs", seen.len());
                return;
            }
        }
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Run(usize),
    Crash(usize),
    Stop(usize),
    Resume(usize),
    /// A sleep ends for no reason.
    Early(usize),
    /// All sleep, and time passes until the first sleeper's time is up.
    TimeUp(usize),
}

/// One interleaving, as far as it has come.
struct Run {
    scenario: Scenario,
    world: Rc<World>,
    processes: Vec<Coroutine<(), (), ()>>,
    /// Who ran last, if that matters.
    last: Option<usize>,
    preemptions: usize,
}

struct World {
    layout: Layout,
    words: RefCell<Vec<u64>>,
    now: Cell<u64>,
    processes: Vec<Process>,
    /// Whether anything may happen to a process.
    accidents: bool,
    crashes: Cell<usize>,
    stops: Cell<usize>,
    early: Cell<usize>,
    /// Whether this run is over and the processes only come to their end: the gate is retired
    /// for them, and nothing makes them pause.
    abandoned: Cell<bool>,
    /// Who has arrived and not been admitted, in order.
    line: RefCell<VecDeque<usize>>,
}

/// A process as the world sees it.
#[derive(Default)]
struct Process {
    /// A digest of all that it has read.
    history: Cell<u64>,
    sleeps: Cell<Option<Sleep>>,
    dead: Cell<bool>,
    stopped: Cell<bool>,
    was_stopped: Cell<bool>,
    done: Cell<bool>,
    inside: Cell<bool>,
    /// The bell and the lap of the place that it took last.
    place: Cell<Option<(usize, u16)>>,
    /// How many rounds it has begun there, up to two.
    round: Cell<usize>,
    admitted: Cell<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Sleep {
    at: usize,
    until: u64,
}

impl Run {
    fn new(scenario: Scenario, stacks: &mut Vec<DefaultStack>) -> Run {
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

    /// Lets all processes come to their end, out of the search, to use their stacks again.
    fn abandon(self, stacks: &mut Vec<DefaultStack>) {
        self.world.abandoned.set(true);
        for mut process in self.processes {
            if !process.done() {
                process.resume(());
            }
            stacks.push(process.into_stack());
        }
    }

    fn choices(&self) -> Vec<Choice> {
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

    /// The process that could run on but gives way if `number` runs next.
    fn gives_way(&self, number: usize) -> Option<usize> {
        self.last.filter(|&last| {
            let process = &self.world.processes[last];
            let stays = process.dead.get() || process.done.get() || process.stopped.get();
            last != number && !stays && process.sleeps.get().is_none()
        })
    }

    fn step(&mut self, choice: Choice) {
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
                // What a stopped holder holds may be given on, so it no longer counts.
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

    /// After the last step, all are through.
    fn check_end(&self) {
        let world = &self.world;
        for (number, process) in world.processes.iter().enumerate() {
            let patient = number < self.scenario.processes - self.scenario.impatient;
            let through = process.admitted.get() == self.scenario.visits || !patient;
            assert!(process.dead.get() || process.done.get() && through);
        }
    }

    /// A digest of everything that the future depends on.
    fn state(&self) -> u64 {
        let world = &self.world;
        let left = [&world.crashes, &world.stops, &world.early].map(|left| left.get() as u64);
        let last = self.last.map_or(u64::MAX, |last| last as u64);
        let mut digest = [left[0], left[1], left[2], world.now.get(), last]
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

/// A digest with one more word in it (the finaliser of Vigna's SplitMix64).
fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// The life of one process.
fn live(table: &Table<View<'_>>, number: usize, scenario: Scenario) {
    let me = Visitor { who: identity(number), thread: number as u32 };
    let process = &table.memory.world.processes[number];
    let patient = number < scenario.processes - scenario.impatient;
    for visit in 0..scenario.visits {
        // All that a process knows between two visits is how many it has made.
        process.history.set(visit as u64);
        process.place.set(None);
        match table.enter(0, me, patient) {
            Ok(hold) => {
                process.admitted.set(process.admitted.get() + 1);
                // And now, which permit it holds.
                process.history.set(visit as u64);
                table.memory.learn(hold.permit as u64);
                table.memory.learn(hold.word.0);
                process.inside.set(!process.was_stopped.get());
                table.memory.pause();
                process.inside.set(false);
                table.release(hold);
            }
            Err(_) if table.memory.world.abandoned.get() => return,
            Err(refusal) => assert!(refusal == Refusal::Busy && !patient, "{refusal:?}"),
        }
    }
}

fn identity(number: usize) -> Identity {
    Identity::new(number as u32 + 1, 7)
}

/// The world as one process sees it.
struct View<'a> {
    world: &'a World,
    yielder: &'a Yielder<(), ()>,
    number: usize,
}

impl View<'_> {
    /// Lets others run before the next access.
    fn pause(&self) {
        self.learn(u64::MAX);
        if !self.world.abandoned.get() {
            self.yielder.suspend(());
        }
    }

    /// Adds what was read to the history.
    fn learn(&self, what: impl Into<u64>) {
        let history = &self.world.processes[self.number].history;
        history.set(mix(history.get(), what.into()));
    }

    /// A process that reads its bell starts a round of [`Table::enter`]: all that it knows
    /// then is where it stands, whether this is its first round, and the bell.
    fn start_round(&self, at: usize) {
        let Process { place, round, history, .. } = &self.world.processes[self.number];
        if place.get().is_some_and(|(bell, _)| bell == at) {
            round.set((round.get() + 1).min(2));
            history.set(0);
            self.learn(place.get().map_or(0, |(bell, lap)| (bell as u64) << 16 | u64::from(lap)));
            self.learn(round.get() as u64);
            self.learn(self.world.words.borrow()[at]);
        }
    }

    /// Keeps the line, and checks that who is admitted stood first in it.
    fn log(&self, at: usize, old: u64, new: u64) {
        let World { layout, processes, line, .. } = self.world;
        let mut line = line.borrow_mut();
        let came = Tagged(new).who().map(|who| who.process() as usize - 1);
        let went = Tagged(old).who().map(|who| who.process() as usize - 1);
        if (0..layout.permits).any(|permit| at == layout.permit(0, permit)) {
            if let Some(number) = came {
                line.retain(|&other| other == number || !processes[other].dead.get());
                let first = line.pop_front() == Some(number);
                let over = self.world.abandoned.get() || layout.lease.is_some();
                assert!(first || over, "admitted out of order");
            }
        } else if (0..layout.places as u64).any(|place| at == layout.place(0, place)) {
            line.extend(came);
            if came == Some(self.number) {
                processes[self.number].place.set(Some((at + 1, Tagged(new).tag())));
                processes[self.number].round.set(0);
            }
            line.retain(|&other| went != Some(other));
        }
    }
}

impl Memory for View<'_> {
    fn load(&self, at: usize) -> u64 {
        if at == header::RETIRED {
            return self.world.abandoned.get().into();
        }
        self.pause();
        let value = self.world.words.borrow()[at];
        self.learn(value);
        self.start_round(at);
        value
    }

    fn store(&self, at: usize, value: u64) {
        self.pause();
        self.world.words.borrow_mut()[at] = value;
    }

    fn note(&self, at: usize, value: u64) {
        self.world.words.borrow_mut()[at] = value;
    }

    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        self.pause();
        let held = self.world.words.borrow()[at] == old;
        self.learn(held);
        if held {
            self.world.words.borrow_mut()[at] = new;
            self.log(at, old, new);
        }
        held
    }

    fn increment(&self, at: usize) {
        self.pause();
        self.world.words.borrow_mut()[at] += 1;
    }

    fn sleep(&self, at: usize, seen: u64, limit: Duration) -> bool {
        self.pause();
        let rung = self.world.words.borrow()[at] != seen;
        self.learn(rung);
        if rung {
            return false;
        }
        let until = self.world.now.get() + limit.as_nanos() as u64;
        let sleeps = &self.world.processes[self.number].sleeps;
        sleeps.set(Some(Sleep { at, until }));
        while sleeps.get().is_some() && !self.world.abandoned.get() {
            self.pause();
        }
        let up = self.world.now.get() >= until;
        self.learn(up);
        up
    }

    fn wake(&self, at: usize) -> bool {
        self.pause();
        let sleeper = self
            .world
            .processes
            .iter()
            .find(|process| process.sleeps.get().is_some_and(|sleep| sleep.at == at));
        if let Some(process) = sleeper {
            process.sleeps.set(None);
        }
        self.learn(sleeper.is_some());
        sleeper.is_some()
    }

    fn fate(&self, who: Identity) -> Fate {
        if self.world.accidents {
            self.pause();
        }
        let process = &self.world.processes[who.process() as usize - 1];
        let fate = match (process.dead.get(), process.stopped.get()) {
            (true, _) => Fate::Dead,
            (false, true) => Fate::Stopped,
            (false, false) => Fate::Running,
        };
        self.learn(fate as u8);
        fate
    }

    fn now(&self) -> u64 {
        self.learn(self.world.now.get());
        self.world.now.get()
    }
}
