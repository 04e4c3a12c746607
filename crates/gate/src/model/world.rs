//! The memory and clock that modelled processes see, and the record of what they did.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use corosensei::Yielder;

use crate::identity::{Fate, Identity};
use crate::layout::{Layout, Tagged, header};
use crate::memory::Memory;
use crate::patience::Patience;
use crate::table::Table;

pub(super) struct World {
    pub(super) layout: Layout,
    pub(super) words: RefCell<Vec<u64>>,
    pub(super) now: Cell<u64>,
    pub(super) processes: Vec<Process>,
    /// True if processes may crash or stop in this scenario.
    pub(super) accidents: bool,
    pub(super) crashes: Cell<usize>,
    pub(super) stops: Cell<usize>,
    pub(super) early: Cell<usize>,
    /// True if the run is over and the processes only run to their end: the gate is retired, and
    /// they do not pause.
    pub(super) abandoned: Cell<bool>,
    /// The processes that have arrived and were not admitted, in order.
    pub(super) line: RefCell<VecDeque<usize>>,
    /// The recall of the last process: if the scenario has one, if it has happened, and the place
    /// that the process registered.
    pub(super) recalls: bool,
    pub(super) called: Cell<bool>,
    pub(super) waits_at: Cell<Option<u64>>,
}

/// A process as the world sees it.
#[derive(Default)]
pub(super) struct Process {
    /// A digest of all words that it has read.
    pub(super) history: Cell<u64>,
    pub(super) sleeps: Cell<Option<Sleep>>,
    pub(super) dead: Cell<bool>,
    pub(super) stopped: Cell<bool>,
    pub(super) was_stopped: Cell<bool>,
    pub(super) done: Cell<bool>,
    pub(super) inside: Cell<bool>,
    /// The bell and the lap of the place that it took last.
    pub(super) place: Cell<Option<(usize, u16)>>,
    /// Number of rounds that it has begun there, up to two.
    pub(super) round: Cell<usize>,
    pub(super) admitted: Cell<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Sleep {
    pub(super) at: usize,
    pub(super) until: u64,
}

/// A digest with one more word in it (the finaliser of Vigna's SplitMix64).
pub(super) fn mix(digest: u64, word: u64) -> u64 {
    let mixed = (digest ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

pub(super) fn identity(number: usize) -> Identity {
    Identity::new(number as u32 + 1, 7)
}

/// The world as one process sees it.
pub(super) struct View<'a> {
    pub(super) world: &'a World,
    pub(super) yielder: &'a Yielder<(), ()>,
    pub(super) number: usize,
}

impl View<'_> {
    /// Lets other processes run before the next access.
    pub(super) fn pause(&self) {
        self.learn(u64::MAX);
        if !self.world.abandoned.get() {
            self.yielder.suspend(());
        }
    }

    /// Adds a value that was read to the history.
    pub(super) fn learn(&self, what: impl Into<u64>) {
        let history = &self.world.processes[self.number].history;
        history.set(mix(history.get(), what.into()));
    }

    /// A process that reads its bell starts a round of [`Table::enter`]: its state is then its
    /// position, whether this is its first round, and the bell.
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

    /// Records the order of arrival, and checks that an admitted process was first.
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

impl View<'_> {
    /// Recalls the last process, in the steps of [`Recall::call`](crate::Recall::call).
    pub(super) fn call(&self, table: &Table<View<'_>>) {
        self.pause();
        self.world.called.set(true);
        self.pause();
        if let Some(position) = self.world.waits_at.get() {
            table.ring(0, position);
        }
    }
}

/// The patience of a process: it waits without limit, not at all, or until a recall.
pub(super) struct Visit<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) patient: bool,
}

impl Patience for Visit<'_> {
    fn stays(&mut self, _: usize, position: u64) -> Option<Duration> {
        let View { world, number, .. } = *self.view;
        if world.recalls && number + 1 == world.processes.len() {
            self.view.pause();
            world.waits_at.set(Some(position));
            self.view.pause();
            self.view.learn(world.called.get());
            self.patient &= !world.called.get();
        }
        self.patient.then_some(Duration::MAX)
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
