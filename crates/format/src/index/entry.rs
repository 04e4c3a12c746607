//! One entry of an index.

use crate::{Cobblestone, Layout};

use super::cbor::{Reader, Writer};
use super::key_list::KeyList;
use super::path::{MOST_NAME, is_name, is_path};
use super::{Commitment, IndexError, MOST_BLOCK, MOST_PATH, StorageName};

/// An entry of an index, without its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name: 1 to 255 bytes without `/` and NUL, not `.` or `..`. Only the root's own entry has
    /// an empty one.
    pub name: Vec<u8>,
    /// Its type, with what that has.
    pub kind: Kind,
    /// The permission bits, set-id and sticky bits included.
    pub mode: Option<u32>,
    /// The time of the last modification.
    pub modified: Option<Times>,
    /// The numbers of the user and the group that own it, if they were kept.
    pub owner: Option<(u32, u32)>,
    /// The extended attributes with their values, in the order of their names.
    pub attributes: Vec<Attribute>,
}

/// The name and the value of an extended attribute.
pub type Attribute = (Vec<u8>, Vec<u8>);

/// A time in seconds since 1970, and nanoseconds.
pub type Times = (i64, u32);

/// The type of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File(Content),
    /// A directory.
    Directory,
    /// A symbolic link to this path, which may lead anywhere.
    Symlink(Vec<u8>),
    /// A further name of the file with this path.
    Further(Vec<u8>),
}

/// Where and how the content of a file is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// The length in bytes. What is sealed behind it is padding.
    pub size: u64,
    /// The file in `data/`.
    pub name: StorageName,
    /// The first of its bytes there.
    pub offset: u64,
    /// The number of its bytes there.
    pub length: u64,
    /// The commitment in its header.
    pub commitment: [u8; 32],
    /// The tag of its last chunk.
    pub tag: [u8; 16],
    /// The writer's key that sealed it.
    pub key: Commitment,
    /// The generation at which its writer aimed.
    pub generation: u64,
    /// The BLAKE3 hash of its bytes, in signed trees.
    pub hash: Option<[u8; 32]>,
}

impl Entry {
    pub(super) fn write(&self, writer: &mut Writer<'_>, keys: &mut KeyList) {
        let more = match &self.kind {
            Kind::File(content) => 8 + usize::from(content.hash.is_some()),
            Kind::Directory => 0,
            Kind::Symlink(_) | Kind::Further(_) => 1,
        };
        writer.array(COMMON + more);
        writer.bytes(&self.name);
        writer.number(match self.kind {
            Kind::File(_) => 0,
            Kind::Directory => 1,
            Kind::Symlink(_) => 2,
            Kind::Further(_) => 3,
        });
        writer.optional(self.mode, |writer, mode| writer.number(mode.into()));
        writer.optional(self.modified, |writer, (seconds, _)| writer.signed(seconds));
        writer.number(self.modified.map_or(0, |(_, nanoseconds)| nanoseconds.into()));
        writer.optional(self.owner, |writer, (user, group)| {
            writer.array(2);
            writer.number(user.into());
            writer.number(group.into());
        });
        let attributes = Some(&self.attributes).filter(|attributes| !attributes.is_empty());
        writer.optional(attributes, |writer, attributes| {
            writer.array(2 * attributes.len());
            for part in attributes.iter().flat_map(|(name, value)| [name, value]) {
                writer.bytes(part);
            }
        });
        match &self.kind {
            Kind::File(content) => content.write(writer, keys),
            Kind::Directory => {}
            Kind::Symlink(target) | Kind::Further(target) => writer.bytes(target),
        }
    }

