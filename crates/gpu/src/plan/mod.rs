//! Lays a batch out in an arena, in parts that fit.
//!
//! ```text
//! input:   messages' table | keys | additional data | packed texts   | straight texts
//! output:  verdicts        |                        | packed results | straight results
//! ```
//!
//! The arena has the layout of the input without the straight texts, and later that of the output
//! without the straight results. Straight texts and results are copied between lent memory and the
//! device (`straight.rs`).
//!
//! All start at multiples of 16 bytes. A tag follows its text directly. Nothing here calls a
//! device: the numbers alone decide what kernels read and write.

mod shape;
#[cfg(test)]
mod tests;

use std::ops::Range;

use evener_core::Iv;

use super::kernels::{BLOCK, MESSAGE, MESSAGE_SCRATCH, STRIPE, STRIPE_SCRATCH, VERDICT, folds};
pub(super) use shape::Shape;

/// The limits of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Bytes of the arena.
    pub(super) host: usize,
    /// Bytes of the input and of the output.
    pub(super) arena: usize,
    /// Number of keys, without the session's.
    pub(super) keys: usize,
    /// Bytes of device memory for hashing.
    pub(super) scratch: usize,
}

/// A message, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The job's number in the batch.
    pub(super) job: usize,
    /// Bytes of text, without the tag.
    pub(super) length: usize,
    /// Bytes of additional data.
    pub(super) aad: usize,
    /// The key's slot: 0 for the session's.
    pub(super) key: u32,
    pub(super) iv: Iv,
    up: Spot,
    down: Spot,
    /// Offset of the additional data from its region's start, in bytes.
    aad_at: usize,
}

/// The place of a text or a result, in bytes from the start of the packed or the straight ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    Packed(usize),
    Straight(usize),
}

/// The way of a message's text and of its result: through the arena, or straight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) is_straight_up: bool,
    pub(super) is_straight_down: bool,
}

impl Way {
    /// Both are packed.
    pub(super) const PACKED: Way = Way { is_straight_up: false, is_straight_down: false };
}

/// Bytes of the texts, or of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Side {
    packed: usize,
    straight: usize,
}

impl Side {
    /// Adds this many bytes, and returns their place.
    fn add(&mut self, is_straight: bool, packed: usize, straight: usize) -> Option<Spot> {
        let (sum, bytes) = match is_straight {
            true => (&mut self.straight, straight),
            false => (&mut self.packed, packed),
        };
        let at = *sum;
        *sum = at.checked_add(bytes)?.checked_next_multiple_of(BLOCK)?;
        Some(if is_straight { Spot::Straight(at) } else { Spot::Packed(at) })
    }

    fn end(self) -> Option<usize> {
        self.packed.checked_add(self.straight)
    }

    fn at(self, spot: Spot) -> usize {
        match spot {
            Spot::Packed(at) => at,
            Spot::Straight(at) => self.packed + at,
        }
    }
}

/// One part of a batch. The next part reuses its lists.
pub(super) struct Plan {
    shape: Shape,
    limits: Limits,
    items: Vec<Item>,
    keys: usize,
    aad: usize,
    up: Side,
    down: Side,
    units: u64,
    slices: u64,
    stripes: u64,
    most_stripes: u64,
}

impl Plan {
    pub(super) fn new(shape: Shape, limits: Limits) -> Plan {
        let items = Vec::with_capacity(64);
        Plan {
            shape,
            limits,
            items,
            keys: 0,
            aad: 0,
            up: Side::default(),
            down: Side::default(),
            units: 0,
            slices: 0,
            stripes: 0,
            most_stripes: 0,
        }
    }

