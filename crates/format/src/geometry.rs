//! Chunk arithmetic: maps the plaintext's bytes to the file.
//!
//! All arithmetic is checked 64-bit arithmetic that never panics, whatever the numbers. A
//! [`Layout`] serves files of known length; the [`Geometry`]'s own functions serve pipes.

use std::ops::Range;

use super::FormatError;

/// The division of a recipe's files into chunks. All lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Length of the header before the first chunk.
    pub header: u64,
    /// Plaintext in chunk 0, when full.
    pub first: u64,
    /// Plaintext in every further chunk, when full.
    pub chunk: u64,
    /// The length of a chunk's tag.
    pub overhead: u64,
    /// The rule for the last chunk.
    pub ending: Ending,
    /// The maximum number of chunks in a file.
    pub most_chunks: u64,
}

/// The rule for the last chunk; all other chunks are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Always shorter than a full chunk, and may be empty (Cobblestone). A chunk that is not full
    /// is therefore the last.
    Shorter,
    /// May be full, and is empty only in an empty file (Tink). Only the end of the input shows that
    /// a full chunk is the last.
    MayBeFull,
    /// PKCS #7: the plaintext is shorter than a full chunk; the ciphertext is padded to whole
    /// blocks and may be as long as a full chunk. Full chunks must be whole blocks.
    Padded {
        /// The cipher's block length, in bytes.
        block: u64,
    },
    /// May be full, and is empty only in an empty file, like `MayBeFull`; nothing is added
    /// anywhere, so the file may end after any byte (CTR).
    Exact,
}

/// One chunk of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The chunk's number, from 0.
    pub index: u64,
    /// The plaintext's bytes in the chunk. [`Layout::plain_length`] says when the end is an upper
    /// bound.
    pub plain: Range<u64>,
    /// The range of its ciphertext and tag, as offsets from the start of the file.
    pub sealed: Range<u64>,
    /// True if the chunk is the last.
    pub last: bool,
}

impl Geometry {
    /// The plaintext length of a full chunk, in bytes.
    pub fn full_plain_length(&self, index: u64) -> u64 {
        if index == 0 { self.first } else { self.chunk }
    }

    /// The length in the file of a full chunk, in bytes.
    pub fn full_sealed_length(&self, index: u64) -> u64 {
        self.full_plain_length(index).saturating_add(self.overhead)
    }

    /// The longest chunk in a file, in bytes.
    pub fn longest_chunk(&self) -> u64 {
        self.full_sealed_length(0).max(self.full_sealed_length(1))
    }

    /// A full chunk that is not the last one.
    ///
    /// # Errors
    /// [`FormatError::TooLong`] when the format allows no chunk after it.
    pub fn full_chunk(&self, index: u64) -> Result<Chunk, FormatError> {
        if self.most_chunks.saturating_sub(index) < 2 {
            return Err(FormatError::TooLong);
        }
        let plain = self.full_plain_length(index);
        self.place(index, plain, plain.checked_add(self.overhead), false)
    }

    /// The last chunk, when `length` bytes of plaintext are left for it.
    ///
    /// # Errors
    /// [`FormatError::TooLong`] when they are too many for this chunk or this format, and
    /// [`FormatError::Truncated`] when there are none and the format allows no empty last chunk.
    pub fn last_chunk_of_plaintext(&self, index: u64, length: u64) -> Result<Chunk, FormatError> {
        let full = self.full_plain_length(index);
        let sealed = length.checked_add(self.overhead);
        match self.ending {
            _ if length > full || index >= self.most_chunks => Err(FormatError::TooLong),
            Ending::MayBeFull | Ending::Exact if length == 0 && index > 0 => {
                Err(FormatError::Truncated)
            }
            Ending::MayBeFull | Ending::Exact => self.place(index, length, sealed, true),
            Ending::Shorter | Ending::Padded { .. } if length == full => Err(FormatError::TooLong),
            Ending::Shorter => self.place(index, length, sealed, true),
            Ending::Padded { block } => {
                let padding = length.checked_rem(block).map(|tail| block - tail);
                let sealed = sealed.zip(padding).and_then(|(sum, pad)| sum.checked_add(pad));
                self.place(index, length, sealed, true)
            }
        }
    }

    /// The last chunk, when `length` bytes of the file are left for it. With
    /// [`Ending::Padded`] its plaintext range is as long as the plaintext can be.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when they are too few or not whole blocks, and
    /// [`FormatError::TooLong`] when they are too many for this chunk or this format.
    pub fn last_chunk_of_sealed(&self, index: u64, length: u64) -> Result<Chunk, FormatError> {
        let sealed = length.checked_sub(self.overhead).ok_or(FormatError::Truncated)?;
        let plain = match self.ending {
            Ending::Shorter | Ending::MayBeFull | Ending::Exact => sealed,
            // Padding is never empty.
            Ending::Padded { block } if sealed.checked_rem(block) == Some(0) => {
                sealed.checked_sub(1).ok_or(FormatError::Truncated)?
            }
            Ending::Padded { .. } => return Err(FormatError::Truncated),
        };
        self.last_chunk_of_plaintext(index, plain)
    }

