//! The gate's algorithm: how processes queue, are admitted, and pass permits on.
//!
//! A queue is a ring of places and a set of permits, each of them one shared word.
//!
//! - **Arriving** is one compare-and-exchange that writes the process into the place at the
//!   tail. The order of these exchanges is the order of arrival.
//! - The **head** is the first place that is not past. Only the process at the head may take a
//!   permit, and it stays at the head until its place is past: no process can overtake it. It
//!   writes its identity into a free permit with a compare-and-exchange, *then* leaves its place,
//!   and then wakes the next process if there is a permit for it too.
//! - **Releasing** empties the permit's word and rings the bell of the head: one wake.
//!
//! Each word is consistent by itself: a permit belongs to the process whose identity is in it, and
//! so does a place. No step depends on a second one, so there is no lock, and a process that dies
//! or stops between two steps leaves nothing half done. It leaves only its identity, and any
//! process that finds it dead may clear the word ([`watch`](crate::watch)). The head and tail
//! counters are hints that lag behind the places; any process may advance them.
//!
//! No wake-up is lost: a waiter reads its bell, then looks for a free permit, then sleeps unless
//! the bell has changed. A releaser first frees the permit, then finds the head, then rings its
//! bell. So either the waiter sees the free permit, or its bell rings before it sleeps. When the
//! head changes in between, the process that left it looks for free permits after leaving. The
//! interleavings are checked exhaustively in [`model`](crate::model).

use crate::identity::{Fate, Identity};
use crate::layout::{Layout, Record, Tagged, header};
use crate::memory::Memory;
use crate::patience::Patience;

/// A gate's shared words under its algorithm.
#[derive(Debug)]
pub(crate) struct Table<M> {
    pub(crate) memory: M,
    pub(crate) layout: Layout,
}

/// A thread of a process at the gate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    pub(crate) who: Identity,
    pub(crate) thread: u32,
}

/// A permit that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) queue: usize,
    pub(crate) permit: usize,
    /// The value of the permit's word while it is held.
    pub(crate) word: Tagged,
    /// The place from which it was admitted: its number in the order of arrival.
    pub(crate) position: u64,
}

/// A place's bell, as a waiter has read it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bell {
    pub(crate) queue: usize,
    pub(crate) position: u64,
    pub(crate) seen: u64,
}

/// The reason why a thread was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Every place is taken.
    Full,
    /// The thread would have to wait, and its patience is over.
    Busy,
    /// The gate was reset; there is a new one.
    Retired,
    /// The words are damaged.
    Damaged,
}

impl<M: Memory> Table<M> {
    /// Queues and returns with a permit; returns [`Refusal::Busy`] when its patience is over.
    pub(crate) fn enter(
        &self,
        queue: usize,
        me: Visitor,
        patience: &mut dyn Patience,
    ) -> Result<Hold, Refusal> {
        let mut position = self.arrive(queue, me)?;
        let mut dozes = 0;
        loop {
            let seen = self.memory.load(self.layout.bell(queue, position));
            if self.memory.load(header::RETIRED) != 0 {
                self.leave(queue, position, me.who)?;
                return Err(Refusal::Retired);
            }
            match self.attempt(queue, position, me)? {
                Attempt::Admitted(hold) => {
                    if dozes > 0 {
                        self.stand_down(queue, position);
                    }
                    let left = self.leave(queue, position, me.who);
                    return left.map(|()| hold).inspect_err(|_| _ = self.release(hold));
                }
                Attempt::Skipped => {
                    self.stand_down(queue, position);
                    position = self.arrive(queue, me)?;
                    dozes = 0;
                }
                Attempt::Wait => match patience.stays(queue, position) {
                    Some(limit) => {
                        let bell = Bell { queue, position, seen };
                        self.doze(bell, me.who, limit, dozes == 0)?;
                        dozes += 1;
                    }
                    None => {
                        if dozes > 0 {
                            self.stand_down(queue, position);
                        }
                        self.leave(queue, position, me.who)?;
                        return Err(Refusal::Busy);
                    }
                },
            }
        }
    }