    /// Removes all messages, and sets the limits of the next part.
    pub(super) fn clear(&mut self, limits: Limits) {
        self.limits = limits;
        self.items.clear();
        (self.keys, self.aad) = (0, 0);
        (self.up, self.down) = (Side::default(), Side::default());
        (self.units, self.slices, self.stripes, self.most_stripes) = (0, 0, 0, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The messages; after [`Plan::order`] in the table's order.
    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Adds a message, if it fits. Its key is the session's, the last message's, or another one.
    pub(super) fn add(
        &mut self,
        job: usize,
        length: usize,
        aad: usize,
        iv: Iv,
        key: KeyChoice,
        way: Way,
    ) -> bool {
        // Lengths below this keep all sums far from overflow.
        if length > self.limits.arena || aad > self.limits.arena {
            return false;
        }
        let keys = self.keys + usize::from(key == KeyChoice::New);
        let (shape, stripes) = (self.shape, self.shape.stripes(length, aad));
        let room = || {
            let packed = length.checked_add(shape.tag)?;
            let (mut up, mut down) = (self.up, self.down);
            let up_at = up.add(way.is_straight_up, packed, shape.up(length)?)?;
            let down_at = down.add(way.is_straight_down, packed, shape.down(length)?)?;
            let aad = self.aad.checked_add(aad)?.checked_next_multiple_of(BLOCK)?;
            let messages = self.items.len() + 1;
            let texts = up.end()?.max(down.end()?);
            let first = starts(shape, messages, keys, aad).texts;
            let packed = first.checked_add(up.packed.max(down.packed))?;
            let end = first.checked_add(texts)?;
            let scratch = scratch(messages, self.stripes + stripes)?;
            let fits = packed <= self.limits.host
                && end <= self.limits.arena
                && keys <= self.limits.keys
                && scratch <= self.limits.scratch;
            fits.then_some(((up, up_at), (down, down_at), aad))
        };
        let Some(((all_up, up), (all_down, down), aad_end)) = room() else { return false };
        let slot = if key == KeyChoice::Session { 0 } else { keys as u32 };
        let aad_at = self.aad;
        self.items.push(Item { job, length, aad, key: slot, iv, up, down, aad_at });
        (self.keys, self.aad) = (keys, aad_end);
        (self.up, self.down) = (all_up, all_down);
        self.units += self.shape.units(length);
        self.slices += length.div_ceil(SLICE) as u64;
        self.stripes += stripes;
        self.most_stripes = self.most_stripes.max(stripes);
        true
    }

    /// Puts the messages into the table's order: if a thread processes a whole message, the longest
    /// first, so that neighbouring threads end together.
    pub(super) fn order(&mut self) {
        if self.shape.unit.is_none() {
            self.items.sort_unstable_by_key(|item| (usize::MAX - item.length, item.job));
        }
    }

    fn starts(&self) -> Starts {
        starts(self.shape, self.items.len(), self.keys, self.aad)
    }

    /// Bytes of the arena that go to the device.
    pub(super) fn used(&self) -> usize {
        self.starts().texts + self.up.packed
    }

    /// Bytes of the input that are used.
    pub(super) fn input_end(&self) -> usize {
        self.starts().texts + self.up.packed + self.up.straight
    }

    /// Bytes of the output that are used.
    pub(super) fn output_end(&self) -> usize {
        self.starts().texts + self.down.packed + self.down.straight
    }

    /// Bytes of device memory for hashing.
    pub(super) fn scratch(&self) -> usize {
        scratch(self.items.len(), self.stripes).unwrap_or(self.limits.scratch)
    }

    /// The bytes of the arena that come from the device: all packed results with their tags.
    pub(super) fn texts(&self) -> Range<usize> {
        let start = self.starts().texts;
        start..start + self.down.packed
    }

    /// The bytes of the arena for the messages' verdicts from the device.
    pub(super) fn verdicts(&self) -> Range<usize> {
        0..self.items.len() * VERDICT
    }

    /// The number of new keys, and their place in the arena.
    pub(super) fn keys(&self) -> (usize, usize) {
        (self.keys, self.starts().keys)
    }

    /// The place of a slot's key in the arena.
    pub(super) fn key_at(&self, slot: u32) -> Option<Range<usize>> {
        let start = self.starts().keys + (slot as usize).checked_sub(1)? * self.shape.key;
        Some(start..start + self.shape.key)
    }

    /// The place of a message's text, with the tag after it, in the input, and in the arena if it
    /// is packed.
    pub(super) fn text_at(&self, item: &Item) -> Range<usize> {
        let start = self.starts().texts + self.up.at(item.up);
        start..start + item.length + self.shape.tag
    }

    /// The place of its result, with the tag after it, in the output, and in the arena if it is
    /// packed.
    pub(super) fn result_at(&self, item: &Item) -> Range<usize> {
        let start = self.starts().texts + self.down.at(item.down);
        start..start + item.length + self.shape.tag
    }

    /// The way of a message.
    pub(super) fn way(&self, item: &Item) -> Way {
        Way {
            is_straight_up: matches!(item.up, Spot::Straight(_)),
            is_straight_down: matches!(item.down, Spot::Straight(_)),
        }
    }

    /// The place of a message's additional data in the arena.
    pub(super) fn aad_at(&self, item: &Item) -> Range<usize> {
        let start = self.starts().aad + item.aad_at;
        start..start + item.aad
    }

    /// Units of work of all messages: slices, if the part is sliced.
    pub(super) fn units(&self) -> u64 {
        if self.is_sliced() { self.slices } else { self.units }
    }

    /// Returns whether a thread processes a [`SLICE`]: if there are enough slices, and they are
    /// mostly text.
    pub(super) fn is_sliced(&self) -> bool {
        self.shape.slices
            && self.units >= LEAST_SLICED
            && self.slices * SLICED_BLOCKS <= 2 * self.units
    }

    pub(super) fn stripes(&self) -> u64 {
        self.stripes
    }

    /// The passes that fold the messages' stripes, as [`folds`] describes.
    pub(super) fn folds(&self) -> impl Iterator<Item = (u32, u64)> + use<> {
        folds(self.items.len() as u64, self.stripes, self.most_stripes)
    }

    /// Writes the messages' table, the first part of the arena.
    pub(super) fn write_table(&self, arena: &mut [u8]) {
        let starts = self.starts();
        let (mut units, mut stripes) = (0, 0);
        for (item, entry) in self.items.iter().zip(arena.chunks_exact_mut(MESSAGE)) {
            let text = (starts.texts + self.up.at(item.up)) as u64;
            let result = (starts.texts + self.down.at(item.down)) as u64;
            let aad = (starts.aad + item.aad_at) as u64;
            let length = item.length as u64;
            let numbers = [text, result, length, units, aad, item.aad as u64, stripes, 0];
            let (words, rest) = entry.split_at_mut(numbers.len() * 8);
            for (word, number) in words.chunks_exact_mut(8).zip(numbers) {
                word.copy_from_slice(&number.to_le_bytes());
            }
            rest.fill(0);
            let iv = item.iv.bytes();
            rest[..iv.len()].copy_from_slice(iv);
            rest[Iv::MAX_LENGTH..][..4].copy_from_slice(&item.key.to_le_bytes());
            units += match self.is_sliced() {
                true => item.length.div_ceil(SLICE) as u64,
                false => self.shape.units(item.length),
            };
            stripes += self.shape.stripes(item.length, item.aad);
        }
    }
}

/// The choice of a message's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyChoice {
    Session,
    /// The key of the last message added with a key of its own.
    Same,
    New,
}

/// The starts of the arena's regions.
struct Starts {
    keys: usize,
    aad: usize,
    texts: usize,
}

fn starts(shape: Shape, messages: usize, keys: usize, aad: usize) -> Starts {
    let first_key = messages * MESSAGE;
    let first_aad = (first_key + keys * shape.key).next_multiple_of(BLOCK);
    Starts { keys: first_key, aad: first_aad, texts: first_aad + aad }
}

/// Bytes of device memory for hashing: first for messages, then for stripes.
fn scratch(messages: usize, stripes: u64) -> Option<usize> {
    let stripes = usize::try_from(stripes).ok()?.checked_mul(STRIPE_SCRATCH)?;
    messages.checked_mul(MESSAGE_SCRATCH)?.checked_add(stripes)
}

/// The most scratch that an arena of this size needs for one message that fills it.
pub(super) fn scratch_of(arena: usize) -> usize {
    arena / (BLOCK * STRIPE) * STRIPE_SCRATCH + arena / MESSAGE * MESSAGE_SCRATCH + 4_096
}

/// Bytes of a message that a thread processes at once if blocks are bitsliced, and their blocks
/// (`kernels/des_sliced.cl`).
const SLICE: usize = 256;
const SLICED_BLOCKS: u64 = 32;
/// The fewest blocks of a part that is sliced: with fewer, too few threads would work.
const LEAST_SLICED: u64 = 1 << 17;
