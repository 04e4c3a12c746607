//! The files of `data/`.

use std::sync::{Arc, Mutex};

use evener_core::IgnorePoison;
use evener_format::index::Content;
use evener_format::{Cobblestone, Layout, Recipe};

use super::depot::name_of;
use super::hash::{Part, TreeHash};
use super::snapshot::Snapshot;
use crate::Fault;
use crate::place::{Blob, ReadAhead};

/// An open file of `data/`. It is the one that its entry names.
pub(super) struct SealedBlob {
    blob: Box<dyn Blob>,
    content: Content,
    /// `None` where nobody decrypts.
    recipe: Option<Arc<Recipe>>,
    whole: Option<Whole>,
    in_order: Option<InOrder>,
}

/// The hash of a file that is read in parts: it is checked if a reader reads all of them in order.
struct InOrder {
    expected: [u8; 32],
    read: Mutex<Prefix>,
}

/// The part that was read in order from the beginning.
#[derive(Default)]
struct Prefix {
    header: Vec<u8>,
    hash: blake3::Hasher,
    length: u64,
}

impl InOrder {
    fn new(expected: [u8; 32]) -> InOrder {
        InOrder { expected, read: Mutex::default() }
    }
}

impl Prefix {
    /// Takes bytes that were read. Those at the beginning are read twice: first to find the recipe.
    /// Returns the length of all that was read in order, with these bytes last.
    fn take(&mut self, bytes: &[u8], at: u64) -> Option<u64> {
        let header = Cobblestone::HEADER_LENGTH;
        if at == 0 {
            *self = Prefix::default();
            self.header = bytes[..bytes.len().min(header)].to_vec();
        } else if at == header as u64 && self.header.len() == header {
            self.hash = blake3::Hasher::new();
            self.hash.update(&self.header);
            self.length = at;
        } else if at < self.length {
            // These bytes may have changed since they were read first.
            *self = Prefix::default();
        }
        if at != self.length {
            return None;
        }
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Some(self.length)
    }
}

/// The hash of a file that is read whole, in any order.
struct Whole {
    expected: [u8; 32],
    /// The hash so far, and the number of bytes that were read.
    read: Mutex<(TreeHash, u64)>,
}

impl SealedBlob {
    pub(super) fn open(
        snapshot: &Snapshot<'_>,
        content: Content,
        recipe: Option<Arc<Recipe>>,
        first: &mut [u8],
    ) -> Result<(SealedBlob, usize), Fault> {
        let name = name_of(content.name);
        let (blob, read) =
            snapshot.depot.origin.open(&name, first).map_err(|fault| match fault {
                Fault::Missing(_) => {
                    let missing = || format!("its file {} is missing", content.name);
                    Fault::Failed(snapshot.removed().unwrap_or_else(missing))
                }
                fault => fault,
            })?;
        if content.offset != 0 {
            return Err(Fault::Failed(format!(
                "its file {} holds other files too, which this version does not read",
                content.name
            )));
        }
        if blob.length() != content.length {
            return Err(Fault::Failed(format!(
                "its file {} has {} bytes, not {}: it was cut, extended or exchanged",
                content.name,
                blob.length(),
                content.length
            )));
        }
        let opened = SealedBlob { blob, content, recipe, whole: None, in_order: None };
        opened.check_bytes(&first[..read], 0)?;
        Ok((opened, read))
    }

    /// The same file, of which a slow place is asked for up to `most` bytes at once.
    pub(super) fn read_ahead(self, snapshot: &Snapshot<'_>, most: usize) -> SealedBlob {
        match snapshot.depot.origin.abilities().requests() {
            1 => self,
            _ => SealedBlob { blob: Box::new(ReadAhead::of(self.blob, most)), ..self },
        }
    }

    /// The same file, whose hash is compared once all of it was read in order.
    pub(super) fn read_in_order(mut self) -> SealedBlob {
        self.in_order = self.content.hash.map(InOrder::new);
        self
    }

    /// The same file, which will be read whole after its first bytes. Its hash is known at the end.
    pub(super) fn read_whole(mut self, first: &[u8]) -> SealedBlob {
        self.whole = self.content.hash.map(|expected| Whole {
            expected,
            read: Mutex::new((TreeHash::new(self.content.length), 0)),
        });
        self.note(first, 0);
        self
    }

