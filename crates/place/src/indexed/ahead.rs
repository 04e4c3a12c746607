//! Walks a source on a thread of its own, ahead of what is done with its entries.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::SystemTime;

use crate::place::{Entry, Origin};
use crate::{Control, Fault};

/// Some entries of a walk, in its order.
pub(super) struct Batch {
    /// A time before each of them was looked at.
    pub(super) time: SystemTime,
    pub(super) entries: Vec<Result<Entry, Fault>>,
}

/// Calls `take` with the entries of a source, which another thread looks at meanwhile. The walk ends
/// early when the run is stopped, and when `take` returns; then its thread has ended too.
pub(super) fn walk_ahead<R>(
    origin: &dyn Origin,
    control: &Control,
    take: impl FnOnce(&mut dyn Iterator<Item = Batch>) -> R,
) -> R {
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(BATCHES_AHEAD);
        scope.spawn(move || walk(origin, control, &sender));
        take(&mut receiver.into_iter())
    })
}

fn walk(origin: &dyn Origin, control: &Control, sender: &SyncSender<Batch>) {
    let mut entries = origin.walk();
    loop {
        let time = SystemTime::now();
        let going = entries.by_ref().take_while(|_| !control.is_stopped());
        let entries: Vec<_> = going.take(BATCH).collect();
        if entries.is_empty() || sender.send(Batch { time, entries }).is_err() {
            return;
        }
    }
}

/// The entries of a batch: the other thread wakes for each.
const BATCH: usize = 32;

const BATCHES_AHEAD: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::Name;
    use crate::place::{Abilities, Blob, Kind, Metadata};

    /// A source without end, in which every third entry can't be read. It counts those that were
    /// looked at.
    #[derive(Default)]
    struct Endless(AtomicU32);

    impl Origin for Endless {
        fn abilities(&self) -> Abilities {
            Abilities::QUICK
        }

        fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
            Box::new(std::iter::repeat_with(|| {
                let number = self.0.fetch_add(1, Ordering::SeqCst);
                let name = Name::new(number.to_string()).unwrap();
                match number % 3 {
                    0 => Err(Fault::Entry { name, reason: String::new() }),
                    _ => Ok(Entry::of(name, Kind::Object, Metadata::default())),
                }
            }))
        }

        fn open(&self, name: &Name, _: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
            Err(Fault::Missing(name.clone()))
        }
    }

    #[test]
    fn entries_and_errors_come_in_order_and_no_walk_is_left() {
        let (source, control) = (Endless::default(), Control::default());
        let found: Vec<_> = walk_ahead(&source, &control, |batches| {
            batches.flat_map(|batch| batch.entries).take(1000).collect()
        });
        for (number, found) in found.into_iter().enumerate() {
            let (is_read, name) = match found {
                Ok(entry) => (true, entry.name),
                Err(Fault::Entry { name, .. }) => (false, name),
                Err(fault) => panic!("{fault}"),
            };
            assert_eq!((is_read, name), (number % 3 > 0, Name::new(number.to_string()).unwrap()));
        }
        let ahead = BATCH * (BATCHES_AHEAD + 2);
        assert!(source.0.load(Ordering::SeqCst) as usize <= 1000 + ahead);
    }

    #[test]
    fn a_stop_ends_the_walk() {
        let (source, control) = (Endless::default(), Control::default());
        walk_ahead(&source, &control, |batches| {
            assert!(batches.next().is_some());
            control.stop();
            assert!(batches.count() <= BATCHES_AHEAD + 1);
        });
    }
}