    /// Releases a permit and wakes the head; returns whether it was still held.
    pub(crate) fn release(&self, hold: Hold) -> bool {
        let word = self.layout.permit(hold.queue, hold.permit);
        let free = Tagged::new(None, hold.word.tag());
        let held = self.memory.exchange(word, hold.word.0, free.0);
        if held {
            // A damaged queue is reported to the next process that enters.
            let _ = self.prompt(hold.queue);
        }
        held
    }

    /// Returns whether the permit is still held: no lease or reset has released it.
    pub(crate) fn is_held(&self, hold: Hold) -> bool {
        self.memory.load(self.layout.permit(hold.queue, hold.permit)) == hold.word.0
            && self.memory.load(header::RETIRED) == 0
    }

    /// Takes the place at the tail.
    fn arrive(&self, queue: usize, me: Visitor) -> Result<u64, Refusal> {
        let mut looked = false;
        for _ in 0..self.layout.places * PATIENCE {
            let position = self.memory.load(self.layout.tail(queue));
            match self.standing(queue, position) {
                Standing::Vacant => {
                    let lap = self.layout.lap(position);
                    let place = self.layout.place(queue, position);
                    let (vacant, mine) = (Tagged::new(None, lap), Tagged::new(Some(me.who), lap));
                    if self.memory.exchange(place, vacant.0, mine.0) {
                        self.record(self.layout.place_record(queue, position), me);
                        self.memory.exchange(
                            self.layout.tail(queue),
                            position,
                            position.wrapping_add(1),
                        );
                        return Ok(position);
                    }
                }
                Standing::Waiting(_) | Standing::Past => {
                    self.memory.exchange(
                        self.layout.tail(queue),
                        position,
                        position.wrapping_add(1),
                    );
                }
                // The waiter of the previous lap is still here, or it has died here.
                Standing::Ahead if !looked => {
                    self.look(me.who)?;
                    looked = true;
                }
                Standing::Ahead => return Err(Refusal::Full),
            }
        }
        Err(Refusal::Damaged)
    }

    /// Takes a permit if this place is at the head and a permit is free.
    fn attempt(&self, queue: usize, position: u64, me: Visitor) -> Result<Attempt, Refusal> {
        let head = self.advance(queue)?;
        if self.standing(queue, position) != Standing::Waiting(me.who) {
            return Ok(Attempt::Skipped);
        }
        if head != position {
            return Ok(Attempt::Wait);
        }
        for permit in 0..self.layout.permits {
            let at = self.layout.permit(queue, permit);
            let free = Tagged(self.memory.load(at));
            let word = Tagged::new(Some(me.who), free.tag().wrapping_add(1));
            if free.who().is_none() && self.memory.exchange(at, free.0, word.0) {
                self.record(self.layout.permit_record(queue, permit), me);
                return Ok(Attempt::Admitted(Hold { queue, permit, word, position }));
            }
        }
        Ok(Attempt::Wait)
    }

    /// Leaves a place, and wakes the next process if there is a permit for it.
    fn leave(&self, queue: usize, position: u64, who: Identity) -> Result<(), Refusal> {
        self.clear_place(queue, position, who);
        self.advance(queue)?;
        self.prompt(queue)
    }

    /// Makes a place past, if `who` still waits there.
    pub(crate) fn clear_place(&self, queue: usize, position: u64, who: Identity) {
        let lap = self.layout.lap(position);
        let (waiting, past) = (Tagged::new(Some(who), lap), Tagged::new(None, lap.wrapping_add(1)));
        self.memory.exchange(self.layout.place(queue, position), waiting.0, past.0);
    }

    /// Moves the head over places that are past, and returns it.
    pub(crate) fn advance(&self, queue: usize) -> Result<u64, Refusal> {
        let counter = self.layout.head(queue);
        for _ in 0..self.layout.places * PATIENCE {
            let head = self.memory.load(counter);
            match self.standing(queue, head) {
                Standing::Vacant | Standing::Waiting(_) => return Ok(head),
                Standing::Past => self.memory.exchange(counter, head, head.wrapping_add(1)),
                Standing::Ahead => return Err(Refusal::Damaged),
            };
        }
        Err(Refusal::Damaged)
    }

