//! The layout of the shared file, an array of 64-bit words.
//!
//! ```text
//! header       16 words
//! per queue:
//!   head, tail       8 words each: a cache line of its own for each
//!   permits          1 word a permit: who holds it
//!   permit records   4 words a permit
//!   places           8 words a place: who waits there, its bell, its record
//! ```

use std::time::Duration;

use crate::identity::Identity;

/// The shape of one gate's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of queues: 1 for `fifo`, up to 64 for `lists`.
    pub(crate) queues: usize,
    /// Number of permits of each queue.
    pub(crate) permits: usize,
    /// Number of places in each queue; a power of two.
    pub(crate) places: usize,
    /// The time for which a process may be stopped before it loses its place or permit.
    pub(crate) lease: Option<Duration>,
}

impl Layout {
    /// The length of the file in words.
    pub(crate) fn words(&self) -> usize {
        HEADER + self.queues * self.queue_words()
    }

    /// The position of the first waiter, or of the next one if there is none.
    pub(crate) fn head(&self, queue: usize) -> usize {
        HEADER + queue * self.queue_words()
    }

    /// The position at which the next process arrives.
    pub(crate) fn tail(&self, queue: usize) -> usize {
        self.head(queue) + LINE
    }

    /// A permit's word: its holder's identity, and a count of its holders.
    pub(crate) fn permit(&self, queue: usize, permit: usize) -> usize {
        self.head(queue) + 2 * LINE + permit
    }

    /// The record of a permit's holder.
    pub(crate) fn permit_record(&self, queue: usize, permit: usize) -> Record {
        let records = self.permit(queue, self.permits.next_multiple_of(LINE));
        Record(records + permit * PERMIT_RECORD)
    }

    /// A place's word: its waiter's identity and the lap.
    pub(crate) fn place(&self, queue: usize, position: u64) -> usize {
        let index = (position & (self.places as u64 - 1)) as usize;
        self.permit_record(queue, self.permits.next_multiple_of(LINE)).0 + index * LINE
    }

    /// The word on which the waiter of a place sleeps.
    pub(crate) fn bell(&self, queue: usize, position: u64) -> usize {
        self.place(queue, position) + 1
    }

    /// The record of a place's waiter.
    pub(crate) fn place_record(&self, queue: usize, position: u64) -> Record {
        Record(self.place(queue, position) + 2)
    }

    /// The lap of a position: how often the ring was reused, as a tag.
    pub(crate) fn lap(&self, position: u64) -> u16 {
        (position / self.places as u64) as u16
    }

    fn queue_words(&self) -> usize {
        let permits = self.permits.next_multiple_of(LINE);
        2 * LINE + permits * (1 + PERMIT_RECORD) + self.places * LINE
    }
}

/// The record of a holder or waiter besides its identity, for the snapshot and the lease.
#[derive(Clone, Copy)]
pub(crate) struct Record(usize);

impl Record {
    /// Its time of arrival, on the shared clock.
    pub(crate) fn since(self) -> usize {
        self.0
    }

    /// Its thread's id.
    pub(crate) fn thread(self) -> usize {
        self.0 + 1
    }

    /// The time at which it was first seen stopped; 0 while it runs.
    pub(crate) fn stopped(self) -> usize {
        self.0 + 2
    }
}

/// An identity, if any, with a 16-bit tag that changes at every use of the word (lap of a place,
/// count of a permit). So a late compare-and-exchange fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tagged(pub(crate) u64);

impl Tagged {
    pub(crate) fn new(who: Option<Identity>, tag: u16) -> Tagged {
        Tagged(u64::from(tag) << Identity::BITS | who.map_or(0, Identity::bits))
    }

    pub(crate) fn who(self) -> Option<Identity> {
        Identity::from_bits(self.0 & ((1 << Identity::BITS) - 1))
    }

    pub(crate) fn tag(self) -> u16 {
        (self.0 >> Identity::BITS) as u16
    }
}

/// Words of the header.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const QUEUES: usize = 2;
    pub(crate) const PERMITS: usize = 3;
    pub(crate) const PLACES: usize = 4;
    /// The lease in nanoseconds; 0 for none.
    pub(crate) const LEASE: usize = 5;
    /// Two words.
    pub(crate) const BOOT: usize = 6;
    pub(crate) const NAMESPACE: usize = 8;
    /// Not 0 after a reset: processes must open the new gate.
    pub(crate) const RETIRED: usize = 9;
    /// Time of the last check for dead processes.
    pub(crate) const LOOKED: usize = 10;
    /// The waiters that check for dead processes.
    pub(crate) const SENTRIES: [usize; 3] = [11, 12, 13];
    /// Time of the last relief of a sentry in a long queue.
    pub(crate) const RELIEVED: usize = 14;
}

const HEADER: usize = 16;
const LINE: usize = 8;
/// The length of a permit's record, in words; the last word is unused.
const PERMIT_RECORD: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_things_share_a_word() {
        let layout = Layout { queues: 3, permits: 5, places: 4, lease: None };
        let mut words: HashSet<usize> = (0..=header::RELIEVED).collect();
        let mut expected = words.len();
        let mut add = |word: usize| {
            expected += 1;
            assert!(word < layout.words());
            words.insert(word);
            assert_eq!(words.len(), expected, "word {word}");
        };
        for queue in 0..3 {
            add(layout.head(queue));
            add(layout.tail(queue));
            for permit in 0..5 {
                add(layout.permit(queue, permit));
                let record = layout.permit_record(queue, permit);
                [record.since(), record.thread(), record.stopped()].into_iter().for_each(&mut add);
            }
            for position in 0..4 {
                add(layout.place(queue, position));
                add(layout.bell(queue, position));
                let record = layout.place_record(queue, position);
                [record.since(), record.thread(), record.stopped()].into_iter().for_each(&mut add);
            }
        }
        assert_eq!(layout.place(1, 6), layout.place(1, 2));
        assert_eq!((layout.lap(3), layout.lap(4)), (0, 1));
    }

    #[test]
    fn a_tag_and_an_identity_share_a_word() {
        let who = Identity::new(4_194_303, u64::MAX);
        let tagged = Tagged::new(Some(who), u16::MAX);
        assert_eq!((tagged.who(), tagged.tag()), (Some(who), u16::MAX));
        assert_eq!(Tagged::new(None, 7).who(), None);
    }
}
