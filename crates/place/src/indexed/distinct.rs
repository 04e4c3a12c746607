//! Finds entries that name the same file of `data/`, in bounded memory.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use evener_format::index::{Entry, Kind, Node, StorageName};

/// Looks for names in `data/` that occur twice, in as many passes through the index as memory needs.
/// Each pass looks at other names, which a random key chooses.
pub(super) struct Distinct {
    hasher: RandomState,
    passes: u64,
    pass: u64,
    seen: HashSet<StorageName>,
}

impl Distinct {
    /// For an index that should have so many entries. It has no more than its nodes can hold.
    pub(super) fn new(entries: u64, nodes: usize) -> Distinct {
        let entries = entries.min(Node::MOST_ENTRIES.saturating_mul(nodes as u64));
        let passes = entries.div_ceil(AT_ONCE).max(1);
        Distinct { hasher: RandomState::new(), passes, pass: 0, seen: HashSet::new() }
    }

    /// Returns whether this is the first pass.
    pub(super) fn is_first_pass(&self) -> bool {
        self.pass == 0
    }

    /// Begins the next pass. Returns false if there is none.
    pub(super) fn next_pass(&mut self) -> bool {
        self.seen = HashSet::new();
        self.pass += 1;
        self.pass < self.passes
    }

    /// Checks that an entry names a file of its own.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn check(&mut self, entry: &Entry) -> Result<(), String> {
        let Kind::File(content) = &entry.kind else { return Ok(()) };
        if self.hasher.hash_one(content.name) % self.passes != self.pass {
            return Ok(());
        }
        if self.seen.len() as u64 == 2 * AT_ONCE {
            return Err("the index has more entries than its root says".to_owned());
        }
        match self.seen.insert(content.name) {
            true => Ok(()),
            false => Err(format!("its file {} is that of another entry too", content.name)),
        }
    }
}

/// The number of names that are kept at once, on average: 80 MB.
const AT_ONCE: u64 = 1 << 21;

#[cfg(test)]
mod tests {
    use super::*;

    /// The root could ask for passes without an end.
    #[test]
    fn no_more_passes_are_made_than_nodes_can_need() {
        assert_eq!(Distinct::new(u64::MAX, 1).passes, 16);
        assert_eq!(Distinct::new(5, 1).passes, 1);
    }
}
