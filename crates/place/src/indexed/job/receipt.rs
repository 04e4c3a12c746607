//! Receipts of shards.

use evener_format::index::{AttemptId, Commitment, EntryPath, JobFile, Reference, StorageName};
use serde::{Deserialize, Serialize};

use super::super::depot::{Created, refused};
use super::super::state::hexadecimal;
use super::manifest::{Job, Shard, from_hexadecimal, receipt_path};
use crate::FileError;

/// The result of an attempt at a shard, whose files make up a part of the generation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) entries: u64,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    /// Objects that an earlier attempt had made.
    pub(super) already: u64,
    /// The paths, in hexadecimal, of objects that had changed since the plan. They are in the shard
    /// as they were then.
    pub(super) changed: Vec<String>,
    /// The paths, in hexadecimal, of objects that were gone. They have no entries.
    pub(super) gone: Vec<String>,
    /// The blocks of the index.
    pub(super) blocks: Vec<BlockOf>,
    /// The wrapped key of the attempt, if it has one of its own, in hexadecimal.
    pub(super) wrapped: Option<String>,
    pub(super) seconds: f64,
    /// The files in the tree's `data/`, blocks among them, which follow in a form of their own.
    #[serde(skip)]
    pub(super) files: Vec<Made>,
}

/// A reference to a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BlockOf {
    pub(super) first: String,
    pub(super) name: String,
    pub(super) length: u64,
    pub(super) digest: String,
    pub(super) key: String,
}

/// A file in `data/` that belongs to a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::indexed) struct Made {
    pub(in crate::indexed) name: StorageName,
    pub(in crate::indexed) length: u64,
    /// Its version, where the place tells it.
    pub(in crate::indexed) version: Option<String>,
}

impl BlockOf {
    pub(super) fn of(reference: &Reference) -> BlockOf {
        BlockOf {
            first: hexadecimal(&reference.first.whole()),
            name: hexadecimal(reference.name.bytes()),
            length: reference.length,
            digest: hexadecimal(&reference.digest),
            key: reference.key.to_string(),
        }
    }

    pub(super) fn reference(&self, generation: u64) -> Option<Reference> {
        fn fixed<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
            from_hexadecimal(text)?.try_into().ok()
        }
        Some(Reference {
            first: EntryPath::of(&from_hexadecimal(&self.first)?),
            name: StorageName::new(fixed(&self.name)?),
            length: self.length,
            digest: fixed(&self.digest)?,
            key: Commitment(fixed(&self.key)?),
            generation,
        })
    }
}

impl Job<'_> {
    /// Writes the receipt of an attempt. [`Created::Taken`] if another attempt was first.
    pub(super) fn write_receipt(
        &self,
        shard: &Shard,
        attempt: AttemptId,
        receipt: &Receipt,
    ) -> Result<Created, FileError> {
        let plain = receipt.bytes()?;
        let file = JobFile::Receipt(shard.place, attempt);
        let sealed = self.depot.seal(self.keys.recipe(file, &self.digest)?, &plain)?;
        self.depot.create(&receipt_path(shard.place), &[&attempt.0, &sealed[..]].concat())
    }

    /// The receipt of a shard; `None` if there is none.
    pub(super) fn receipt(&self, shard: &Shard) -> Result<Option<Receipt>, FileError> {
        let path = receipt_path(shard.place);
        let most = MOST_RECEIPT + MOST_ROW * shard.entries;
        let Some(bytes) = self.depot.read(&path, most)? else { return Ok(None) };
        let of_path = |error: FileError| refused(format!("`{path}`: {error}"));
        let Some((attempt, sealed)) = bytes.split_first_chunk() else {
            return Err(refused(format!("`{path}` is no receipt")));
        };
        let file = JobFile::Receipt(shard.place, AttemptId(*attempt));
        let plain = self.depot.open(self.keys.recipe(file, &self.digest)?, sealed);
        Receipt::parse(&plain.map_err(of_path)?).map(Some).map_err(of_path)
    }
}

impl Receipt {
    /// The length of the JSON (32 bits), the JSON, and for each file its name, its length (64 bits),
    /// the length of its version (8 bits) and the version. Numbers are little endian.
    fn bytes(&self) -> Result<Vec<u8>, FileError> {
        let json = serde_json::to_vec(self).map_err(|error| refused(error.to_string()))?;
        let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
        bytes.extend(json);
        for made in &self.files {
            // A version that is too long is not compared.
            let version = made.version.as_deref().filter(|it| it.len() <= 255).unwrap_or_default();
            bytes.extend(made.name.bytes());
            bytes.extend(made.length.to_le_bytes());
            bytes.push(version.len() as u8);
            bytes.extend(version.as_bytes());
        }
        Ok(bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Receipt, FileError> {
        Receipt::read(bytes).ok_or_else(|| refused("it is malformed"))
    }

    fn read(mut bytes: &[u8]) -> Option<Receipt> {
        let mut take = |length: usize| {
            let (taken, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            Some(taken)
        };
        let length = u32::from_le_bytes(take(4)?.try_into().ok()?);
        let mut receipt: Receipt = serde_json::from_slice(take(length as usize)?).ok()?;
        while let Some(name) = take(StorageName::LENGTH) {
            let name = StorageName::new(name.try_into().ok()?);
            let length = u64::from_le_bytes(take(8)?.try_into().ok()?);
            let version = take(1)?[0];
            let version = std::str::from_utf8(take(version.into())?).ok()?.to_owned();
            let version = Some(version).filter(|version| !version.is_empty());
            receipt.files.push(Made { name, length, version });
        }
        bytes.is_empty().then_some(receipt)
    }
}

/// The most bytes of a receipt, besides those for each of its entries.
const MOST_RECEIPT: u64 = 8 << 20;
const MOST_ROW: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_are_read_as_they_were_written() {
        let made = |number: u8, version: Option<&str>| Made {
            name: StorageName::new([number; StorageName::LENGTH]),
            length: u64::MAX - u64::from(number),
            version: version.map(str::to_owned),
        };
        let receipt = Receipt {
            entries: 3,
            objects: 2,
            bytes: 1,
            already: 0,
            changed: vec!["ff".to_owned()],
            gone: Vec::new(),
            blocks: Vec::new(),
            wrapped: None,
            seconds: 0.5,
            files: vec![made(1, Some("\"etag\"")), made(2, None)],
        };
        let bytes = receipt.bytes().unwrap();
        assert_eq!(Receipt::parse(&bytes).unwrap(), receipt);
        let without = Receipt { files: Vec::new(), ..receipt }.bytes().unwrap();
        for length in 0..bytes.len() {
            let is_whole = length == without.len() || length == bytes.len() - 26;
            assert_eq!(Receipt::parse(&bytes[..length]).is_ok(), is_whole, "{length}");
        }
    }
}
