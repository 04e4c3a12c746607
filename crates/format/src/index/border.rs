//! Where blocks and nodes begin.

use std::fmt;

use sha2::{Digest, Sha256};

use super::EntryPath;

/// Says at which paths blocks and nodes begin, so that an unchanged part of a tree has the same
/// ones in every generation. It is secret, so a store can't tell paths by lengths.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Border(pub [u8; 16]);

/// Where a path lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank(u32);

impl Border {
    /// Returns whether a block begins at this path.
    pub fn begins_block(&self, path: &EntryPath) -> bool {
        self.rank(path) >= BLOCK
    }

    /// Returns whether a node begins at a block that begins at this path.
    pub fn begins_node(&self, path: &EntryPath) -> bool {
        self.rank(path) >= NODE
    }

    fn rank(&self, path: &EntryPath) -> Rank {
        let mut hash = Sha256::new();
        hash.update(self.0);
        if !path.directory.is_empty() {
            hash.update(&path.directory);
            hash.update(b"/");
        }
        hash.update(&path.name);
        let hash = hash.finalize();
        let first = hash.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        Rank(first.leading_zeros())
    }
}

impl fmt::Debug for Border {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Border(redacted)")
    }
}

/// A block has 512 entries on average, and a node 1,024 blocks.
const BLOCK: Rank = Rank(9);
const NODE: Rank = Rank(19);
