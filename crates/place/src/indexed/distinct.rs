//! Finds entries that name the same file of `data/`, in bounded memory.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use evener_format::index::{Entry, Kind, StorageName};

/// Looks for names in `data/` that occur twice, in as many passes through the index as memory needs.
/// Each pass looks at other names, which a random key chooses.
pub(super) struct Distinct {
    hasher: RandomState,
    passes: u64,
    pass: u64,
    seen: HashSet<StorageName>,
}

impl Distinct {
    /// For an index that should have so many entries.
    pub(super) fn new(entries: u64) -> Distinct {
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
