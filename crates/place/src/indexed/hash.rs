//! BLAKE3 of a file whose parts are written in any order.

use std::collections::BTreeMap;

use blake3::Hasher;
use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

/// The hash of a file so far. Whole subtrees of BLAKE3 are hashed as soon as their bytes are there.
/// Bytes that fill no unit of 16 chunks (16 KiB), so fewer than that at each end of a part, wait for
/// their neighbours: a processor hashes so many chunks at once.
pub(super) struct TreeHash {
    /// The length of the file in bytes.
    length: u64,
    /// The hash of a file that came in one part.
    whole: Option<[u8; 32]>,
    /// Subtrees by their first chunk, with the number of their chunks.
    subtrees: BTreeMap<u64, (u64, ChainingValue)>,
    /// Bytes that wait, by their offset.
    loose: BTreeMap<u64, Vec<u8>>,
}

impl TreeHash {
    /// The hash of a file of so many bytes.
    pub(super) fn new(length: u64) -> TreeHash {
        TreeHash { length, whole: None, subtrees: BTreeMap::new(), loose: BTreeMap::new() }
    }

    /// Takes a part. No byte comes twice.
    pub(super) fn take(&mut self, part: Part) {
        self.whole = part.whole.or(self.whole);
        part.subtrees.into_iter().for_each(|(chunk, chunks, it)| self.insert(chunk, chunks, it));
        part.loose.into_iter().for_each(|(offset, bytes)| self.wait(bytes, offset));
    }

    /// The hash; `None` if bytes are missing.
    pub(super) fn finish(mut self) -> Option<[u8; 32]> {
        if self.whole.is_some() {
            return self.whole;
        }
        if self.length <= UNIT {
            let bytes: Vec<u8> = std::mem::take(&mut self.loose).into_values().flatten().collect();
            let is_all = bytes.len() as u64 == self.length;
            return is_all.then(|| *blake3::hash(&bytes).as_bytes());
        }
        let begun = self.length - self.length % UNIT;
        let rest = self.loose.range(begun..).flat_map(|(_, bytes)| bytes);
        let rest: Vec<u8> = rest.copied().collect();
        if rest.len() as u64 != self.length % UNIT {
            return None;
        }
        for (chunk, bytes) in (begun / CHUNK..).zip(rest.chunks(CHUNK as usize)) {
            self.insert(chunk, 1, value(bytes, chunk));
        }
        let chunks = self.length.div_ceil(CHUNK);
        let left = left_of(chunks);
        let (left, right) = (self.combined(0, left)?, self.combined(left, chunks - left)?);
        Some(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
    }

    /// Keeps bytes of one unit, until all of it are there.
    fn wait(&mut self, bytes: Vec<u8>, offset: u64) {
        self.loose.insert(offset, bytes);
        let start = offset - offset % UNIT;
        let range = start..start + UNIT;
        let there: usize = self.loose.range(range.clone()).map(|(_, bytes)| bytes.len()).sum();
        if there as u64 == UNIT && self.length > UNIT {
            let parts: Vec<u64> = self.loose.range(range).map(|(offset, _)| *offset).collect();
            let parts = parts.iter().filter_map(|offset| self.loose.remove(offset));
            let bytes = parts.collect::<Vec<_>>().concat();
            self.insert(start / CHUNK, UNIT / CHUNK, value(&bytes, start / CHUNK));
        }
    }

    /// Adds a subtree, and merges it with its neighbours.
    fn insert(&mut self, mut chunk: u64, mut chunks: u64, mut value: ChainingValue) {
        // One that begins the file is never merged, since its parent may be the root.
        loop {
            let is_right = chunk & chunks != 0;
            let other = if is_right { chunk - chunks } else { chunk + chunks };
            let first = chunk.min(other);
            let (true, Some((length, neighbour))) = (first > 0, self.subtrees.get(&other).copied())
            else {
                break;
            };
            if length != chunks {
                break;
            }
            self.subtrees.remove(&other);
            value = match is_right {
                true => merge_subtrees_non_root(&neighbour, &value, Mode::Hash),
                false => merge_subtrees_non_root(&value, &neighbour, Mode::Hash),
            };
            (chunk, chunks) = (first, 2 * chunks);
        }
        self.subtrees.insert(chunk, (chunks, value));
    }

    /// The value of a subtree.
    fn combined(&self, chunk: u64, chunks: u64) -> Option<ChainingValue> {
        match self.subtrees.get(&chunk) {
            Some((length, value)) if *length == chunks => return Some(*value),
            _ if chunks < 2 => return None,
            _ => {}
        }
        let left = left_of(chunks);
        let (one, other) =
            (self.combined(chunk, left)?, self.combined(chunk + left, chunks - left)?);
        Some(merge_subtrees_non_root(&one, &other, Mode::Hash))
    }
}

/// A part of a file, hashed as far as it can be alone. Workers do that side by side.
#[derive(Default)]
pub(super) struct Part {
    /// The hash of a file that came in one part.
    whole: Option<[u8; 32]>,
    /// Subtrees as large as possible: the first chunk of each, and the number of its chunks.
    subtrees: Vec<(u64, u64, ChainingValue)>,
    /// Bytes at its ends, by their offsets.
    loose: Vec<(u64, Vec<u8>)>,
}

impl Part {
    /// The part that belongs at an offset of a file of `length` bytes.
    pub(super) fn of(bytes: &[u8], offset: u64, length: u64) -> Part {
        let mut part = Part::default();
        if bytes.len() as u64 == length {
            part.whole = Some(*blake3::hash(bytes).as_bytes());
            return part;
        }
        let end = offset + bytes.len() as u64;
        let from = offset.next_multiple_of(UNIT).min(end);
        let to = (end - end % UNIT).max(from);
        let (before, rest) = bytes.split_at((from - offset) as usize);
        let (middle, after) = rest.split_at((to - from) as usize);
        part.wait(before, offset);
        part.hash(middle, from / CHUNK);
        part.wait(after, to);
        part
    }

