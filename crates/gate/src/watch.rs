//! Looking after the gate: what dead and stopped processes leave behind is given on.
//!
//! Nothing tells a process that another has died, so somebody must look, and sleepers are to
//! use no CPU. Therefore three waiters of the whole gate, on three *seats*, look after it for
//! all: they wake every [`PERIODS`] and look if nobody else has in the meantime. Three that came
//! late have the seats, because they will wait longest: who comes claims one, in a crowd one
//! in [`CLAIMS_APART`], and whoever leaves a seat wakes one of the last to take it. All others
//! sleep until they are rung for. Three seats and not one, because the one might die together
//! with a holder. Should all three die at once with it, the others notice when their own, much
//! longer, periods are up.
//!
//! Cost: however many wait, those on the seats wake at most 54 times a second in all, and 25 of
//! these read `/proc/PID/stat` of every holder and of the head (some 6 µs each). Each of the
//! others wakes when it has waited for a second, and then hardly ever (`long_period`). A gate
//! where nobody waits costs nothing: a dead holder is found by the first process that must wait.

use std::time::Duration;

use crate::identity::{Fate, Identity};
use crate::layout::{Record, Tagged, header};
use crate::memory::Memory;
use crate::table::{Bell, Refusal, Standing, Table};

impl<M: Memory> Table<M> {
    /// Sleeps until the bell rings or it is time to look after the gate, for `limit` at most.
    pub(crate) fn doze(
        &self,
        bell: Bell,
        me: Identity,
        limit: Duration,
        first: bool,
    ) -> Result<(), Refusal> {
        let Bell { queue, position, seen } = bell;
        let claims = first && self.is_claim_due(queue);
        let period = match self.take_seat(queue, position, claims) {
            Some(seat) => PERIODS[seat],
            None => self.long_period(queue, position),
        };
        let looked = self.memory.load(header::LOOKED);
        let idle = self.memory.now().saturating_sub(looked);
        let remaining = period.saturating_sub(Duration::from_nanos(idle));
        if !remaining.is_zero() {
            self.memory.sleep(self.layout.bell(queue, position), seen, remaining.min(limit));
            Ok(())
        } else if self.memory.exchange(header::LOOKED, looked, self.memory.now()) {
            self.look(me)
        } else {
            Ok(())
        }
    }

    /// Gives on what dead processes, and those stopped for longer than the lease, hold. `me`
    /// is who looks.
    pub(crate) fn look(&self, me: Identity) -> Result<(), Refusal> {
        let now = self.memory.now();
        for queue in 0..self.layout.queues {
            for permit in 0..self.layout.permits {
                let at = self.layout.permit(queue, permit);
                let word = Tagged(self.memory.load(at));
                let record = self.layout.permit_record(queue, permit);
                if word.who().is_some_and(|who| who != me && self.has_gone(who, record, now)) {
                    self.memory.exchange(at, word.0, Tagged::new(None, word.tag()).0);
                }
            }
            loop {
                let head = self.advance(queue)?;
                let Standing::Waiting(who) = self.standing(queue, head) else { break };
                let record = self.layout.place_record(queue, head);
                if who == me || !self.has_gone(who, record, now) {
                    break;
                }
                self.clear_place(queue, head, who);
            }
            self.prompt(queue)?;
        }
        for seat in header::SEATS {
            let sitter = self.memory.load(seat);
            if sitter == VACANT || !self.sits(sitter, me) {
                self.memory.exchange(seat, sitter, VACANT);
                self.nominate();
            }
        }
        Ok(())
    }

    /// Leaves the seat, if this waiter has one, to another.
    pub(crate) fn stand_down(&self, queue: usize, position: u64) {
        let me = sitter(queue, position);
        for seat in header::SEATS {
            if self.memory.load(seat) == me && self.memory.exchange(seat, me, VACANT) {
                self.nominate();
            }
        }
    }

    /// Whether a process is dead, or has been stopped for longer than the lease.
    fn has_gone(&self, who: Identity, record: Record, now: u64) -> bool {
        let stopped = self.memory.load(record.stopped());
        match (self.memory.fate(who), self.layout.lease) {
            (Fate::Dead, _) => true,
            (Fate::Stopped, Some(_)) if stopped == 0 => {
                self.memory.note(record.stopped(), now.max(1));
                false
            }
            (Fate::Stopped, Some(lease)) => {
                Duration::from_nanos(now.saturating_sub(stopped)) >= lease
            }
            (Fate::Running, _) if stopped != 0 => {
                self.memory.note(record.stopped(), 0);
                false
            }
            _ => false,
        }
    }

