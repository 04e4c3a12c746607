//! Finds dead and stopped processes and releases their permits and places.
//!
//! A process gets no notice when another one dies, so some process must check, and waiting must use
//! no CPU. Three waiters of the whole gate are its *sentries* and check for all: they wake every
//! [`PERIODS`], and check unless another waiter has checked in the meantime. Late arrivals are
//! sentries, because they wait longest: a new waiter relieves a sentry (in a long queue at most one
//! per [`RELIEFS_APART`]), and a sentry that leaves wakes one of the last waiters to take its post.
//! All other waiters sleep until their bell rings. There are three sentries because one might die
//! together with a holder. If all three die with it, the other waiters notice after their own, much
//! longer, periods.
//!
//! Cost: for any number of waiters, the sentries wake at most 54 times a second together, and 25 of
//! these wake-ups read `/proc/PID/stat` of every holder and of the head (some 6 µs each). Every
//! other waiter wakes after a second, and then hardly ever (`long_period`). A gate without waiters
//! costs nothing: the first process that must wait finds a dead holder.

use std::time::Duration;

use crate::identity::{Fate, Identity};
use crate::layout::{Record, Tagged, header};
use crate::memory::Memory;
use crate::table::{Bell, Refusal, Standing, Table};

impl<M: Memory> Table<M> {
    /// Sleeps until the bell rings or the next check is due, for `limit` at most.
    pub(crate) fn doze(
        &self,
        bell: Bell,
        me: Identity,
        limit: Duration,
        first: bool,
    ) -> Result<(), Refusal> {
        let Bell { queue, position, seen } = bell;
        let relieves = first && self.is_relief_due(queue);
        let period = match self.take_post(queue, position, relieves) {
            Some(post) => PERIODS[post],
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

    /// Releases the permits and places of processes that are dead or were stopped for longer than
    /// the lease. `me` is the process that checks.
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
        for post in header::SENTRIES {
            let sentry = self.memory.load(post);
            if sentry == VACANT || !self.is_on_duty(sentry, me) {
                self.memory.exchange(post, sentry, VACANT);
                self.nominate();
            }
        }
        Ok(())
    }

    /// Passes this waiter's post, if it is a sentry, to another waiter.
    pub(crate) fn stand_down(&self, queue: usize, position: u64) {
        let me = sentry(queue, position);
        for post in header::SENTRIES {
            if self.memory.load(post) == me && self.memory.exchange(post, me, VACANT) {
                self.nominate();
            }
        }
    }

    /// Returns whether a process is dead, or has been stopped for longer than the lease.
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

    /// The waiter's post, or the post that it takes now: a vacant post, or any post if it `relieves`
    /// a sentry.
    fn take_post(&self, queue: usize, position: u64, relieves: bool) -> Option<usize> {
        let me = sentry(queue, position);
        let mine = header::SENTRIES.iter().position(|&post| self.memory.load(post) == me);
        let vacant = || {
            let mut posts = header::SENTRIES.iter();
            posts.position(|&post| self.memory.exchange(post, VACANT, me))
        };
        mine.or_else(vacant).or_else(|| {
            let post = (position % header::SENTRIES.len() as u64) as usize;
            relieves.then(|| self.memory.store(header::SENTRIES[post], me)).map(|()| post)
        })
    }

    /// Returns whether a new waiter relieves a sentry even if no post is vacant. The former sentry
    /// then wakes once for nothing, so in a long queue only some new waiters do.
    fn is_relief_due(&self, queue: usize) -> bool {
        let (head, tail) = (self.layout.head(queue), self.layout.tail(queue));
        if self.memory.load(tail).saturating_sub(self.memory.load(head)) <= FEW {
            return true;
        }
        let (relieved, now) = (self.memory.load(header::RELIEVED), self.memory.now());
        let is_long_ago = Duration::from_nanos(now.saturating_sub(relieved)) >= RELIEFS_APART;
        is_long_ago && self.memory.exchange(header::RELIEVED, relieved, now)
    }

    /// Wakes a waiter that is not a sentry, the last of a queue, so that it takes a vacant post.
    fn nominate(&self) {
        for queue in 0..self.layout.queues {
            let tail = self.memory.load(self.layout.tail(queue));
            for position in (tail.saturating_sub(NOMINEES)..tail).rev() {
                let waits = matches!(self.standing(queue, position), Standing::Waiting(_));
                if waits && !self.is_sentry(queue, position) && self.ring(queue, position) {
                    return;
                }
            }
        }
    }

    fn is_sentry(&self, queue: usize, position: u64) -> bool {
        let me = sentry(queue, position);
        header::SENTRIES.iter().any(|&post| self.memory.load(post) == me)
    }

    /// Returns whether a sentry still waits and runs.
    fn is_on_duty(&self, sentry: u64, me: Identity) -> bool {
        let (queue, position) = ((sentry >> QUEUE_SHIFT) as usize, sentry & POSITION_MASK);
        let Some(position) = position.checked_sub(1) else { return false };
        if queue >= self.layout.queues {
            return false;
        }
        match self.standing(queue, position) {
            Standing::Waiting(who) => who == me || self.memory.fate(who) == Fate::Running,
            _ => false,
        }
    }

    /// The sleep of a waiter that is not a sentry: longer if more waiters came after it. For n
    /// waiters this makes some ln(n) wake-ups a second in all.
    fn long_period(&self, queue: usize, position: u64) -> Duration {
        let tail = self.memory.load(self.layout.tail(queue));
        let behind = tail.saturating_sub(position).clamp(1, 3600);
        Duration::from_secs(behind)
    }
}

/// A post's value: the queue and position of its sentry.
fn sentry(queue: usize, position: u64) -> u64 {
    (queue as u64) << QUEUE_SHIFT | position.wrapping_add(1) & POSITION_MASK
}

/// Time without a check after which each sentry checks. The last one bounds the time until a dead
/// process' place is released even if two sentries died with it.
const PERIODS: [Duration; header::SENTRIES.len()] =
    [Duration::from_millis(40), Duration::from_millis(60), Duration::from_millis(80)];

/// The length of a queue up to which each new waiter relieves a sentry.
const FEW: u64 = 16;

/// Least time between two reliefs in a long queue.
const RELIEFS_APART: Duration = Duration::from_millis(10);

/// Number of waiters from the end that are asked to take a vacant post.
const NOMINEES: u64 = 8;

const VACANT: u64 = 0;
const QUEUE_SHIFT: u32 = 56;
const POSITION_MASK: u64 = (1 << QUEUE_SHIFT) - 1;