    /// Wakes the process at the head if there is a permit for it.
    pub(crate) fn prompt(&self, queue: usize) -> Result<(), Refusal> {
        while self.is_any_free(queue) {
            let head = self.advance(queue)?;
            let who = match self.standing(queue, head) {
                Standing::Waiting(who) => who,
                Standing::Past => continue,
                Standing::Vacant | Standing::Ahead => return Ok(()),
            };
            // If no process sleeps there, the waiter is about to see the bell, or it is dead.
            if self.ring(queue, head) || self.memory.fate(who) != Fate::Dead {
                return Ok(());
            }
            self.clear_place(queue, head, who);
        }
        Ok(())
    }

    /// Number of waiters before a position.
    pub(crate) fn count_ahead(&self, queue: usize, position: u64) -> usize {
        let head = self.memory.load(self.layout.head(queue));
        let ahead = position.wrapping_sub(head).min(self.layout.places as u64);
        (1..=ahead)
            .map(|places| self.standing(queue, position.wrapping_sub(places)))
            .filter(|standing| matches!(standing, Standing::Waiting(_)))
            .count()
    }

    /// Rings a place's bell; returns whether that woke a process.
    pub(crate) fn ring(&self, queue: usize, position: u64) -> bool {
        let bell = self.layout.bell(queue, position);
        self.memory.increment(bell);
        self.memory.wake(bell)
    }

    /// The state of a position.
    pub(crate) fn standing(&self, queue: usize, position: u64) -> Standing {
        let word = Tagged(self.memory.load(self.layout.place(queue, position)));
        let laps = word.tag().wrapping_sub(self.layout.lap(position)).cast_signed();
        match (laps, word.who()) {
            (0, Some(who)) => Standing::Waiting(who),
            (0, None) => Standing::Vacant,
            (1.., _) => Standing::Past,
            (..=-1, _) => Standing::Ahead,
        }
    }

    /// Closes the gate for good; the waiters continue at the new one.
    pub(crate) fn retire(&self) {
        self.memory.store(header::RETIRED, 1);
        for queue in 0..self.layout.queues {
            for place in 0..self.layout.places as u64 {
                self.ring(queue, place);
            }
        }
    }

    fn is_any_free(&self, queue: usize) -> bool {
        (0..self.layout.permits).any(|permit| {
            Tagged(self.memory.load(self.layout.permit(queue, permit))).who().is_none()
        })
    }

    fn record(&self, record: Record, me: Visitor) {
        self.memory.note(record.since(), self.memory.now());
        self.memory.note(record.thread(), u64::from(me.thread));
        self.memory.note(record.stopped(), 0);
    }
}

/// The state of a position of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No process has come yet.
    Vacant,
    /// This process waits here, or is about to leave.
    Waiting(Identity),
    /// The process that waited here has left.
    Past,
    /// The place is still used by the previous lap.
    Ahead,
}

enum Attempt {
    Admitted(Hold),
    Wait,
    /// Another process released the place, because this one was stopped for too long.
    Skipped,
}

/// The number of laps that the search for head or tail may take before the words count as damaged;
/// other processes may advance head and tail meanwhile.
const PATIENCE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Mapping;
    use std::os::fd::AsFd;

    /// Whatever other processes write into the shared words, no call panics or runs for ever.
    #[test]
    fn garbage_is_survived() {
        let layout = Layout { queues: 2, permits: 3, places: 4, lease: None };
        let file = rustix::fs::memfd_create("gate", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, (layout.words() * 8) as u64).unwrap();
        let memory = Mapping::new(file.as_fd(), layout.words()).unwrap();
        let table = Table { memory, layout };
        let me = Visitor { who: Identity::of_this_process().unwrap(), thread: 1 };
        let mut random = 7_u64;
        for round in 0..2000 {
            for at in header::LOOKED..layout.words() {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let word = match random >> 61 {
                    0 => random,
                    1 => u64::MAX,
                    2 => Tagged::new(Some(me.who), (random >> 32) as u16 & 3).0,
                    _ => random >> 60,
                };
                if round % 4 == 0 || random & 0xF00 == 0 {
                    table.memory.store(at, word);
                }
            }
            for queue in 0..layout.queues {
                if let Ok(hold) = table.enter(queue, me, &mut false) {
                    assert!(table.is_held(hold));
                    table.release(hold);
                }
                let _ = table.prompt(queue);
                table.stand_down(queue, round);
            }
            let _ = table.look(Identity::new(1, 1));
        }
        table.retire();
    }
}