    /// Reads an entry of a directory.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        directory: &[u8],
        keys: &KeyList,
    ) -> Result<Entry, IndexError> {
        let length = reader.array(COMMON, COMMON + 9)?;
        let name = reader.bytes(MOST_NAME)?;
        let kind = reader.number()?;
        let mode = reader.optional(|reader| reader.small(u32::MAX))?;
        let seconds = reader.optional(Reader::signed)?;
        let nanoseconds = reader.small(if seconds.is_some() { u32::MAX } else { 0 })?;
        let owner = reader.optional(|reader| {
            reader.array(2, 2)?;
            Ok((reader.small(u32::MAX)?, reader.small(u32::MAX)?))
        })?;
        let attributes = reader.optional(read_attributes)?.unwrap_or_default();
        let kind = match (kind, length - COMMON) {
            (0, more @ 8..=9) => Kind::File(Content::read(reader, keys, more == 9)?),
            (1, 0) => Kind::Directory,
            (2, 1) => Kind::Symlink(reader.bytes(MOST_PATH)?),
            (3, 1) => Kind::Further(reader.bytes(MOST_PATH)?),
            _ => return Err(IndexError::Malformed("an entry has another type or length")),
        };
        let modified = seconds.map(|seconds| (seconds, nanoseconds));
        let entry = Entry { name, kind, mode, modified, owner, attributes };
        entry.check(directory)?;
        Ok(entry)
    }

    /// Checks an entry of a directory, whose own path is right.
    pub(super) fn check(&self, directory: &[u8]) -> Result<(), IndexError> {
        if self.name.len() > MOST_NAME {
            return Err(IndexError::Limit(
                "its name has more than 255 bytes, which is too much for a sealed tree",
            ));
        }
        let is_root = directory.is_empty() && self.name.is_empty() && self.kind == Kind::Directory;
        let has_times = self.modified.is_none_or(|(_, nanoseconds)| nanoseconds < 1_000_000_000);
        let fault = if !is_root && !is_name(&self.name) {
            "a name is invalid"
        } else if self.mode.is_some_and(|mode| mode > 0o7777) || !has_times {
            "a mode or a time is too large"
        } else if !are_attributes(&self.attributes) {
            "attributes are out of order, or have invalid names"
        } else {
            match &self.kind {
                Kind::File(content) if !content.is_possible() => "a file can't have this length",
                Kind::Symlink(target) if !is_target(target) => "the target of a link is invalid",
                Kind::Further(path) if !is_path(path) => "the path of a further name is invalid",
                _ => return Ok(()),
            }
        };
        Err(IndexError::Malformed(fault))
    }
}

impl Content {
    fn write(&self, writer: &mut Writer<'_>, keys: &mut KeyList) {
        writer.number(self.size);
        writer.bytes(self.name.bytes());
        writer.number(self.offset);
        writer.number(self.length);
        writer.bytes(&self.commitment);
        writer.bytes(&self.tag);
        writer.number(keys.number(self.key));
        writer.number(self.generation);
        if let Some(hash) = &self.hash {
            writer.bytes(hash);
        }
    }

    fn read(
        reader: &mut Reader<'_>,
        keys: &KeyList,
        has_hash: bool,
    ) -> Result<Content, IndexError> {
        Ok(Content {
            size: reader.number()?,
            name: StorageName::new(reader.fixed()?),
            offset: reader.number()?,
            length: reader.number()?,
            commitment: reader.fixed()?,
            tag: reader.fixed()?,
            key: keys.get(reader.number()?)?,
            generation: reader.generation()?,
            hash: has_hash.then(|| reader.fixed()).transpose()?,
        })
    }

    fn is_possible(&self) -> bool {
        self.offset.checked_add(self.length).is_some_and(|end| end >> 63 == 0)
            && Layout::for_plaintext(&Cobblestone::GEOMETRY, self.size)
                .is_ok_and(|layout| layout.sealed_length() <= self.length)
            && Layout::for_sealed(&Cobblestone::GEOMETRY, self.length).is_ok()
    }
}

fn read_attributes(reader: &mut Reader<'_>) -> Result<Vec<Attribute>, IndexError> {
    let length = reader.array(1, 2 * MOST_ATTRIBUTES)?;
    if length % 2 != 0 {
        return Err(IndexError::Malformed("an attribute lacks its value"));
    }
    let pair = |_| Ok((reader.bytes(MOST_NAME)?, reader.bytes(MOST_BLOCK)?));
    (0..length / 2).map(pair).collect()
}

fn are_attributes(attributes: &[Attribute]) -> bool {
    attributes.len() <= MOST_ATTRIBUTES
        && attributes.is_sorted_by(|(one, _), (next, _)| one < next)
        && attributes
            .iter()
            .all(|(name, _)| (1..=MOST_NAME).contains(&name.len()) && !name.contains(&0))
}

fn is_target(target: &[u8]) -> bool {
    (1..=MOST_PATH).contains(&target.len()) && !target.contains(&0)
}

/// The fields that every entry has.
const COMMON: usize = 7;

const MOST_ATTRIBUTES: usize = 1 << 15;
