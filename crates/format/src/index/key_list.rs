//! The lists of keys in the files of an index.

use std::collections::HashMap;

use super::cbor::{Reader, Writer};
use super::{Commitment, IndexError, Padding};

/// The keys that a file of the index lists, in the order of their first use, each once.
#[derive(Debug, Default)]
pub(super) struct KeyList {
    keys: Vec<Commitment>,
    numbers: HashMap<Commitment, u64>,
}

impl KeyList {
    /// The number of a key, which is added if it is new.
    pub(super) fn number(&mut self, key: Commitment) -> u64 {
        *self.numbers.entry(key).or_insert_with(|| {
            self.keys.push(key);
            self.keys.len() as u64 - 1
        })
    }

    pub(super) fn get(&self, number: u64) -> Result<Commitment, IndexError> {
        let found = usize::try_from(number).ok().and_then(|number| self.keys.get(number));
        found.copied().ok_or(IndexError::Malformed("a key is not in its list"))
    }

    /// Removes all keys but the first.
    pub(super) fn truncate(&mut self, length: usize) {
        for key in self.keys.drain(length.min(self.keys.len())..) {
            self.numbers.remove(&key);
        }
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) {
        writer.array(self.keys.len());
        self.keys.iter().for_each(|key| writer.bytes(&key.0));
    }

    /// The plaintext of a block or node: the list, the items, and null, padded.
    pub(super) fn sequence(&self, items: &[u8], padding: Option<Padding>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes() + items.len() + 1);
        self.write(&mut Writer::new(&mut bytes));
        bytes.extend(items);
        Writer::new(&mut bytes).null();
        Padding::pad(padding, &mut bytes);
        bytes
    }

    pub(super) fn read(reader: &mut Reader<'_>, most: usize) -> Result<KeyList, IndexError> {
        let mut list = KeyList::default();
        for number in 0..reader.array(0, most)? as u64 {
            if list.number(Commitment(reader.fixed()?)) != number {
                return Err(IndexError::Malformed("a key is in its list twice"));
            }
        }
        Ok(list)
    }

    /// The most bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        9 + 34 * self.keys.len()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn into_keys(self) -> Vec<Commitment> {
        self.keys
    }
}