    fn wait(&mut self, bytes: &[u8], offset: u64) {
        if !bytes.is_empty() {
            self.loose.push((offset, bytes.to_vec()));
        }
    }

    /// Hashes whole units.
    fn hash(&mut self, mut bytes: &[u8], mut chunk: u64) {
        while !bytes.is_empty() {
            let left = bytes.len() as u64 / CHUNK;
            let chunks = largest_at(chunk).min(1 << left.ilog2());
            let (now, later) = bytes.split_at((chunks * CHUNK) as usize);
            self.subtrees.push((chunk, chunks, value(now, chunk)));
            (bytes, chunk) = (later, chunk + chunks);
        }
    }
}

/// The number of chunks in the left half of a tree of so many, at least 2.
fn left_of(chunks: u64) -> u64 {
    1 << (chunks - 1).ilog2()
}

/// The number of chunks of the largest subtree that begins at a unit, and need not be the root.
fn largest_at(chunk: u64) -> u64 {
    match chunk {
        0 => UNIT / CHUNK,
        chunk => 1 << chunk.trailing_zeros(),
    }
}

fn value(bytes: &[u8], chunk: u64) -> ChainingValue {
    Hasher::new().set_input_offset(chunk * CHUNK).update(bytes).finalize_non_root()
}

const CHUNK: u64 = blake3::CHUNK_LEN as u64;
/// As many bytes as processors hash at once.
const UNIT: u64 = 16 * CHUNK;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_in_any_order_have_the_hash_of_the_whole(
            length in prop_oneof![0_usize..40_000, 0_usize..300_000],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            order in any::<u64>(),
        ) {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 7 % 251) as u8).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(length + 1)).collect();
            cuts.extend([0, length]);
            cuts.sort_unstable();
            let mut parts: Vec<_> = cuts.windows(2).map(|cut| (cut[0], &bytes[cut[0]..cut[1]])).collect();
            parts.sort_by_key(|(at, _)| (*at as u64 ^ order).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut hash = TreeHash::new(length as u64);
            parts.iter().for_each(|(at, part)| {
                hash.take(Part::of(part, *at as u64, length as u64));
            });
            prop_assert_eq!(hash.finish(), Some(*blake3::hash(&bytes).as_bytes()));
        }
    }

    #[test]
    fn a_missing_part_is_noticed() {
        for length in [9000, 90_000] {
            let bytes = vec![7; length];
            let mut hash = TreeHash::new(length as u64);
            hash.take(Part::of(&bytes[..4000], 0, length as u64));
            hash.take(Part::of(&bytes[4001..], 4001, length as u64));
            assert_eq!(hash.finish(), None);
        }
    }
}
