//! Puts results that come in any order into the parts of a store.

use std::collections::BTreeMap;
use std::sync::Mutex;

use evener_core::{IgnorePoison, WipedBuffer};

use super::{Draft, Fault};
use crate::FileError;

/// A draft that takes any bytes in any order, for any store.
pub(crate) struct Assembly {
    draft: Box<dyn Draft>,
    parts: Option<Parts>,
}

/// The bytes of an object so far, for a store that takes parts in order.
struct Parts {
    /// The length of every part but the last, in bytes.
    length: usize,
    /// The bytes that were given to the draft.
    given: u64,
    /// The bytes that follow them, at most one part: the first `filled` of the buffer.
    part: WipedBuffer,
    filled: usize,
    /// Results that came before those in front of them, by their offsets.
    early: BTreeMap<u64, WipedBuffer>,
}

/// Writes to a draft. After a failure, the reason takes its place, and later writes return it.
pub(crate) fn write_to<D>(
    draft: &Mutex<Result<D, Fault>>,
    write: impl FnOnce(&mut D) -> Result<(), Fault>,
) -> Result<(), FileError> {
    let mut draft = draft.lock().ignore_poison();
    let written = match &mut *draft {
        Ok(open) => write(open),
        Err(fault) => Err(fault.clone()),
    };
    if let Err(fault) = &written {
        *draft = Err(fault.clone());
    }
    Ok(written?)
}

impl Assembly {
    /// `part` is the store's [`Abilities::part`](super::Abilities::part), and `length` the greatest
    /// length of the object in bytes.
    pub(crate) fn new(
        draft: Box<dyn Draft>,
        part: Option<usize>,
        length: u64,
    ) -> Result<Assembly, Fault> {
        let Some(most) = part else { return Ok(Assembly { draft, parts: None }) };
        let part = buffer(usize::try_from(length).unwrap_or(usize::MAX).min(most))?;
        let parts = Parts { length: most, given: 0, part, filled: 0, early: BTreeMap::new() };
        Ok(Assembly { draft, parts: Some(parts) })
    }

    /// Takes bytes that belong at an offset.
    pub(crate) fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        let Assembly { draft, parts } = self;
        let Some(parts) = parts else { return draft.write_at(bytes, at) };
        if at != parts.end() {
            let mut early = buffer(bytes.len())?;
            early.copy_from_slice(bytes);
            parts.early.insert(at, early);
            return Ok(());
        }
        parts.append(&mut **draft, bytes)?;
        while let Some(next) = parts.early.remove(&parts.end()) {
            parts.append(&mut **draft, &next)?;
        }
        Ok(())
    }

    /// Publishes an object of `length` bytes. Returns its version, where the place knows it.
    pub(crate) fn publish(self, length: u64) -> Result<Option<String>, Fault> {
        let Some(parts) = self.parts else { return self.draft.publish(&[]) };
        if parts.end() != length || !parts.early.is_empty() {
            return Err(Fault::Failed("not all of it was written".to_owned()));
        }
        self.draft.publish(&parts.part[..parts.filled])
    }
}

impl Parts {
    /// The offset of the byte that comes next.
    fn end(&self) -> u64 {
        self.given + self.filled as u64
    }

    fn append(&mut self, draft: &mut dyn Draft, mut bytes: &[u8]) -> Result<(), Fault> {
        while !bytes.is_empty() {
            // A full part is given only now, because it may be the last.
            if self.filled == self.length {
                draft.write_at(&self.part, self.given)?;
                self.given += self.length as u64;
                self.filled = 0;
            }
            let room = self.part.get_mut(self.filled..).filter(|room| !room.is_empty());
            let room = room.ok_or_else(|| Fault::Failed(TOO_LONG.to_owned()))?;
            let (now, later) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
        }
        Ok(())
    }
}

/// A buffer of zeros, which is wiped when it is dropped.
pub(super) fn buffer(length: usize) -> Result<WipedBuffer, Fault> {
    let failed = || Fault::Failed(format!("there is no memory for {length} bytes"));
    WipedBuffer::try_zeros(length).ok_or_else(failed)
}

const TOO_LONG: &str = "more came out than belongs to the object";
