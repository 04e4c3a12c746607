//! The states of the sources.

use crate::place::Stamp;

/// The states of the sources of a block's entries.
#[derive(Default)]
pub(in crate::indexed) struct Stamps(pub(super) Vec<u8>);

impl Stamps {
    /// Adds that of an entry; `None` where a later run has to read the source.
    pub(in crate::indexed) fn push(&mut self, stamp: Option<&Stamp>) {
        let unknown = Stamp { device: 0, inode: 0, changed: (0, 0) };
        let Stamp { device, inode, changed: (seconds, nanoseconds) } = stamp.unwrap_or(&unknown);
        self.0.extend(device.to_le_bytes());
        self.0.extend(inode.to_le_bytes());
        self.0.extend(seconds.to_le_bytes());
        self.0.extend(nanoseconds.to_le_bytes());
    }

    pub(in crate::indexed) fn of(bytes: Vec<u8>) -> Stamps {
        Stamps(bytes)
    }

    pub(in crate::indexed) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// That of an entry.
    pub(in crate::indexed) fn get(&self, number: usize) -> Option<Stamp> {
        let bytes = self.0.chunks_exact(STAMP).nth(number)?;
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let nanoseconds = u32::from_le_bytes(bytes.get(24..28)?.try_into().ok()?);
        Some(Stamp { device: word(0)?, inode: word(8)?, changed: (word(16)? as i64, nanoseconds) })
    }
}

const STAMP: usize = 28;