    fn place(
        &self,
        index: u64,
        plain: u64,
        sealed: Option<u64>,
        last: bool,
    ) -> Result<Chunk, FormatError> {
        let span = |start: Option<u64>, length: Option<u64>| {
            let start = start?;
            Some(start..start.checked_add(length?)?)
        };
        let full_sealed = |length: u64| length.checked_add(self.overhead);
        let plain_start = start(index, 0, Some(self.first), Some(self.chunk));
        let sealed_start =
            start(index, self.header, full_sealed(self.first), full_sealed(self.chunk));
        let (Some(plain), Some(sealed)) =
            (span(plain_start, Some(plain)), span(sealed_start, sealed))
        else {
            return Err(FormatError::TooLong);
        };
        Ok(Chunk { index, plain, sealed, last })
    }
}

/// The start of chunk `index`, when the first starts at `origin`; `None` past 64 bits.
fn start(index: u64, origin: u64, first: Option<u64>, chunk: Option<u64>) -> Option<u64> {
    match index.checked_sub(1) {
        None => Some(origin),
        Some(between) => origin.checked_add(first?)?.checked_add(between.checked_mul(chunk?)?),
    }
}

/// The layout of one file of known length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    geometry: Geometry,
    last: Chunk,
}

impl Layout {
    /// The layout of the file made from `plain_length` bytes of plaintext.
    ///
    /// # Errors
    /// [`FormatError::TooLong`] when the format can't hold this length.
    pub fn for_plaintext(geometry: &Geometry, plain_length: u64) -> Result<Layout, FormatError> {
        let Geometry { first, chunk, .. } = *geometry;
        let index = geometry.last_index(plain_length, first, chunk).ok_or(FormatError::TooLong)?;
        let start = start(index, 0, Some(first), Some(chunk)).ok_or(FormatError::TooLong)?;
        let last = geometry.last_chunk_of_plaintext(index, plain_length - start)?;
        Ok(Layout { geometry: *geometry, last })
    }

    /// The layout of a file that is `sealed_length` bytes long, including its header.
    ///
    /// A file truncated at the end of a chunk can have a valid length; its last chunk then fails
    /// authentication.
    ///
    /// # Errors
    /// [`FormatError::Truncated`] when no file of this format has this length, and
    /// [`FormatError::TooLong`] when the format allows no file of this length.
    pub fn for_sealed(geometry: &Geometry, sealed_length: u64) -> Result<Layout, FormatError> {
        let body = sealed_length.checked_sub(geometry.header).ok_or(FormatError::Truncated)?;
        let first = geometry.first.checked_add(geometry.overhead);
        let chunk = geometry.chunk.checked_add(geometry.overhead);
        let (first, chunk) = first.zip(chunk).ok_or(FormatError::TooLong)?;
        let index = match geometry.ending {
            // The last chunk's ciphertext may be as long as a full one's.
            Ending::Padded { .. } => last_index_when_full(body, first, chunk),
            _ => geometry.last_index(body, first, chunk),
        }
        .ok_or(FormatError::TooLong)?;
        let start = start(index, 0, Some(first), Some(chunk)).ok_or(FormatError::TooLong)?;
        let last = geometry.last_chunk_of_sealed(index, body - start)?;
        Ok(Layout { geometry: *geometry, last })
    }

    /// The number of chunks in the file, at least one.
    pub fn chunks(&self) -> u64 {
        self.last.index + 1
    }

    /// The plaintext's length in bytes. With [`Ending::Padded`] and a layout made from the file's
    /// length, it is the maximum length of the plaintext, one byte less than its padded length;
    /// only decrypting the last chunk reveals the actual length.
    pub fn plain_length(&self) -> u64 {
        self.last.plain.end
    }

    /// The file's length in bytes.
    pub fn sealed_length(&self) -> u64 {
        self.last.sealed.end
    }

    /// A chunk by its number, which is less than [`Layout::chunks`]. (Any number past that returns
    /// the last chunk, so no number can address bytes outside the file.)
    pub fn chunk(&self, index: u64) -> Chunk {
        if index >= self.last.index {
            return self.last.clone();
        }
        self.geometry.full_chunk(index).unwrap_or_else(|_| self.last.clone())
    }

    /// The number of the chunk that holds the plaintext byte at `plain_offset`; `None` past the
    /// end.
    pub fn chunk_at(&self, plain_offset: u64) -> Option<u64> {
        if plain_offset >= self.plain_length() {
            return None;
        }
        last_index_when_shorter(plain_offset, self.geometry.first, self.geometry.chunk)
    }
}

impl Geometry {
    /// The number of the last chunk of `length` bytes in chunks of `first` and then `chunk`.
    fn last_index(&self, length: u64, first: u64, chunk: u64) -> Option<u64> {
        match self.ending {
            Ending::Shorter | Ending::Padded { .. } => {
                last_index_when_shorter(length, first, chunk)
            }
            Ending::MayBeFull | Ending::Exact => last_index_when_full(length, first, chunk),
        }
    }
}

/// `None` when more chunks are needed but can hold nothing.
fn last_index_when_shorter(length: u64, first: u64, chunk: u64) -> Option<u64> {
    match length.checked_sub(first) {
        None => Some(0),
        Some(rest) => rest.checked_div(chunk)?.checked_add(1),
    }
}

/// As [`last_index_when_shorter`], but only the first chunk can be an empty last chunk.
fn last_index_when_full(length: u64, first: u64, chunk: u64) -> Option<u64> {
    match length.checked_sub(first) {
        None | Some(0) => Some(0),
        Some(rest) => (rest - 1).checked_div(chunk)?.checked_add(1),
    }
}