    /// Compares the hash of all of it, in signed trees.
    pub(super) fn check_whole(&self) -> Result<(), Fault> {
        let Some(expected) = self.content.hash else { return Ok(()) };
        let mut hash = blake3::Hasher::new();
        let mut buffer = vec![0; self.content.length.min(READ_AT_ONCE) as usize];
        let mut at = 0;
        while at < self.content.length {
            let length = (self.content.length - at).min(READ_AT_ONCE);
            let bytes = &mut buffer[..length as usize];
            self.read_at(bytes, at)?;
            hash.update(bytes);
            at += length;
        }
        match *hash.finalize().as_bytes() == expected {
            true => Ok(()),
            false => Err(self.exchanged()),
        }
    }

    fn exchanged(&self) -> Fault {
        Fault::Failed(format!(
            "its file {} is another one than the index names: it was exchanged",
            self.content.name
        ))
    }

    /// Compares the hash as soon as all of the plaintext was read in order; padding may follow.
    fn check_order(&self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        let Some(InOrder { expected, read }) = &self.in_order else { return Ok(()) };
        let mut read = read.lock().ignore_poison();
        let Some(mut length) = read.take(bytes, at) else { return Ok(()) };
        let plain = Layout::for_plaintext(&Cobblestone::GEOMETRY, self.content.size);
        let plain = plain.map_or(self.content.length, |layout| layout.sealed_length());
        if length + TAG < plain {
            return Ok(());
        }
        let mut buffer = vec![0; (self.content.length - length).min(READ_AT_ONCE) as usize];
        while length < self.content.length {
            let more = (self.content.length - length).min(READ_AT_ONCE);
            let bytes = &mut buffer[..more as usize];
            self.blob.read_at(bytes, length)?;
            read.hash.update(bytes);
            length += more;
        }
        read.length = length;
        match *read.hash.finalize().as_bytes() == *expected {
            true => Ok(()),
            false => Err(self.sealed_again()),
        }
    }

    fn sealed_again(&self) -> Fault {
        Fault::Failed(format!(
            "its file {} is another one than the index names, with the same beginning and end: \
             somebody who has its key sealed it again",
            self.content.name
        ))
    }

    fn note(&self, bytes: &[u8], at: u64) {
        if let Some(whole) = &self.whole {
            // Before the lock: several workers hash at once.
            let part = Part::of(bytes, at, self.content.length);
            let (hash, read) = &mut *whole.read.lock().ignore_poison();
            hash.take(part);
            *read = read.saturating_add(bytes.len() as u64);
        }
    }

    /// Compares the commitment and the last tag, as far as these bytes have them.
    fn check_bytes(&self, bytes: &[u8], at: u64) -> Result<(), Fault> {
        let Content { commitment, tag, length, .. } = &self.content;
        let is_same = |expected: &[u8], start: u64| {
            let start = start.checked_sub(at).and_then(|start| usize::try_from(start).ok());
            let there = start.and_then(|start| bytes.get(start..start + expected.len()));
            there.is_none_or(|there| there == expected)
        };
        match is_same(commitment, COMMITMENT_AT) && is_same(tag, length - tag.len() as u64) {
            true => Ok(()),
            false => Err(self.exchanged()),
        }
    }
}

impl Blob for SealedBlob {
    fn length(&self) -> u64 {
        self.content.length
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        self.blob.read_at(buffer, at)?;
        self.note(buffer, at);
        self.check_bytes(buffer, at)?;
        self.check_order(buffer, at)
    }

    fn will_read_all(&self) {
        self.blob.will_read_all();
    }

    fn check(&self) -> Result<(), Fault> {
        self.blob.check()?;
        let Some(whole) = &self.whole else { return Ok(()) };
        let length = self.content.length;
        let mut read = whole.read.lock().ignore_poison();
        let (hash, bytes) = std::mem::replace(&mut *read, (TreeHash::new(length), 0));
        // After the failure of an engine, bytes were read twice, and perhaps two different ones.
        if bytes > length {
            return Err(Fault::Changed);
        }
        match hash.finish() == Some(whole.expected) {
            true => Ok(()),
            false => Err(self.sealed_again()),
        }
    }

    fn recipe(&self) -> Option<&Recipe> {
        self.recipe.as_deref()
    }

    fn plain_length(&self) -> Option<u64> {
        Some(self.content.size)
    }
}

const READ_AT_ONCE: u64 = 1 << 20;

/// The length of a chunk's tag, in bytes.
const TAG: u64 = 16;

/// Where a header has its commitment.
pub(super) const COMMITMENT_AT: u64 = 24;
