//! The index of a sealed tree: its entries, the files that hold them, and the keys of all files.
//!
//! A tree's *root* names *nodes*, which name *blocks*, which hold the *entries*. docs/design/formats.md
//! describes all of them. They are Cobblestone files; this module has their plaintext, and
//! [`TreeKeys`] has their keys. It reads and writes nothing, and every limit is checked before
//! memory is taken.

mod block;
mod border;
mod cbor;
mod entry;
mod job;
mod key_list;
mod keys;
mod name;
mod node;
mod padding;
mod path;
mod root;

#[cfg(test)]
mod tests;

pub use block::{Block, BlockWriter};
pub use border::Border;
pub use entry::{Attribute, Content, Entry, Kind, Times};
pub use job::{AttemptId, JobFile, JobId, JobKeys, JobNames, directory};
pub use keys::{Commitment, KeyId, Purpose, TreeId, TreeKeys, commitment_of};
pub use name::StorageName;
pub use node::{Node, NodeWriter, Reference};
pub use padding::Padding;
pub use path::{EntryPath, compare_directories};
pub use root::{Body, Claim, Kept, MOST_SKIPPED, Root, RootFile, SignerKeys};

/// The reason why an index can't be read or written. The caller names the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The bytes are not those of the format; the text says where.
    #[error("the index is malformed: {0}")]
    Malformed(&'static str),
    /// A limit of the format; the text says which.
    #[error("{0}")]
    Limit(&'static str),
    /// A root has a version or features that this program does not know.
    #[error("the tree needs a newer program: it uses {0}")]
    Unknown(String),
}

/// The most bytes of a block's plaintext before padding.
const MOST_BLOCK: usize = 512 << 10;
/// The most entries of a block.
const MOST_ENTRIES: usize = 4096;
/// The most bytes of a node's plaintext before padding.
const MOST_NODE: usize = 2 << 20;
/// The most references of a node.
const MOST_REFERENCES: usize = 8192;
/// The most bytes of a root's plaintext before padding.
const MOST_ROOT: usize = 8 << 20;
/// The most bytes of a file of the index, with all padding.
pub const MOST_FILE: u64 = 72 << 20;
/// The most bytes of a path.
const MOST_PATH: usize = 128 << 10;
