//! How rows are cut into shards, and which of them a worker takes.

/// The most that a shard has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRule {
    /// Entries.
    pub objects: u64,
    /// Bytes of content. An object with more is alone with the directories before it.
    pub bytes: u64,
}

impl Default for ShardRule {
    fn default() -> ShardRule {
        ShardRule { objects: 10_000, bytes: 64 << 30 }
    }
}

/// Cuts rows, which come in the index's order, into shards.
pub(super) struct Cutter {
    rule: ShardRule,
    entries: u64,
    bytes: u64,
}

impl Cutter {
    pub(super) fn new(rule: ShardRule) -> Cutter {
        Cutter { rule, entries: 0, bytes: 0 }
    }

    /// Takes a row with so many bytes of content. Returns true if a new shard begins at it.
    pub(super) fn cuts_before(&mut self, bytes: u64) -> bool {
        let is_full = self.entries >= self.rule.objects.max(1);
        let is_long = self.bytes > 0 && self.bytes.saturating_add(bytes) > self.rule.bytes;
        let cuts = self.entries > 0 && (is_full || is_long);
        if cuts {
            (self.entries, self.bytes) = (0, 0);
        }
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        cuts
    }
}

/// The shards that a worker takes: first its own, then those that others have not finished.
/// Shards are numbered by their length, the longest first.
#[derive(Clone, Debug)]
pub(super) struct Share {
    worker: u64,
    workers: u64,
    shards: u64,
    own: u64,
    others: u64,
}

impl Share {
    pub(super) fn new(worker: u64, workers: u64, shards: u64) -> Share {
        Share { worker, workers: workers.max(1), shards, own: 0, others: 0 }
    }

    /// The next shard that has no receipt; `None` when none is left. It is not taken again.
    ///
    /// Each helper begins at another place among the shards of its neighbour, so that several helpers
    /// of one neighbour do not do the same.
    pub(super) fn next(&mut self, has_receipt: impl Fn(u64) -> bool) -> Option<u64> {
        loop {
            let number = self.own * self.workers + self.worker;
            if number >= self.shards {
                break;
            }
            self.own += 1;
            if !has_receipt(number) {
                return Some(number);
            }
        }
        loop {
            let number = self.other(self.others)?;
            self.others += 1;
            if !has_receipt(number) {
                return Some(number);
            }
        }
    }

    /// Returns whether shards of its own are left.
    pub(super) fn has_own(&self) -> bool {
        self.own * self.workers + self.worker < self.shards
    }

    /// The shards of the others, neighbour by neighbour.
    fn other(&self, mut at: u64) -> Option<u64> {
        for distance in 1..self.workers {
            let owner = (self.worker + distance) % self.workers;
            let owned = (self.shards + self.workers - 1 - owner) / self.workers;
            if at < owned {
                let turned = (at + (distance - 1) * owned / (self.workers - 1)) % owned;
                return Some((owned - 1 - turned) * self.workers + owner);
            }
            at -= owned;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(rule: ShardRule, sizes: &[u64]) -> Vec<bool> {
        let mut cutter = Cutter::new(rule);
        sizes.iter().map(|size| cutter.cuts_before(*size)).collect()
    }

    #[test]
    fn shards_end_at_their_limits() {
        let rule = ShardRule { objects: 3, bytes: 10 };
        assert_eq!(cuts(rule, &[1, 1, 1, 1]), [false, false, false, true]);
        assert_eq!(cuts(rule, &[6, 4, 1]), [false, false, true]);
        assert_eq!(cuts(rule, &[0, 99, 1]), [false, false, true]);
        assert_eq!(cuts(rule, &[u64::MAX, u64::MAX]), [false, true]);
        assert_eq!(cuts(ShardRule { objects: 0, bytes: 0 }, &[1, 0, 1]), [false, true, true]);
    }

    #[test]
    fn every_worker_reaches_every_shard_once() {
        for workers in 1..7 {
            for shards in 0..20 {
                for worker in 0..workers {
                    let mut share = Share::new(worker, workers, shards);
                    let mut taken: Vec<u64> = Vec::new();
                    while let Some(shard) = share.next(|_| false) {
                        taken.push(shard);
                    }
                    let own = taken.iter().take_while(|it| **it % workers == worker).count() as u64;
                    assert_eq!(own, (worker..shards).step_by(workers as usize).count() as u64);
                    taken.sort_unstable();
                    assert_eq!(taken, (0..shards).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn finished_shards_are_passed_over() {
        let mut share = Share::new(1, 2, 6);
        let mut next = || share.next(|shard| shard != 3 && shard != 2);
        assert_eq!((next(), next(), next()), (Some(3), Some(2), None));
    }
}