    /// The seat that a waiter has or now takes: a vacant one, or any if it `claims` one.
    fn take_seat(&self, queue: usize, position: u64, claims: bool) -> Option<usize> {
        let me = sitter(queue, position);
        let mut seats = header::SEATS.iter();
        let mine = seats.position(|&seat| self.memory.load(seat) == me);
        let mut seats = header::SEATS.iter();
        mine.or_else(|| seats.position(|&seat| self.memory.exchange(seat, VACANT, me))).or_else(
            || {
                let seat = (position % header::SEATS.len() as u64) as usize;
                claims.then(|| self.memory.store(header::SEATS[seat], me)).map(|()| seat)
            },
        )
    }

    /// Whether who comes now claims a seat even if none is vacant. Who had it then wakes up
    /// once for nothing, so in a crowd not everybody does.
    fn is_claim_due(&self, queue: usize) -> bool {
        let (head, tail) = (self.layout.head(queue), self.layout.tail(queue));
        if self.memory.load(tail).saturating_sub(self.memory.load(head)) <= FEW {
            return true;
        }
        let (claimed, now) = (self.memory.load(header::CLAIMED), self.memory.now());
        let is_long_ago = Duration::from_nanos(now.saturating_sub(claimed)) >= CLAIMS_APART;
        is_long_ago && self.memory.exchange(header::CLAIMED, claimed, now)
    }

    /// Wakes a waiter that has no seat, so that it takes a vacant one: the last of a queue.
    fn nominate(&self) {
        for queue in 0..self.layout.queues {
            let tail = self.memory.load(self.layout.tail(queue));
            for position in (tail.saturating_sub(NOMINEES)..tail).rev() {
                let waits = matches!(self.standing(queue, position), Standing::Waiting(_));
                if waits && !self.has_seat(queue, position) && self.ring(queue, position) {
                    return;
                }
            }
        }
    }

    fn has_seat(&self, queue: usize, position: u64) -> bool {
        let who = sitter(queue, position);
        header::SEATS.iter().any(|&seat| self.memory.load(seat) == who)
    }

    /// Whether a seat's waiter is still there.
    fn sits(&self, sitter: u64, me: Identity) -> bool {
        let (queue, position) = ((sitter >> QUEUE_SHIFT) as usize, sitter & POSITION_MASK);
        let Some(position) = position.checked_sub(1) else { return false };
        if queue >= self.layout.queues {
            return false;
        }
        match self.standing(queue, position) {
            Standing::Waiting(who) => who == me || self.memory.fate(who) == Fate::Running,
            _ => false,
        }
    }

    /// How long a waiter without a seat sleeps: the longer, the more have come after it. In
    /// sum over n waiters that is some ln(n) wake-ups a second.
    fn long_period(&self, queue: usize, position: u64) -> Duration {
        let tail = self.memory.load(self.layout.tail(queue));
        let behind = tail.saturating_sub(position).clamp(1, 3600);
        Duration::from_secs(behind)
    }
}

/// What a seat holds: the queue and position of its waiter.
fn sitter(queue: usize, position: u64) -> u64 {
    (queue as u64) << QUEUE_SHIFT | position.wrapping_add(1) & POSITION_MASK
}

/// After how long without a look the waiter on each seat looks. The last bounds the time
/// after which a dead process' place is given on even when two seats died with it.
const PERIODS: [Duration; header::SEATS.len()] =
    [Duration::from_millis(40), Duration::from_millis(60), Duration::from_millis(80)];

/// So many are no crowd: each claims a seat when it comes.
const FEW: u64 = 16;

/// How much time there is at least between two claims to a seat in a crowd.
const CLAIMS_APART: Duration = Duration::from_millis(10);

/// How many waiters from the end are asked to take a vacant seat.
const NOMINEES: u64 = 8;

const VACANT: u64 = 0;
const QUEUE_SHIFT: u32 = 56;
const POSITION_MASK: u64 = (1 << QUEUE_SHIFT) - 1;
