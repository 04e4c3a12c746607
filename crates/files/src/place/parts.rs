//! Puts results that come in any order into the parts of a store.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::{Draft, Fault};

/// A draft that takes any bytes in any order, for any store.
pub(super) struct Assembly {
    draft: Box<dyn Draft>,
    parts: Option<Parts>,
}

/// What has come of an object, for a store that takes parts in order.
struct Parts {
    /// The length of every part but the last, in bytes.
    length: usize,
    /// The bytes that were given to the draft.
    given: u64,
    /// The bytes that follow them, at most one part.
    part: Zeroizing<Vec<u8>>,
    /// Results that came before those in front of them, by their offsets.
    early: BTreeMap<u64, Zeroizing<Vec<u8>>>,
}

impl Assembly {
    /// `part` is the store's [`Abilities::part`](super::Abilities::part), and `length` the greatest
    /// length of the object in bytes.
    pub(super) fn new(draft: Box<dyn Draft>, part: Option<usize>, length: u64) -> Assembly {
        let parts = part.map(|part| {
            let room = usize::try_from(length).unwrap_or(usize::MAX).min(part);
            let empty = Zeroizing::new(Vec::with_capacity(room));
            Parts { length: part, given: 0, part: empty, early: BTreeMap::new() }
        });
        Assembly { draft, parts }
    }

    /// Takes bytes that belong at an offset.
    pub(super) fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        let Assembly { draft, parts } = self;
        let Some(parts) = parts else { return draft.write_at(bytes, at) };
        if at != parts.end() {
            parts.early.insert(at, Zeroizing::new(bytes.to_vec()));
            return Ok(());
        }
        parts.append(&mut **draft, bytes)?;
        while let Some(next) = parts.early.remove(&parts.end()) {
            parts.append(&mut **draft, &next)?;
        }
        Ok(())
    }

    /// Publishes an object of `length` bytes.
    pub(super) fn publish(self, length: u64) -> Result<(), Fault> {
        let Some(parts) = self.parts else { return self.draft.publish(&[]) };
        if parts.end() != length || !parts.early.is_empty() {
            return Err(Fault::Failed("not all of it was written".to_owned()));
        }
        self.draft.publish(&parts.part)
    }
}

impl Parts {
    /// The offset of the byte that comes next.
    fn end(&self) -> u64 {
        self.given + self.part.len() as u64
    }

    fn append(&mut self, draft: &mut dyn Draft, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            // A full part is given only now, because it may be the last.
            if self.part.len() == self.length {
                draft.write_at(&self.part, self.given)?;
                self.given += self.length as u64;
                self.part.clear();
            }
            let count = bytes.len().min(self.length - self.part.len());
            let (now, later) = bytes.split_at(count);
            self.part.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }
}
