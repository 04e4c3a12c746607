//! Read-ahead: fetches several parts of an object at once while it is read from front to back.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use evener_seal::Fault;
use futures_util::future::{BoxFuture, FutureExt, Shared};
use opendal::Buffer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::objects::PART;

/// The bytes of a part, shared by all readers that wait for them.
pub(crate) type Fetched = Shared<BoxFuture<'static, Result<Buffer, Fault>>>;

/// The parts of one object that are fetched and not yet read.
pub(crate) struct Ahead {
    /// The object's length in bytes.
    length: u64,
    /// The first part that no fetch has begun for.
    next: u64,
    parts: BTreeMap<u64, Part>,
}

struct Part {
    fetched: Fetched,
    /// The number of bytes that nobody has read.
    unread: u64,
    _permit: OwnedSemaphorePermit,
}

impl Ahead {
    pub(crate) fn new(length: u64) -> Ahead {
        Ahead { length, next: 0, parts: BTreeMap::new() }
    }

    /// Returns part `number`, which begins at byte `number` times [`PART`]. Calls `fetch` for it
    /// and the parts that follow, as long as there are permits. `None` if the caller must read it
    /// directly.
    pub(crate) fn part(
        &mut self,
        number: u64,
        permits: &Arc<Semaphore>,
        fetch: impl Fn(Range<u64>) -> BoxFuture<'static, Result<Buffer, Fault>>,
    ) -> Option<Fetched> {
        let end = self.length.div_ceil(PART as u64);
        while self.next < end.min(number + PARTS_AT_ONCE as u64) {
            let Ok(permit) = permits.clone().try_acquire_owned() else {
                // The first part is never read whole, because its header was read before: drop it.
                let gives_way = self.next <= number && self.parts.pop_first().is_some();
                if gives_way { continue } else { break }
            };
            let start = self.next * PART as u64;
            let range = start..self.length.min(start + PART as u64);
            let (unread, fetched) = (range.end - range.start, fetch(range).shared());
            self.parts.insert(self.next, Part { fetched, unread, _permit: permit });
            self.next += 1;
        }
        // Don't fetch parts that are already being read directly.
        self.next = self.next.max(number + 1);
        self.parts.get(&number).map(|part| part.fetched.clone())
    }

    /// Notes that bytes of a part were read. Drops a part that was read whole.
    pub(crate) fn has_read(&mut self, number: u64, bytes: usize) {
        if let Some(part) = self.parts.get_mut(&number) {
            part.unread = part.unread.saturating_sub(bytes as u64);
            if part.unread == 0 {
                self.parts.remove(&number);
            }
        }
    }
}

/// The most parts to hold for all objects of a place together.
pub(crate) const PARTS_AT_ONCE: usize = 3;

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn parts_are_fetched_once_as_far_as_there_are_permits() {
        let permits = Arc::new(Semaphore::new(2));
        let begun = Mutex::new(Vec::new());
        let fetch = |range: Range<u64>| {
            begun.lock().unwrap().push(range.start / PART as u64);
            ready(Ok(Buffer::new())).boxed()
        };
        let mut ahead = Ahead::new(3 * PART as u64 + 7);
        assert!(ahead.part(0, &permits, fetch).is_some());
        assert!(ahead.part(1, &permits, fetch).is_some());
        assert_eq!(permits.available_permits(), 0);
        // Part 0 makes way for part 2.
        assert!(ahead.part(2, &permits, fetch).is_some());
        assert!(ahead.part(0, &permits, fetch).is_none());
        assert_eq!(permits.available_permits(), 0);
        ahead.has_read(1, PART);
        ahead.has_read(2, PART - 1);
        assert_eq!(permits.available_permits(), 1);
        ahead.has_read(2, 1);
        assert!(ahead.part(3, &permits, fetch).is_some());
        assert_eq!(*begun.lock().unwrap(), [0, 1, 2, 3]);
        drop(ahead);
        assert_eq!(permits.available_permits(), 2);
    }
}
